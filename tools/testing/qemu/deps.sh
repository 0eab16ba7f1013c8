#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Installs what the project needs of the host, Debian 12 or 13, and says what.
#
#   deps.sh            install what is missing (as root)
#   deps.sh --check    only say what is missing; status 1 if anything is
#   deps.sh --list     the packages
#
# Kernels, headers, compilers for other releases and the guests' root are not
# among them: kernels.sh and rootfs.sh keep those in the cache.

. "$(dirname "$0")/common.sh"
set -euo pipefail

PACKAGES=(
	# to build
	make gcc libc6-dev libelf-dev bc kmod
	# to make guests
	qemu-system-x86 mmdebstrap squashfs-tools busybox-static cpio xz-utils zstd
	debian-archive-keyring util-linux python3
	# to check
	sparse shellcheck perl
)

# The headers of 6.1 and 6.12 are built with bookworm's compiler; on another
# release they are built in a root of bookworm that has it.
host() {
	. /etc/os-release
	case ${VERSION_CODENAME-} in
	bookworm) PACKAGES+=(gcc-12) ;;
	trixie) ;;
	*) say "this is ${PRETTY_NAME-an unknown system}; the packages are named as in Debian 12 and 13" ;;
	esac
}

missing() {
	local p

	for p in "${PACKAGES[@]}"; do
		dpkg-query -W -f '${db:Status-Status}\n' "$p" 2> /dev/null |
			grep -qx installed || echo "$p"
	done
}

command -v dpkg-query > /dev/null ||
	die "this needs a Debian host (12 or 13): run the project in such a container or guest"
host
case ${1-} in
--list)
	printf '%s\n' "${PACKAGES[@]}"
	exit
	;;
--check | "") ;;
-h | --help)
	sed -n '3,/^$/s/^# \{0,1\}//p' "$0"
	exit
	;;
*) die "unknown option $1 (see --help)" ;;
esac

mapfile -t want < <(missing)
if [ ${#want[@]} -eq 0 ]; then
	say "all packages are installed"
	exit
fi
if [ "${1-}" = --check ]; then
	die "missing: ${want[*]} (install: apt-get install --no-install-recommends ${want[*]})"
fi
[ "$(id -u)" -eq 0 ] ||
	die "run as root: apt-get install --no-install-recommends ${want[*]}"
say "installing ${want[*]}"
export DEBIAN_FRONTEND=noninteractive
if ! apt-get -qq install --no-install-recommends "${want[@]}" > /dev/null; then
	say "again with fresh package lists"
	{ apt-get -qq update &&
	apt-get -qq install --no-install-recommends "${want[@]}" > /dev/null; } ||
		die "cannot install: check the network and the apt sources, or install by hand: ${want[*]}"
fi
say "installed ${want[*]}"
