#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# The checks of the drain engine that need no guest, as one KTAP report with a
# group for each: explorer, random walk, Promela model, mutations.
#
#   run.sh [explore] [walk] [promela] [mutate]    default: all but mutate
#
# SEED changes the random walk.
set -uo pipefail

HERE=$(cd "$(dirname "$0")" && pwd) || exit 1
OUT=$HERE/../../../build/model
groups=("$@")
[ $# -gt 0 ] || groups=(explore walk promela)

if ! command -v gcc > /dev/null || ! command -v make > /dev/null; then
	echo "KTAP version 1"
	echo "1..0 # SKIP gcc or make is missing: apt-get install gcc make libc6-dev"
	exit 4
fi
make -s -C "$HERE" all >&2 || {
	echo "Bail out! the explorer does not compile"
	exit 1
}

group() {
	case $1 in
	explore) "$OUT/explore" ;;
	walk) "$OUT/explore" --walk --seed "${SEED:-1}" ;;
	promela) "$HERE/promela.sh" ;;
	mutate) "$HERE/mutate.py" ;;
	*) echo "Bail out! no such group: $1"; return 1 ;;
	esac
}

echo "KTAP version 1"
echo "1..${#groups[@]}"
number=0
failed=0
for name in "${groups[@]}"; do
	number=$((number + 1))
	group "$name" | sed -u 's/^/    /'
	rc=${PIPESTATUS[0]}
	case $rc in
	0) echo "ok $number $name" ;;
	4) echo "ok $number $name # SKIP" ;;
	*) echo "not ok $number $name"; failed=1 ;;
	esac
done
exit $failed
