#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# kscripts.sh: prints the directory that holds scripts/ of the kernel's source
# (checkpatch and what it reads), fetched from Debian's linux-source package
# into the cache the first time.

# shellcheck source=tools/testing/qemu/common.sh
. "$(dirname "$0")/../qemu/common.sh"
set -euo pipefail

SERIES=6.12
WANT=(checkpatch.pl spelling.txt const_structs.checkpatch kernel-doc)

final=$RIG_CACHE/kscripts-$SERIES
lock kscripts
if [ ! -e "$final/scripts/checkpatch.pl" ]; then
	need dpkg-deb dpkg
	need xz xz-utils
	apt_setup bookworm
	version=$(apt_versions "linux-source-$SERIES" | head -n 1)
	[ -n "$version" ] || die "no linux-source-$SERIES on offer for bookworm"
	tmp=$(scratch "$final")
	apt_fetch "$tmp/deb" "linux-source-$SERIES=$version"
	say "unpacking the kernel's scripts"
	dpkg-deb --fsys-tarfile "$tmp"/deb/*.deb |
		tar -xO --wildcards './usr/src/linux-source-*.tar.xz' |
		tar -xJ -C "$tmp" --strip-components=1 "${WANT[@]/#/linux-source-$SERIES/scripts/}"
	rm -rf "$tmp/deb"
	rm -rf "$final"
	mv -T "$tmp" "$final"
fi
echo "$final/scripts"
