# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-only
#
# What the harness scripts share: messages, the cache, locks, and access to
# package archives through an apt configuration of our own. To be sourced.
#
#   IPOIB_RIG_CACHE   the cache (default ${XDG_CACHE_HOME:-~/.cache}/ipoib-rig)
#
# An entry of the cache is built in a directory of another name and renamed
# when it is complete: what has its final name is whole.

RIG_DIR=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
RIG_CACHE=${IPOIB_RIG_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/ipoib-rig}
# shellcheck disable=SC2034	# for the scripts that source this file
RIG_TOP=$(cd "$RIG_DIR/../../.." && pwd)

say() {
	printf '%s: %s\n' "${0##*/}" "$*" >&2
}

die() {
	say "$*"
	exit 1
}

# need TOOL PACKAGE: one clear line when a tool of the host is missing
need() {
	command -v "$1" > /dev/null ||
		die "$1 is missing: run tools/testing/qemu/deps.sh (Debian package $2)"
}

# lock NAME: wait for a lock of the cache, held until this (sub)shell ends: take
# it in a subshell
lock() {
	local fd

	mkdir -p "$RIG_CACHE/locks" ||
		die "cannot write the cache $RIG_CACHE (set IPOIB_RIG_CACHE)"
	exec {fd}> "$RIG_CACHE/locks/$1"
	if ! flock -n "$fd"; then
		say "waiting for another run that prepares $1"
		flock "$fd"
	fi
}

# scratch DIR: a new build directory beside the final name DIR; those of
# interrupted runs are removed (the caller holds DIR's lock)
scratch() {
	rm -rf "$1".tmp.* &&
	mkdir -p "$(dirname "$1")" &&
	mktemp -d "$1.tmp.XXXXXX" &&
	chmod 755 "$1".tmp.*
}

# publish TMP DIR NAME: TMP becomes DIR, and the link NAME beside it points there
publish() {
	rm -rf "$2" &&
	mv -T "$1" "$2" &&
	ln -sfn "$(basename "$2")" "$(dirname "$2")/$3.new" &&
	mv -T "$(dirname "$2")/$3.new" "$(dirname "$2")/$3"
}

# host_archive SUFFIX: URI of the archive that serves Debian's release (SUFFIX
# empty) or its security suite (-security), after the host's own apt sources
host_archive() {
	# shellcheck disable=SC2016	# apt's own variables
	apt-get indextargets --format '$(CREATED_BY) $(RELEASE) $(COMPONENT) $(REPO_URI)' |
	awk -v s="$1" '
		$1 == "Packages" && $3 == "main" &&
		$2 ~ "^(bookworm|trixie|stable|oldstable|forky|testing)" s "$" {
			print $4; exit
		}'
}

# host_keys: the key rings the host's sources name, and Debian's own
host_keys() {
	local keys

	keys=$({
		grep -rhoiE '(signed-by:|signed-by=)[^]]*' \
			/etc/apt/sources.list /etc/apt/sources.list.d 2> /dev/null |
			grep -oE '/[^ ,]*debian[^ ,]*'
		ls /usr/share/keyrings/debian-archive-keyring.{gpg,pgp} 2> /dev/null
	} | sort -u | paste -sd, -)
	[ -z "$keys" ] || printf '[signed-by=%s] ' "$keys"
}

# sources RELEASE [backports]: one-line sources for a Debian release
sources() {
	local uri sec opt

	uri=$(host_archive "")
	[ -n "$uri" ] ||
		die "the apt sources of this host name no Debian archive (suite bookworm or trixie, component main)"
	opt=$(host_keys)
	echo "deb $opt$uri $1 main"
	[ "$1" != sid ] || return 0
	sec=$(host_archive -security)
	[ -z "$sec" ] || echo "deb $opt$sec $1-security main"
	[ -z "${2-}" ] || echo "deb $opt$uri $1-backports main"
}

# apt_setup RELEASE: write and update a private apt configuration for it; sets
# APT_CONF for the functions below. The host's settings for proxies and
# transports stay in force, its hooks and its state are left out. The archive may
# be a snapshot: lists are signed, but may be old.
apt_setup() {
	local dir=$RIG_CACHE/apt/$1

	need apt-get apt
	lock "apt-$1"
	mkdir -p "$dir/lists/partial" "$dir/archives/partial"
	sources "$1" backports > "$dir/sources.list.new"
	if ! cmp -s "$dir/sources.list.new" "$dir/sources.list"; then
		mv "$dir/sources.list.new" "$dir/sources.list"
	fi
	: > "$dir/status"
	APT_CONF=$dir/apt.conf
	cat > "$APT_CONF" <<-CONF
		#clear APT::Update;
		#clear DPkg;
		APT::Architecture "amd64";
		#clear APT::Architectures;
		APT::Sandbox::User "root";
		Acquire::Check-Valid-Until "false";
		Acquire::Retries "3";
		Acquire::Languages "none";
		#clear Acquire::IndexTargets::deb::DEP-11;
		#clear Acquire::IndexTargets::deb::Contents-deb;
		Dir::Etc::SourceList "$dir/sources.list";
		Dir::Etc::SourceParts "/dev/null";
		Dir::Etc::Preferences "/dev/null";
		Dir::Etc::PreferencesParts "/dev/null";
		Dir::State::Lists "$dir/lists";
		Dir::State::Status "$dir/status";
		Dir::State::extended_states "$dir/extended_states";
		Dir::Cache "$dir";
		Dir::Cache::Archives "$dir/archives";
		Dir::Cache::pkgcache "$dir/pkgcache.bin";
		Dir::Cache::srcpkgcache "";
	CONF
	say "reading the package lists of $1"
	apt-get -c "$APT_CONF" -qq update ||
		die "cannot read the package lists of $1: is the archive of your apt sources reachable, and does it have $1-backports?"
}

# apt_versions PACKAGE: the versions on offer, the newest first
apt_versions() {
	apt-cache -c "$APT_CONF" madison "$1" | awk '{ print $3 }' | sort -urV
}

# apt_fetch DIR PACKAGE=VERSION...: download packages into DIR
apt_fetch() {
	local dir=$1

	shift
	mkdir -p "$dir"
	say "fetching $*"
	(cd "$dir" && apt-get -c "$APT_CONF" -qq download "$@") ||
		die "cannot download $*: check the network, then run this again"
}
