#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Fetches Debian's kernels into the cache: headers and kbuild tools to build
# modules against, image and modules to boot. Nothing is installed.
#
#   kernels.sh [--update] [KVER...]   fetch (default: 6.1 6.12 7.3); what is in
#                                     the cache is kept unless --update is given
#   kernels.sh --path KVER            fetch if need be, print the directory
#   kernels.sh --chroot RELEASE       the same for the tool chain's root
#
# KVER is a series of Debian's, or "debug": debug-kernel.sh builds that one.
#
# In the directory of a kernel:
#   release          its `uname -r`
#   gcc              the compiler it was built with
#   build/           what `make -C` wants
#   vmlinuz, lib/modules/<release>/
#
# A tool chain of the same release is needed to build modules (the host tools in
# linux-kbuild want its libc): if the host has another release, a chroot is made.

. "$(dirname "$0")/common.sh"
set -euo pipefail

# what of the distribution's modules a guest may need, below kernel/
MODULE_DIRS=(
	arch block crypto lib mm net virt
	drivers/infiniband drivers/virtio drivers/block drivers/char/hw_random
	drivers/char/virtio_console.ko drivers/net/bonding drivers/net/team
	drivers/net/dummy.ko drivers/net/ifb.ko drivers/net/macvlan.ko
	drivers/net/ipvlan drivers/net/net_failover.ko drivers/net/netconsole.ko
	drivers/net/netdevsim drivers/net/nlmon.ko drivers/net/tun.ko drivers/net/tap.ko
	drivers/net/veth.ko drivers/net/virtio_net.ko drivers/net/vrf.ko
	drivers/net/vxlan drivers/nvme/host drivers/nvme/target drivers/nvme/common
	drivers/net/ethernet/mellanox drivers/net/mdio.ko drivers/net/macsec.ko
	drivers/dax drivers/dca drivers/ptp drivers/pps drivers/scsi
	fs/9p fs/configfs fs/ext4 fs/fscache fs/jbd2 fs/lockd fs/mbcache.ko
	fs/netfs fs/nfs fs/nfs_common fs/nfsd fs/nls fs/overlayfs fs/pstore fs/squashfs
	fs/fuse kernel
)

# release_of KVER: the Debian release that has this series, and where its
# newest packages are
release_of() {
	case $1 in
	6.1 | 6.12) echo bookworm ;;
	7.*) echo trixie ;;
	*) die "no Debian release is known to have Linux $1 (6.1, 6.12 or 7.x)" ;;
	esac
}

# image_packages RELEASE: what holds the image and the modules (split since 7.x)
image_packages() {
	if [ -n "$(apt_versions "linux-modules-$1")" ]; then
		echo "linux-binary-$1 linux-modules-$1 linux-base-$1"
	else
		echo "linux-image-$1"
	fi
}

# has_all VERSION PACKAGE...: is every package on offer in this version?
has_all() {
	local version=$1 p

	shift
	for p; do
		apt_versions "$p" | grep -qxF "$version" || return 1
	done
}

# candidates KVER: "VERSION RELEASE" of all header packages of a series, the
# newest first
candidates() {
	local p v

	apt-cache -c "$APT_CONF" pkgnames "linux-headers-$1." |
	grep -E "^linux-headers-${1//./\\.}\.[0-9][^-]*(-[0-9]+)?-amd64\$" |
	while read -r p; do
		for v in $(apt_versions "$p"); do
			echo "$v ${p#linux-headers-}"
		done
	done | sort -rV
}

# kbuild_package RELEASE VERSION: which kbuild tools the headers want
kbuild_package() {
	apt-cache -c "$APT_CONF" show "linux-headers-$1=$2" |
	sed -nE 's/^Depends: .*(linux-kbuild-[^ ,]*).*/\1/p' | head -n 1
}

# compiler RELEASE VERSION: the gcc the headers' dependencies name
compiler() {
	apt-cache -c "$APT_CONF" show "linux-headers-$1=$2" |
	sed -nE 's/^Depends: .*(gcc-[0-9]+).*/\1/p' | head -n 1
}

# choose KVER: set VERSION, RELEASE and PACKAGES to the newest build of which
# everything is on offer in the same version
choose() {
	local v r p

	while read -r v r; do
		read -ra p <<< "linux-headers-$r linux-headers-${r%-amd64}-common \
			$(kbuild_package "$r" "$v") $(image_packages "$r")"
		has_all "$v" "${p[@]}" || continue
		VERSION=$v
		RELEASE=$r
		PACKAGES=("${p[@]/%/=$v}")
		return 0
	done < <(candidates "$1")
	return 1
}

# unpack_image DEB DIR: the image, and those modules that tests may want
unpack_image() {
	local want=() d prefix

	for prefix in ./lib/modules/ ./usr/lib/modules/; do
		want+=("${prefix}$RELEASE/modules.*")
		for d in "${MODULE_DIRS[@]}"; do
			want+=("${prefix}$RELEASE/kernel/$d*")
		done
	done
	dpkg-deb --fsys-tarfile "$1" |
	tar -x -C "$2" --wildcards --no-anchored --exclude './usr/share/*' \
		"${want[@]}" './boot/vmlinuz*' "./lib/modules/$RELEASE/vmlinuz" \
		"./usr/lib/modules/$RELEASE/vmlinuz" 2> "$2/tar.log" ||
		grep -q 'Not found in archive' "$2/tar.log" ||
		die "cannot unpack $(basename "$1"): $(head -n 1 "$2/tar.log")"
	rm -f "$2/tar.log"
}

# settle DIR FINAL: bring the unpacked packages into the cache's form
settle() {
	local dir=$1 final=$2 f

	if [ -d "$dir/usr/lib/modules" ]; then
		mkdir -p "$dir/lib"
		cp -al "$dir/usr/lib/modules" "$dir/lib/"
		rm -rf "$dir/usr/lib/modules"
	fi
	f=$(find "$dir" -path "$dir/usr/src" -prune -o -name "vmlinuz*" -type f -print -quit)
	[ -n "$f" ] || die "no kernel image in ${PACKAGES[*]}"
	mv "$f" "$dir/vmlinuz"
	rm -rf "${dir:?}/boot"
	rm -f "$dir/lib/modules/$RELEASE"/{build,source}
	find "$dir/lib/modules" -name '*.ko.xz' -exec xz -d {} +
	find "$dir/lib/modules" -name '*.ko.zst' -exec zstd -q -d --rm {} +
	[ -n "$(find "$dir/lib/modules" -name 'rdma_rxe.ko' -print -quit)" ] ||
		die "no rdma_rxe in the modules of $RELEASE"
	f=$dir/usr/src/linux-headers-$RELEASE
	sed -i "s#/usr/src/linux-#$final&#" "$f/Makefile"
	grep -qF "$final/usr/src/linux-headers-" "$f/Makefile" ||
		die "the headers of $RELEASE have a Makefile of a new form"
	ln -s "usr/src/linux-headers-$RELEASE" "$dir/build"
	ln -s "$final/build" "$dir/lib/modules/$RELEASE/build"
	depmod -b "$dir" "$RELEASE"
}

# sparse_gate DIR: kernels since 7.x ask scripts/checker-valid.sh whether the
# checker understands today's C, and headers packages leave it out. Ours
# answers by the same question: does it parse __typeof_unqual__?
sparse_gate() {
	local scripts

	scripts=$(echo "$1"/usr/lib/linux-kbuild-*/scripts)
	[ ! -e "$scripts/checker-valid.sh" ] || return 0
	cat > "$scripts/checker-valid.sh" <<-'GATE'
		#!/bin/sh
		# prints 1 if the checker given, with its flags, can do its work
		src=$(mktemp) || exit 1
		trap 'rm -f "$src"' EXIT
		echo 'static int same(const int *p) { __typeof_unqual__(*p) v = *p; return v; }' > "$src"
		case $("$@" "$src" 2>&1) in
		*error*) echo 0 ;;
		*) echo 1 ;;
		esac
	GATE
	chmod 755 "$scripts/checker-valid.sh"
}

fetch_kernel() {
	local kver=$1 release tmp final deb

	if [ "$kver" = debug ]; then
		"$RIG_DIR/debug-kernel.sh" ${UPDATE:+--update}
		return
	fi
	release=$(release_of "$kver")
	lock "kernel-$kver"
	if [ -e "$RIG_CACHE/kernels/$kver/release" ] && [ -z "$UPDATE" ]; then
		return 0
	fi
	need depmod kmod
	need xz xz-utils
	need zstd zstd
	apt_setup "$release"
	choose "$kver" ||
		die "no complete Linux $kver (headers and image of one version) for $release; on offer: $(candidates '' | awk '{ print $2 }' | paste -sd ' ' -)"
	final=$RIG_CACHE/kernels/$kver-$VERSION
	if [ -e "$final/release" ]; then
		ln -sfn "$(basename "$final")" "$RIG_CACHE/kernels/$kver"
		return 0
	fi
	tmp=$(scratch "$final")
	apt_fetch "$tmp/deb" "${PACKAGES[@]}"
	for deb in "$tmp"/deb/*.deb; do
		case ${deb##*/} in
		linux-headers-* | linux-kbuild-*) dpkg -x "$deb" "$tmp" ;;
		*) unpack_image "$deb" "$tmp" ;;
		esac
	done
	rm -rf "${tmp:?}/deb" "${tmp:?}/usr/share"
	settle "$tmp" "$final"
	sparse_gate "$tmp"
	compiler "$RELEASE" "$VERSION" > "$tmp/gcc"
	echo "$release" > "$tmp/suite"
	echo "$RELEASE" > "$tmp/release"
	publish "$tmp" "$final" "$kver"
	say "Linux $kver: $RELEASE ($VERSION)"
}

# chroot_packages RELEASE: what builds modules there
chroot_packages() {
	local common=make,libc6-dev,sparse,pahole,binutils,kmod,bc,perl-base

	case $1 in
	bookworm) echo "$common,gcc-12,libelf1,libssl3,zlib1g" ;;
	trixie) echo "$common,gcc-14,libelf1t64,libssl3t64,zlib1g" ;;
	esac
}

# newer_sparse DIR: 7.x wants a sparse that is newer than the release's; take
# the one in sid, which runs on the release's libraries
newer_sparse() {
	local version

	(
		apt_setup sid
		version=$(apt_versions sparse | head -n 1)
		[ -n "$version" ] || die "no sparse in sid"
		apt_fetch "$1/root/deb" "sparse=$version"
		dpkg -x "$1"/root/deb/sparse_*.deb "$1"
		rm -rf "$1/root/deb"
	)
}

fetch_chroot() {
	local release=$1 tmp final key mirror

	[ -n "$(chroot_packages "$release")" ] ||
		die "no tool chain is known for Debian $release"
	lock "chroot-$release"
	if [ -d "$RIG_CACHE/chroots/$release" ] && [ -z "$UPDATE" ]; then
		return 0
	fi
	need mmdebstrap mmdebstrap
	apt_setup "$release"
	key=$(apt_versions "$(chroot_packages "$release" | grep -oE 'gcc-[0-9]+')" | head -n 1)
	[ -n "$key" ] || die "no compiler for $release"
	final=$RIG_CACHE/chroots/$release-$key
	if [ -d "$final" ]; then
		ln -sfn "$(basename "$final")" "$RIG_CACHE/chroots/$release"
		return 0
	fi
	tmp=$(scratch "$final")
	say "making a root with the tool chain of Debian $release"
	mirror=$(sources "$release")
	printf '%s\n' "$mirror" |
	mmdebstrap --quiet --variant=apt --include="$(chroot_packages "$release")" \
		"$release" "$tmp" - ||
		die "cannot make the root of $release: check the network and the space in $RIG_CACHE"
	[ "$release" != trixie ] || newer_sparse "$tmp"
	rm -rf "$tmp"/var/cache/apt/archives/*.deb "$tmp"/var/lib/apt/lists/*_Packages*
	publish "$tmp" "$final" "$release"
}

host_release() {
	(. /etc/os-release; echo "${VERSION_CODENAME-}")
}

# fetch KVER: the kernel, and the root of its tool chain where one is needed
# (always for trixie: its own sparse is too old for 7.x)
fetch() {
	local suite

	(fetch_kernel "$1")
	suite=$(cat "$RIG_CACHE/kernels/$1/suite")
	if [ "$suite" != bookworm ] || [ "$(host_release)" != bookworm ]; then
		(fetch_chroot "$suite")
	fi
}

UPDATE=
case ${1-} in
--path)
	(fetch_kernel "$2")
	realpath "$RIG_CACHE/kernels/$2"
	exit
	;;
--chroot)
	(fetch_chroot "$2")
	realpath "$RIG_CACHE/chroots/$2"
	exit
	;;
--update)
	UPDATE=1
	shift
	;;
-h | --help)
	sed -n '3,/^$/s/^# \{0,1\}//p' "$0"
	exit
	;;
-*) die "unknown option $1 (see --help)" ;;
esac
[ $# -gt 0 ] || set -- 6.1 6.12 7.3
for kver; do
	fetch "$kver"
done
