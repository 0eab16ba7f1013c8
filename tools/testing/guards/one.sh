#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# one.sh MODULE THEME CASE...: in a guest that has several builds of the driver,
# runs cases of a theme with $MODULES/MODULE.ko
set -eu

own=$(mktemp -d)
ln -s "$MODULES/softib.ko" "$own/softib.ko"
ln -s "$MODULES/$1.ko" "$own/ib_ipoib.ko"
theme=$2
shift 2
export MODULES=$own CASES="$*"
exec bash "../selftests/ipoib/$theme"
