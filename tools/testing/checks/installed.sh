#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# installed.sh ours|stock KVER [ROOT]: says which ib_ipoib modprobe takes, and
# fails if it is not the one that is wanted.
set -eu

want=$1
kver=$2
root=${3:-}
dep=$root/lib/modules/$kver/modules.dep

if [ ! -r "$dep" ]; then
	echo "no $dep: was depmod run?" >&2
	exit 1
fi
file=$(sed -n 's,^\(.*/ib_ipoib\.ko[^:]*\):.*,\1,p' "$dep" | head -n 1)
case $want:$file in
ours:updates/*)
	echo "modprobe ib_ipoib takes $file (reload it, or reboot, to use it)"
	;;
stock:updates/*)
	echo "modprobe ib_ipoib still takes $file: was it installed by DKMS?" >&2
	exit 1
	;;
stock:)
	echo "no ib_ipoib is left: this kernel came without one"
	;;
stock:*)
	echo "modprobe ib_ipoib takes the distribution's $file"
	;;
*)
	echo "modprobe ib_ipoib takes ${file:-nothing}, not ours: does a file in /etc/depmod.d set another order?" >&2
	exit 1
	;;
esac
