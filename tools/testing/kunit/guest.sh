#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Runs the suites in the guest and prints what they say. A suite of the sources
# that has no results has failed.

# shellcheck disable=SC2153	# MODULES comes from outside
KO=$MODULES/ipoib_kunit.ko
RESULTS_DIR=/sys/kernel/debug/kunit

if ! modprobe kunit 2> /dev/null; then
	echo "KTAP version 1"
	echo "1..1"
	echo "ok 1 kunit # SKIP this kernel has no KUnit"
	exit 4
fi
for d in $(modinfo -F depends "$KO" | tr ',' ' '); do
	modprobe "$d" || exit 1
done
insmod "$KO" || exit 1

mapfile -t suites < <(sed -n 's/^\t\.name = "\(ipoib_[a-z_]*\)",$/\1/p' ./*.c)
echo "KTAP version 1"
echo "1..${#suites[@]}"
failed=0
n=0
for s in "${suites[@]}"; do
	n=$((n + 1))
	# a file of debugfs has no size before it is read
	if ! results=$(cat "$RESULTS_DIR/$s/results") || [ -z "$results" ]; then
		echo "not ok $n $s"
		echo "# it did not run"
		failed=1
		continue
	fi
	# its own head and number give way to ours
	sed -E -e '1,2{/^(KTAP|1\.\.)/d}' -e "s/^(not ok|ok) 1 /\1 $n /" <<< "$results"
	grep -q "^ok 1 $s" <<< "$results" || failed=1
done
rmmod ipoib_kunit || failed=1
exit "$failed"
