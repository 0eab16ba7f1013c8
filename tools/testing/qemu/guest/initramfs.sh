#!/bin/busybox sh
# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=dash
#
# /init of a guest's initramfs: load what the disks need, put a writable layer
# over the root and the kernel's modules, go there.

bb=/bin/busybox
$bb mkdir -p /proc /sys /dev /layers/root /layers/modules /layers/rw /root
$bb mount -t proc proc /proc
$bb mount -t sysfs sys /sys
$bb mount -t devtmpfs dev /dev
echo '<5>rig: init' > /dev/kmsg

stop() {
	echo "<3>rig: boot failed: $*" > /dev/kmsg
	echo o > /proc/sysrq-trigger
	$bb sleep 60
}

for m in /mods/*.ko; do
	[ ! -e "$m" ] || $bb insmod "$m" || stop "insmod $m"
done
if $bb grep -q rig.probe /proc/cmdline; then
	echo '<3>rig: probe ok' > /dev/kmsg
	echo o > /proc/sysrq-trigger
	$bb sleep 60
fi

# disk NAME: the block device with this serial number, once it is there
disk() {
	i=0
	while [ $i -lt 300 ]; do
		for d in /sys/block/vd*; do
			if [ "$($bb cat "$d/serial" 2> /dev/null)" = "$1" ]; then
				echo "/dev/${d##*/}"
				return
			fi
		done
		i=$((i + 1))
		$bb usleep 100000
	done
}

$bb mount -t squashfs -o ro "$(disk root)" /layers/root || stop "no root"
$bb mount -t squashfs -o ro "$(disk modules)" /layers/modules || stop "no modules"
$bb mount -t tmpfs rw /layers/rw
$bb mkdir /layers/rw/upper /layers/rw/work
$bb mount -t overlay -o \
	lowerdir=/layers/modules:/layers/root,upperdir=/layers/rw/upper,workdir=/layers/rw/work \
	root /root || stop "no overlay"
$bb cp -a /payload/. /root/ || stop "no payload"
for d in proc sys dev; do
	$bb mount --move /$d /root/$d
done
exec $bb switch_root /root /rig/init
