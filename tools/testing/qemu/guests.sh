# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Guests for a test that runs on the host. To be sourced.
#
#   guests_init [DIR]            first; DIR keeps logs and results (default: a
#                                temporary directory). Ends all guests on exit.
#   guest_start N KVER DRIVER [MODULES]
#                                boot guest N (1...). DRIVER ours | stock: with
#                                stock, MODULES/ib_ipoib.ko stays out of it. A
#                                guest that was killed or stopped can be started
#                                again, with another kernel or driver too.
#   guest_run N COMMAND          a shell command in the guest: passes on stdout,
#                                stderr and status; 124 it took too long, 125 the
#                                guest is gone
#   guest_test N SCRIPT [ARG]... a test of tools/testing in the guest (judged)
#   guest_put N FILE PATH        copy a file into the guest
#   guest_kill N                 power cut: SIGKILL to QEMU
#   guest_freeze N, guest_thaw N SIGSTOP and SIGCONT
#   guest_alive N                is it running?
#   guest_wait N [SECONDS]       until it has ended by itself
#   guest_stop N                 orderly end; fails if the guest does not manage,
#                                or if its kernel log is bad
#   guest_judge N                print what is bad in the kernel log; fails if
#                                anything is
#   guest_dir N                  where console.log (of the last boot; those of all
#                                are console.*.log) and results/ with dmesg.log are
#
# Guests 1 and 2 are joined by a virtual Ethernet when GUEST_NET is set: eth0
# with MTU 9000 and the address 52:54:00:00:00:0N. It has no connection, so
# either end may die and come back; what is sent to a dead one is lost.
#
# Set before guest_start:
#   GUEST_MEM= (MiB, default 1536)  GUEST_SMP=2  GUEST_NET=  GUEST_SLUB= (1:
#                         slub_debug)
#   GUEST_TIMEOUT=        seconds a command may take (guest_run, guest_test;
#                         default 1800)
#   GUEST_HUNG=           hung task limit (default 20 s, 120 s when emulated)
#
# The debug kernel gets more of all these: see slow().
#
#   GUEST_APPEND=         more kernel arguments
#   GUEST_ENV=()          NAME=VALUE for commands, besides KVER DRIVER ITER CASES
#                         VERBOSE RESULTS MODULES
#
# Do not call guest_start in a subshell: a guest dies with the shell that
# started it.

. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

GUEST_MEM=${GUEST_MEM:-}
GUEST_SMP=${GUEST_SMP:-2}
GUEST_NET=${GUEST_NET:-}
GUEST_SLUB=${GUEST_SLUB:-}
GUEST_TIMEOUT=${GUEST_TIMEOUT:-}
GUEST_HUNG=${GUEST_HUNG:-}
GUEST_APPEND=${GUEST_APPEND:-}
GUEST_ENV=()

# modules that a guest needs before it has its root
BOOT_MODULES=(virtio_pci virtio_blk virtio_console virtio_net squashfs overlay
	9pnet_virtio 9p)

# slow KVER N: N as it is, or for the debug kernel three times as much: so much
# slower is emulated KASAN with lockdep
slow() {
	if [ "$1" = debug ]; then echo $(($2 * 3)); else echo "$2"; fi
}

guests_init() {
	need qemu-system-x86_64 qemu-system-x86
	need cpio cpio
	need setpriv util-linux
	need /usr/bin/python3 python3
	GUESTS_RUN=$(mktemp -d "${TMPDIR:-/tmp}/rig.XXXXXX")
	GUESTS_DIR=${1:-$GUESTS_RUN/logs}
	mkdir -p "$GUESTS_DIR"
	GUESTS_DIR=$(realpath "$GUESTS_DIR")
	declare -gA GUEST_PID=() GUEST_BOOT=() GUEST_KVER=() GUEST_DRIVER=()
	GUEST_TREE=
	trap guests_cleanup EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM
}

guests_cleanup() {
	local n

	for n in "${!GUEST_PID[@]}"; do
		guest_kill "$n"
	done
	rm -rf "$GUESTS_RUN"
}

### images ###

# boot_images KVER: make what a guest of this kernel boots from, print where
boot_images() {
	local kdir rel key final tmp

	kdir=$(realpath "$RIG_CACHE/kernels/$1")
	rel=$(cat "$kdir/release")
	key=$(cat "$RIG_DIR/guest/initramfs.sh" "$RIG_DIR/guests.sh" | sha256sum | cut -c 1-12)
	final=$RIG_CACHE/boot/$(basename "$kdir")-$key
	(
		lock "boot-$1"
		[ ! "$final/initramfs" -nt "$kdir/vmlinuz" ] || exit 0
		need mksquashfs squashfs-tools
		need busybox busybox-static
		tmp=$(scratch "$final") &&
		boot_modules "$kdir/lib/modules/$rel" "$tmp" &&
		boot_initramfs "$kdir" "$rel" "$tmp" &&
		publish "$tmp" "$final" "$1"
	) || return 1
	echo "$final"
}

# boot_modules MODULES DIR: the distribution's modules as a file system
boot_modules() {
	local tree=$2/tree rel=${1##*/}

	mkdir -p "$tree/usr/lib/modules" &&
	cp -a "$1" "$tree/usr/lib/modules/" &&
	rm -f "$tree/usr/lib/modules/$rel/build" &&
	mksquashfs "$tree" "$2/modules.squashfs" -comp lz4 -noappend -quiet \
		-no-progress -all-root > /dev/null &&
	rm -rf "$tree"
}

# boot_initramfs KDIR RELEASE DIR: the part that is the same for every run
boot_initramfs() {
	local tree=$3/tree n=100 m f seen=" "

	mkdir -p "$tree"/{bin,mods}
	cp /bin/busybox "$tree/bin/"
	cp "$RIG_DIR/guest/initramfs.sh" "$tree/init"
	for m in "${BOOT_MODULES[@]}"; do
		while read -r _ f _; do
			case $seen in
			*" $f "*) continue ;;
			esac
			seen+="$f "
			cp "$f" "$tree/mods/$n-${f##*/}"
			n=$((n + 1))
		done < <(modprobe -C /dev/null -d "$1" -S "$2" --show-depends "$m" |
			grep '^insmod ')
	done
	[ "$n" -gt 100 ] || grep -q virtio_blk "$1/lib/modules/$2/modules.builtin" || die "no modules to boot $2 with"
	archive "$tree" > "$3/initramfs" &&
	touch "$3/initramfs" &&
	rm -rf "$tree"
}

# archive DIR: as an initramfs of root's files
archive() {
	(cd "$1" && find . -print0 | cpio --null --create --format=newc --owner=0:0 --quiet)
}

# payload DIR KVER DRIVER MODULES: what this run brings along: the first process,
# the agent, the tests, and our modules in updates/
payload() {
	local dir=$1 kdir rel mods

	kdir=$(realpath "$RIG_CACHE/kernels/$2")
	rel=$(cat "$kdir/release")
	mods=$dir/payload/usr/lib/modules/$rel
	rm -rf "$dir/payload" "$dir/depmod"
	mkdir -p "$dir/payload/rig/modules" "$mods/updates" "$dir/depmod/lib/modules"
	cp "$RIG_DIR"/guest/{init,agent,run-test,judge} "$dir/payload/rig/"
	payload_tree "$dir/payload/rig/tree"
	if [ -n "$4" ]; then
		find "$(realpath "$4")" -maxdepth 1 -name '*.ko' -exec cp {} "$dir/payload/rig/modules/" \;
		[ "$3" = ours ] || rm -f "$dir/payload/rig/modules/ib_ipoib.ko"
		find "$dir/payload/rig/modules" -name '*.ko' -exec cp {} "$mods/updates/" \;
	fi
	cp -as "$kdir/lib/modules/$rel" "$dir/depmod/lib/modules/"
	cp -r "$mods/updates" "$dir/depmod/lib/modules/$rel/"
	depmod -b "$dir/depmod" "$rel"
	find "$dir/depmod/lib/modules/$rel" -maxdepth 1 -name 'modules.*' -type f \
		-exec cp {} "$mods/" \;
	mkdir "$dir/wrap"
	mv "$dir/payload" "$dir/wrap/payload"
	archive "$dir/wrap" > "$dir/payload.cpio"
	rm -rf "$dir/wrap" "$dir/depmod"
}

# payload_tree DIR: a copy of the tests as they are now
payload_tree() {
	local base=$RIG_TOP/tools

	mkdir -p "$1/tools"
	(cd "$base" && find testing -path testing/qemu -prune -o -type f ! -name '*.ko' \
		! -name '*.o' ! -name '.*' -size -1024k -print0 |
		cpio --null --quiet -pdm "$1/tools")
	if [ -n "$GUEST_TREE" ]; then
		mkdir -p "$1/extra"
		cp -r "$GUEST_TREE/." "$1/extra/"
	fi
}

### QEMU ###

# boot_limit KVER: seconds from the start of QEMU to the agent's first answer
boot_limit() {
	if [ "$GUEST_ACCEL" = kvm ]; then slow "$1" 60; else slow "$1" 180; fi
}

# guest_memory KVER: MiB; shadow memory and records of locks take their share
guest_memory() {
	if [ -n "$GUEST_MEM" ]; then
		echo "$GUEST_MEM"
	elif [ "$1" = debug ]; then
		echo 2048
	else
		echo 1536
	fi
}

accel_options() {
	if [ "$1" = kvm ]; then
		echo -accel kvm -cpu host
	else
		echo -accel tcg,thread=multi -cpu max
	fi
}

# find_accel KVER: set GUEST_ACCEL to kvm if a probe boot shows that it works, to
# tcg else. The answer holds until the host boots again.
find_accel() {
	local cache

	[ -z "${GUEST_ACCEL-}" ] || return 0
	GUEST_ACCEL=tcg
	[ -w /dev/kvm ] || return 0
	cache=$RIG_CACHE/accel/$(cat /proc/sys/kernel/random/boot_id)
	mkdir -p "$RIG_CACHE/accel"
	if [ ! -e "$cache" ]; then
		say "trying /dev/kvm"
		if probe_kvm "$1"; then echo kvm; else echo tcg; fi > "$cache"
	fi
	GUEST_ACCEL=$(cat "$cache")
}

probe_kvm() {
	local images

	images=$(boot_images "$1") || return 1
	# shellcheck disable=SC2046	# options
	timeout -k 1 30 qemu-system-x86_64 -M q35 $(accel_options kvm) -m 512 -nodefaults \
		-no-reboot -display none -kernel "$RIG_CACHE/kernels/$1/vmlinuz" \
		-initrd "$images/initramfs" -append "console=ttyS0 quiet panic=1 rig.probe" \
		-serial "file:$GUESTS_RUN/probe.log" > /dev/null 2>&1
	grep -q 'rig: probe ok' "$GUESTS_RUN/probe.log"
}

# kernel_arguments N
kernel_arguments() {
	local hung=20 watchdog=10 kver=${GUEST_KVER[$1]}

	if [ "$GUEST_ACCEL" != kvm ]; then
		hung=120
		watchdog=30
	fi
	# lockup detectors take 60 s at most
	[ "$kver" != debug ] || watchdog=$((watchdog * 2))
	echo "console=ttyS0 loglevel=5 panic=1 oops=panic rig.host=guest$1" \
		"rig.hung=${GUEST_HUNG:-$(slow "$kver" $hung)} rig.watchdog=$watchdog" \
		"rcupdate.rcu_cpu_stall_timeout=$((watchdog * 2))" \
		"$([ -z "$GUEST_SLUB" ] || echo slub_debug=FZPU)" \
		"log_buf_len=4M printk.devkmsg=on net.ifnames=0 $GUEST_APPEND"
}

# network N: the guest's end of the Ethernet
network() {
	local peer=$((3 - $1))

	if [ -z "$GUEST_NET" ]; then
		echo -nic none
		return
	fi
	echo -netdev "dgram,id=n0,local.type=unix,local.path=$GUESTS_RUN/net$1,remote.type=unix,remote.path=$GUESTS_RUN/net$peer" \
		-device "virtio-net-pci,netdev=n0,mac=52:54:00:00:00:0$1,host_mtu=9000"
}

# qemu N KVER: start it, set GUEST_PID
qemu() {
	local n=$1 kver=$2 images=$3 dir=$GUESTS_RUN/$1

	rm -f "$dir/agent"
	# shellcheck disable=SC2046	# options
	setpriv --pdeathsig KILL qemu-system-x86_64 -name "guest$n" -M q35 \
		$(accel_options "$GUEST_ACCEL") -smp "$GUEST_SMP" -m "$(guest_memory "$kver")" \
		-nodefaults -no-reboot -display none \
		-kernel "$RIG_CACHE/kernels/$kver/vmlinuz" -initrd "$dir/initrd" \
		-append "$(kernel_arguments "$n")" \
		-chardev "file,id=console,path=$GUEST_CONSOLE" -serial chardev:console \
		-drive "if=none,id=root,format=raw,readonly=on,file=$GUEST_ROOT" \
		-device virtio-blk-pci,drive=root,serial=root \
		-drive "if=none,id=modules,format=raw,readonly=on,file=$images/modules.squashfs" \
		-device virtio-blk-pci,drive=modules,serial=modules \
		-device virtio-serial-pci \
		-chardev "socket,id=agent,path=$dir/agent,server=on,wait=off" \
		-device virtserialport,chardev=agent,name=rig.agent \
		-fsdev "local,id=results,path=$GUESTS_DIR/guest$n/results,security_model=mapped-file" \
		-device virtio-9p-pci,fsdev=results,mount_tag=results \
		-device virtio-rng-pci \
		$(network "$n") > "$dir/qemu.log" 2>&1 < /dev/null &
	GUEST_PID[$n]=$!
}

agent() {
	local n=$1

	shift
	"$RIG_DIR/agent.py" "$GUESTS_RUN/$n/agent" "$@"
}

# await_agent N: until the agent answers; fails when QEMU ends or time is up
await_agent() {
	local end=$((SECONDS + $(boot_limit "${GUEST_KVER[$1]}")))

	while guest_alive "$1" && [ $SECONDS -lt $end ]; do
		if [ -S "$GUESTS_RUN/$1/agent" ] &&
			agent "$1" --timeout $((end - SECONDS + 1)) ping; then
			return 0
		fi
		sleep 0.1
	done
	return 1
}

### the interface ###

guest_dir() {
	echo "$GUESTS_DIR/guest$1"
}

guest_alive() {
	[ -n "${GUEST_PID[$1]-}" ] && kill -0 "${GUEST_PID[$1]}" 2> /dev/null
}

# guest_prepare N KVER DRIVER MODULES: all that is needed to boot it
guest_prepare() {
	local n=$1 images

	[ -z "$4" ] || [ -d "$4" ] || die "no directory $4"
	"$RIG_DIR/kernels.sh" "$2" || exit 1
	GUEST_ROOT=$("$RIG_DIR/rootfs.sh" --path) || exit 1
	find_accel "$2"
	images=$(boot_images "$2") || exit 1
	mkdir -p "$GUESTS_RUN/$n" "$(guest_dir "$n")/results"
	payload "$GUESTS_RUN/$n" "$2" "$3" "$4"
	cat "$images/initramfs" "$GUESTS_RUN/$n/payload.cpio" > "$GUESTS_RUN/$n/initrd"
	GUEST_IMAGES=$images
}

# guest_console N: a new file for the next boot, with the link console.log to it;
# before the first boot of this run, what an earlier run has left is removed
guest_console() {
	local dir

	dir=$(guest_dir "$1")
	[ -n "${GUEST_BOOT[$1]-}" ] ||
		rm -f "$dir"/{console,no-boot}.* "$dir/results/dmesg.log"
	GUEST_BOOT[$1]=$((${GUEST_BOOT[$1]-0} + 1))
	GUEST_CONSOLE=$dir/console.${GUEST_BOOT[$1]}.log
	: > "$GUEST_CONSOLE"
	ln -sfn "${GUEST_CONSOLE##*/}" "$dir/console.log"
}

guest_start() {
	local n=$1 kver=$2 driver=$3 try

	! guest_alive "$n" || die "guest $n is running"
	guest_prepare "$n" "$kver" "$driver" "${4-}"
	GUEST_KVER[$n]=$kver
	GUEST_DRIVER[$n]=$driver
	for try in 1 2 3; do
		guest_console "$n"
		qemu "$n" "$kver" "$GUEST_IMAGES"
		! await_agent "$n" || return 0
		guest_kill "$n"
		! grep -qa 'rig: init' "$GUEST_CONSOLE" || break
		say "guest $n died before its first process (boot $try of 3)"
		mv "$GUEST_CONSOLE" "$(guest_dir "$n")/no-boot.${GUEST_BOOT[$n]}.log"
		GUEST_CONSOLE=$(guest_dir "$n")/no-boot.${GUEST_BOOT[$n]}.log
	done
	say "guest $n ($kver) does not come up; the end of its console:"
	{
		cat "$GUESTS_RUN/$n/qemu.log"
		tail -n 25 "$GUEST_CONSOLE"
	} >&2
	return 1
}

guest_run() {
	local n=$1 env=() e

	for e in "KVER=${GUEST_KVER[$n]}" "DRIVER=${GUEST_DRIVER[$n]}" "ITER=${ITER:-1}" \
		"CASES=${CASES-}" "VERBOSE=${VERBOSE-}" RESULTS=/rig/results \
		MODULES=/rig/modules "ACCEL=$GUEST_ACCEL" "${GUEST_ENV[@]}"; do
		env+=(--env "$e")
	done
	# in the background, since a trap waits for what runs in front
	agent "$n" --timeout "${GUEST_TIMEOUT:-$(slow "${GUEST_KVER[$n]}" 1800)}" run "${env[@]}" "$2" &
	wait $!
}

# guest_path SCRIPT: where it is in the guest
guest_path() {
	local p

	p=$(realpath "$1") || return 1
	case $p in
	"$RIG_TOP"/tools/testing/*) echo "/rig/tree/${p#"$RIG_TOP"/}" ;;
	*) echo "/rig/tree/extra/${p##*/}" ;;
	esac
}

guest_test() {
	local n=$1 cmd

	shift
	cmd=$(guest_path "$1") || return 1
	shift
	guest_run "$n" "exec /rig/run-test ${cmd@Q} ${*@Q}"
}

guest_put() {
	guest_run "$1" "base64 -d > ${3@Q} <<< $(base64 -w 0 "$2")"
}

guest_kill() {
	local pid=${GUEST_PID[$1]-}

	[ -n "$pid" ] || return 0
	unset "GUEST_PID[$1]"
	kill -CONT "$pid" 2> /dev/null
	kill -KILL "$pid" 2> /dev/null
	wait "$pid" 2> /dev/null
	return 0
}

guest_freeze() {
	kill -STOP "${GUEST_PID[$1]}"
}

guest_thaw() {
	kill -CONT "${GUEST_PID[$1]}"
}

guest_wait() {
	local end=$((SECONDS + ${2:-${GUEST_TIMEOUT:-1800}}))

	while guest_alive "$1"; do
		[ $SECONDS -lt $end ] || return 1
		sleep 0.1
	done
	guest_kill "$1"
}

guest_stop() {
	local rc=0 limit=20

	[ "$GUEST_ACCEL" = kvm ] || limit=90
	limit=$(slow "${GUEST_KVER[$1]-}" "$limit")
	if ! guest_alive "$1"; then
		say "guest $1 has died"
		rc=1
	elif ! agent "$1" --timeout "$limit" poweroff || ! guest_wait "$1" "$limit"; then
		say "guest $1 does not power off"
		rc=1
	fi
	guest_kill "$1"
	guest_judge "$1" || rc=1
	return $rc
}

guest_judge() {
	local f rc=0

	for f in "$(guest_dir "$1")"/{console.[0-9]*.log,results/dmesg.log}; do
		[ ! -e "$f" ] || "$RIG_DIR/guest/judge" "$f" >&2 || rc=1
	done
	return $rc
}
