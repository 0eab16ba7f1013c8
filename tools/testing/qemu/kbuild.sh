#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Builds the modules of a directory against one of the cached kernels.
#
#   kbuild.sh KVER SRCDIR OUTDIR [make arguments]
#
#   kbuild.sh 6.12 . build/6.12
#   kbuild.sh 7.3 tools/testing/softib build/7.3/softib W=1 C=2
#
# The modules end up in OUTDIR; OUTDIR/.build mirrors the project as a farm of
# links, so that sources stay clean, builds for several kernels do not meet, and
# a second run compiles what has changed. Messages name the real sources. With
# C=2 it is an error if the checker did not run.
# A kernel of another Debian release than the host's is built in a root of that
# release, in a mount namespace of its own.

. "$(dirname "$0")/common.sh"
set -euo pipefail

case ${1-} in
"" | -h | --help)
	sed -n '3,/^$/s/^# \{0,1\}//p' "$0"
	exit
	;;
esac
[ $# -ge 3 ] || die "usage: kbuild.sh KVER SRCDIR OUTDIR [make arguments]"
KVER=$1
SRC=$(realpath "$2") || die "no directory $2"
mkdir -p "$3"
OUT=$(realpath "$3")
shift 3
need make make
need flock util-linux

# The tree to mirror: a module may include files of its neighbours.
case $SRC/ in
"$RIG_TOP"/*) TOP=$RIG_TOP ;;
*) TOP=$SRC ;;
esac
FARM=$OUT/.build

# farm: links to all that a build may read, and none to what is gone
farm() {
	local f dst

	mkdir -p "$FARM"
	while IFS= read -r -d '' f; do
		dst=$FARM/${f#"$TOP"/}
		[ ! "$dst" -ef "$f" ] || continue
		[ -d "${dst%/*}" ] || mkdir -p "${dst%/*}"
		ln -sfn "$f" "$dst"
	done < <(find "$TOP" \( -name .git -o -name .build -o -path "$OUT" \) -prune -o \
		-type f \( -name '*.[chS]' -o -name 'Kbuild*' -o -name 'Makefile*' \
		-o -name '*.mk' -o -name '*.sh' -o -name '*.pl' -o -name '*.py' \) \
		! -name '*.mod.c' -print0)
	find "$FARM" -xtype l -delete
}

# in_root DIR COMMAND...: run it in a root directory, with the paths it works on
# mounted at the same place; the mounts vanish with the namespace
in_root() {
	local root=$1 private=(-m) p

	shift
	[ "$(id -u)" -eq 0 ] || private=(-r -m)
	for p in "$TOP" "$OUT" "$KDIR"; do
		mkdir -p "$root$p"
	done
	[ -e "$root/dev/null" ] || : > "$root/dev/null"
	# shellcheck disable=SC2016	# for the inner shell
	unshare "${private[@]}" --propagation private bash -c '
		set -e
		root=$1 top=$2 out=$3 kdir=$4; shift 4
		mount --rbind /proc "$root/proc"
		mount --bind /dev/null "$root/dev/null"
		mount --bind "$top" "$root$top"
		mount --bind "$kdir" "$root$kdir"
		mount --bind "$out" "$root$out"
		exec chroot "$root" /usr/bin/env PATH=/usr/local/bin:/usr/bin:/bin \
			HOME=/tmp LC_ALL=C "$@"
	' in_root "$root" "$TOP" "$OUT" "$KDIR" "$@"
}

"$RIG_DIR/kernels.sh" "$KVER"
KDIR=$(realpath "$RIG_CACHE/kernels/$KVER")
suite=$(cat "$KDIR/suite")
cc=$(cat "$KDIR/gcc")
run=()
if [ "$suite" != bookworm ] || [ "$(. /etc/os-release; echo "${VERSION_CODENAME-}")" != bookworm ]; then
	run=(in_root "$(realpath "$RIG_CACHE/chroots/$suite")")
else
	need "$cc" "$cc"
fi

exec {guard}> "$OUT/.lock"
flock "$guard"
farm
M=$FARM/${SRC#"$TOP"}
M=${M%/}
log=$OUT/build.log
status=0
# BTF of modules would need pahole of the kernel's age on the host
"${run[@]}" make -C "$KDIR/build" M="$M" CC="$cc" -j"$(nproc)" \
	CONFIG_DEBUG_INFO_BTF_MODULES= modules "$@" 2>&1 |
	sed -u "s|$FARM//*|$TOP/|g" | tee "$log" || status=$?
[ "$status" -eq 0 ] ||
	die "the build for $KVER failed (log: $log)"
case " $* " in
*" C=2 "*)
	grep -q '^  CHECK ' "$log" ||
		die "the checker did not run for $KVER (log: $log)"
	;;
esac
find "$OUT" -maxdepth 1 -name '*.ko' -delete
find "$M" -name '*.ko' -exec ln -f {} "$OUT" \;
[ ! -e "$M/Module.symvers" ] || ln -f "$M/Module.symvers" "$OUT"
