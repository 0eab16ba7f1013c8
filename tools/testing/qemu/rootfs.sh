#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Makes the guests' root file system: a squashfs of Debian packages, kept in the
# cache and made anew when this file changes.
#
#   rootfs.sh [--update]    make it if need be
#   rootfs.sh --path        the same, and print its path
#
# Packages are only unpacked: a guest runs no init and no services, so nothing
# there needs to be configured.

. "$(dirname "$0")/common.sh"
set -euo pipefail

RELEASE=bookworm
PACKAGES=(
	base-files base-passwd bash coreutils dash diffutils findutils gawk grep gzip
	hostname libc-bin login mount procps sed tar util-linux busybox-static
	python3-minimal python3 kmod strace tcpdump
	iproute2 iperf3 ethtool iputils-ping iputils-arping ndisc6 netcat-openbsd
	conntrack nftables
	rdma-core ibverbs-utils ibverbs-providers infiniband-diags perftest
)

# finish DIR: what the packages' scripts would have done
finish() {
	local dir=$1 d

	for d in bin sbin lib lib64; do
		[ -L "$dir/$d" ] || [ ! -d "$dir/$d" ] || {
			cp -a "$dir/$d/." "$dir/usr/$d/"
			rm -rf "${dir:?}/$d"
		}
		mkdir -p "$dir/usr/$d"
		[ -L "$dir/$d" ] || ln -s "usr/$d" "$dir/$d"
	done
	[ -e "$dir/bin/sh" ] || ln -s dash "$dir/bin/sh"
	[ -e "$dir/usr/bin/awk" ] || ln -s gawk "$dir/usr/bin/awk"
	[ -e "$dir/usr/bin/nc" ] || ln -s nc.openbsd "$dir/usr/bin/nc"
	mkdir -p "$dir"/{dev,proc,sys,run,tmp,root,rig} "$dir/usr/lib/modules"
	cp "$dir/usr/share/base-passwd/passwd.master" "$dir/etc/passwd"
	cp "$dir/usr/share/base-passwd/group.master" "$dir/etc/group"
	printf '127.0.0.1 localhost\n::1 localhost\n' > "$dir/etc/hosts"
	echo rig > "$dir/etc/hostname"
	rm -rf "$dir"/usr/share/{doc,man,locale,info,lintian,bug} "$dir"/var/cache/apt \
		"$dir"/var/lib/apt "$dir"/usr/lib/modules/*
	mkdir -p "$dir/usr/local/busybox"
	applets "$dir"
	# an emulated guest would spend seconds on each start of Python
	as_root chroot "$dir" /bin/sh -c 'python3 -m compileall -q /usr/lib/python3*' ||
		die "cannot compile Python's library in the guests' root"
	ldconfig -r "$dir" || die "cannot index the libraries of the guests' root"
}

as_root() {
	if [ "$(id -u)" -eq 0 ]; then "$@"; else unshare -r "$@"; fi
}

# applets DIR: busybox stands in for tools that no package brings
applets() {
	local applet

	"$1/bin/busybox" --list | while read -r applet; do
		[ "$applet" = busybox ] || ln -sf /bin/busybox "$1/usr/local/busybox/$applet"
	done
}

make_root() {
	local key final tmp

	key=$(sha256sum "$RIG_DIR/rootfs.sh" | cut -c 1-12)
	final=$RIG_CACHE/rootfs/$key
	lock rootfs
	if [ -e "$final/root.squashfs" ] && [ -z "$UPDATE" ]; then
		ln -sfn "$key" "$RIG_CACHE/rootfs/current"
		return 0
	fi
	need mmdebstrap mmdebstrap
	need mksquashfs squashfs-tools
	tmp=$(scratch "$final")
	say "making the guests' root (Debian $RELEASE)"
	sources "$RELEASE" |
	mmdebstrap --quiet --variant=extract --include="${PACKAGES[*]}" \
		--aptopt='Acquire::Retries "3"' "$RELEASE" "$tmp/root" - ||
		die "cannot make the guests' root: check the network and the space in $RIG_CACHE"
	finish "$tmp/root"
	mksquashfs "$tmp/root" "$tmp/root.squashfs" -comp lz4 -noappend -quiet \
		-no-progress -all-root > "$tmp/log" ||
		die "mksquashfs failed: $(tail -n 1 "$tmp/log")"
	rm -rf "$tmp/root" "$tmp/log"
	publish "$tmp" "$final" current
}

UPDATE=
case ${1-} in
"" | --path) ;;
--update) UPDATE=1 ;;
-h | --help)
	sed -n '3,/^$/s/^# \{0,1\}//p' "$0"
	exit
	;;
*) die "unknown option $1 (see --help)" ;;
esac
(make_root)
[ "${1-}" != --path ] || echo "$(realpath "$RIG_CACHE/rootfs/current")/root.squashfs"
