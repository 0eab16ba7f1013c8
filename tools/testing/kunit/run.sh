#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Builds the KUnit suites of the driver's sources and runs them in a guest; KTAP.
#
#   run.sh             on the debug kernel, which is built first if need be (20 to
#                      50 minutes, once)
#   run.sh --cached    only if the cache has that kernel already, else a skip
#
# Debian's kernels have no KUnit (CONFIG_KUNIT is not set), the debug kernel has.

cd "$(dirname "$0")/../../.." || exit 1
QEMU=tools/testing/qemu
OUT=build/debug/.kunit
set -uo pipefail

case ${1-} in
"") ;;
--cached)
	if ! why=$($QEMU/debug-kernel.sh --check 2>&1); then
		echo "KTAP version 1"
		echo "1..1"
		echo "ok 1 kunit # SKIP ${why#*: } ($QEMU/debug-kernel.sh builds it)"
		exit 4
	fi
	;;
*)
	sed -n '3,/^$/s/^# \{0,1\}//p' "$0"
	exit 2
	;;
esac

if ! $QEMU/kbuild.sh debug tools/testing/kunit $OUT >&2; then
	echo "not ok 0 kunit.build"
	exit 1
fi
exec $QEMU/run.sh --kernel debug --modules $OUT tools/testing/kunit/guest.sh
