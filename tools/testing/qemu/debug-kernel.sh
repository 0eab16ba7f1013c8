#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Builds the debug kernel into the cache, beside the distribution's kernels: it
# is then the kernel named "debug" of run.sh, kbuild.sh and kernels.sh.
#
#   debug-kernel.sh            build it if the cache does not have it for the
#                              present debug.config
#   debug-kernel.sh --update   look for a newer source first
#   debug-kernel.sh --path     build it if need be, print the directory
#   debug-kernel.sh --check    say whether the one in the cache is current
#
#   JOBS   of make (default: one for each CPU)
#
# It is Debian's linux-source-6.12, configured as tinyconfig plus debug.config:
# KASAN, lockdep, RCU and atomic-sleep checks, kmemleak, object, list and
# reference debugging, UBSAN, fault injection, KUnit, coverage of modules that
# ask for it, HZ=1000, preemption. Every line of debug.config is compared with
# the final .config: an option that did not stick ends the build.
#
# The first build takes 20 to 50 minutes on two CPUs and 4 GB below the cache,
# given back at the end; it goes on where an interrupted one stopped. With
# ccache (optional) a rebuild takes a few minutes. The compiler is the host's,
# Debian's gcc of its release.
#
# To make the most of it in a guest:
#   leaks       echo scan > /sys/kernel/debug/kmemleak, twice, some seconds
#               apart, then read it; the kernel never scans by itself
#   lockdep     is off after its first report: a test proves nothing unless
#               /proc/lockdep_stats says "debug_locks: 1" at its end
#   failslab    below /sys/kernel/debug; at 100 % even exec fails, so limit it
#               by require-start and require-end, and run from a tmpfs
#   hung tasks  are reported after 60 s: sysctl kernel.hung_task_timeout_secs

. "$(dirname "$0")/common.sh"
set -euo pipefail

SERIES=6.12
FRAGMENT=$RIG_DIR/debug.config
LINK=$RIG_CACHE/kernels/debug
JOBS=${JOBS:-$(nproc)}

host_release() {
	(. /etc/os-release; echo "${VERSION_CODENAME-}")
}

# sum: what the build depends on besides the source
sum() {
	sha256sum < "$FRAGMENT" | cut -c 1-12
}

# current: does the cache have the kernel of this fragment?
current() {
	[ -e "$LINK/release" ] && [ "$(cat "$LINK/fragment.sum")" = "$(sum)" ]
}

# tools: what the build needs beyond the packages of deps.sh
tools() {
	local missing=() p

	for p in flex bison; do
		command -v "$p" > /dev/null || missing+=("$p")
	done
	[ ${#missing[@]} -eq 0 ] ||
		die "the debug kernel needs: apt-get install --no-install-recommends ${missing[*]}"
	need make make
	need "$CC" "$CC"
	need bc bc
	need xz xz-utils
	need depmod kmod
	echo '#include <gelf.h>' | "$CC" -E -o /dev/null - 2> /dev/null ||
		die "gelf.h is missing: run tools/testing/qemu/deps.sh (Debian package libelf-dev)"
}

# unpack DIR VERSION: the source, whole, into DIR; kept from an earlier run
unpack() {
	local dir=$1

	[ ! -e "$dir/.unpacked" ] || return 0
	rm -rf "$dir"
	apt_fetch "$dir.deb" "linux-source-$SERIES=$2"
	mkdir -p "$dir"
	say "unpacking linux-source-$SERIES $2"
	dpkg-deb --fsys-tarfile "$dir.deb"/*.deb |
	tar -xO "./usr/src/linux-source-$SERIES.tar.xz" |
	tar -xJ -C "$dir" --strip-components=1 ||
		die "cannot unpack the kernel's source: is there space in $RIG_CACHE?"
	rm -rf "$dir.deb"
	touch "$dir/.unpacked"
}

# stuck CONFIG: compare every line of the fragment with the final .config, print
# those that are not so
stuck() {
	awk '
		function name(line) {
			if (line ~ /^CONFIG_[A-Z0-9_a-z]+=/)
				return substr(line, 1, index(line, "=") - 1)
			if (line ~ /^# CONFIG_[A-Z0-9_a-z]+ is not set$/)
				return $2
			return ""
		}
		{ n = name($0) }
		n == "" { next }
		NR == FNR { have[n] = $0; next }
		{
			got = n in have ? have[n] : "# " n " is not set"
			if (got == $0)
				next
			printf "wanted: %s, got: %s\n", $0, got
			bad = 1
		}
		END { exit bad }' "$1" "$FRAGMENT"
}

# configure DIR: tinyconfig and the fragment; an old .config is kept if nothing
# has changed, so that make goes on where it stopped
configure() {
	local dir=$1 lost

	(
		cd "$dir"
		mkdir -p .rig
		rm -f .rig/config
		kmake KCONFIG_CONFIG=.rig/config tinyconfig
		KCONFIG_CONFIG=.rig/config scripts/kconfig/merge_config.sh -m \
			.rig/config "$FRAGMENT"
		kmake KCONFIG_CONFIG=.rig/config olddefconfig
	) > "$dir/config.log" 2>&1 ||
		die "cannot configure the debug kernel (log: $dir/config.log)"
	lost=$(stuck "$dir/.rig/config") ||
		die "options of $FRAGMENT that did not stick:
$lost"
	cmp -s "$dir/.rig/config" "$dir/.config" ||
		cp "$dir/.rig/config" "$dir/.config"
}

# kmake ARGUMENTS: make in the source, at the lowest priority, the same bytes
# each time
kmake() {
	nice -n 19 make -j"$JOBS" CC="$WRAP$CC" HOSTCC="$WRAP$CC" \
		KBUILD_BUILD_TIMESTAMP='1970-01-01 00:00:00 +0000' \
		KBUILD_BUILD_USER=ipoib KBUILD_BUILD_HOST=rig "$@"
}

# compile DIR: image and modules, a line of progress now and then
compile() {
	local dir=$1

	say "building the debug kernel (make -j$JOBS; log: $dir/build.log)"
	{ (cd "$dir" && kmake bzImage modules) 2>&1 || echo "build failed"; } |
	tee "$dir/build.log" |
	awk -v me="${0##*/}" '
		/^build failed$/ { exit 1 }
		NR % 300 == 0 { print me ": " NR " steps of about 2200" > "/dev/stderr" }' ||
		die "the debug kernel does not build (log: $dir/build.log):
$(grep -E -m 5 'error: |[*]{3} ' "$dir/build.log")"
}

# install DIR TMP FINAL: bring image, modules and what builds modules into the
# cache's form
install_kernel() {
	local dir=$1 tmp=$2 final=$3 release

	release=$(cat "$dir/include/config/kernel.release")
	(
		cd "$dir"
		kmake INSTALL_MOD_PATH="$tmp" INSTALL_MOD_STRIP=1 modules_install
		# shellcheck disable=SC2016	# make's own variable
		kmake run-command KBUILD_RUN_COMMAND='+$(srctree)/scripts/package/install-extmod-build '"$tmp/build"
	) > "$dir/install.log" 2>&1 ||
		die "cannot install the debug kernel (log: $dir/install.log)"
	cp "$dir/arch/x86/boot/bzImage" "$tmp/vmlinuz"
	cp "$dir/.config" "$tmp/config"
	cp "$dir/System.map" "$tmp/System.map"
	rm -f "$tmp/lib/modules/$release"/{build,source}
	ln -s "$final/build" "$tmp/lib/modules/$release/build"
	[ -n "$(find "$tmp/lib/modules" -name rdma_rxe.ko -print -quit)" ] ||
		die "no rdma_rxe in the modules of $release"
	depmod -b "$tmp" "$release"
	echo "$CC" > "$tmp/gcc"
	echo "$SUITE" > "$tmp/suite"
	sum > "$tmp/fragment.sum"
	echo "$release" > "$tmp/release"
}

# forget FINAL: drop the debug kernels that FINAL replaces
forget() {
	local d

	for d in "$LINK"-*; do
		[ "$d" = "$1" ] || rm -rf "$d"
	done
}

build() {
	local version work final tmp

	lock kernel-debug
	if [ -z "$UPDATE" ] && current; then
		return 0
	fi
	SUITE=$(host_release)
	case $SUITE in
	bookworm) CC=gcc-12 ;;
	trixie) CC=gcc-14 ;;
	*) die "the debug kernel is built on Debian 12 or 13 only" ;;
	esac
	tools
	WRAP=
	if command -v ccache > /dev/null; then
		WRAP='ccache '
		export CCACHE_DIR=$RIG_CACHE/ccache
	fi
	apt_setup "$SUITE"
	version=$(apt_versions "linux-source-$SERIES" | head -n 1)
	[ -n "$version" ] ||
		die "no linux-source-$SERIES for $SUITE in the archive of your apt sources"
	final=$LINK-$version-$(sum)
	if [ -e "$final/release" ]; then
		ln -sfn "${final##*/}" "$LINK"
		return 0
	fi
	work=$RIG_CACHE/build/linux-$version
	unpack "$work" "$version"
	configure "$work"
	compile "$work"
	tmp=$(scratch "$final")
	install_kernel "$work" "$tmp" "$final"
	publish "$tmp" "$final" debug
	forget "$final"
	rm -rf "$RIG_CACHE"/build/linux-*
	say "debug kernel: $(cat "$final/release") (linux-source-$SERIES $version)"
}

UPDATE=
case ${1-} in
"") ;;
--update) UPDATE=1 ;;
--path) ;;
--check)
	current || die "the cache has no debug kernel of the present debug.config"
	say "debug kernel $(cat "$LINK/release") is current"
	exit
	;;
-h | --help)
	sed -n '3,/^$/s/^# \{0,1\}//p' "$0"
	exit
	;;
*) die "unknown option $1 (see --help)" ;;
esac
(build)
[ "${1-}" != --path ] || realpath "$LINK"
