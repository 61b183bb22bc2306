# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# Packages of other suites of Debian, unpacked once into a cache outside the tree. Sourced, with $tmp set.
#
#	suites NAME PACKAGE FILE OPTION...	what the cache NAME has: PACKAGE, what it depends on, by these options of
#						mmdebstrap. FILE is one that has to be in it
#	suites_hip				that of the steps with HIP
#	unpacked SUITE [OPTION...]		sets $dir, or the case is skipped with the reason

# shellcheck source=tests/guest/cache
. tests/guest/cache

suites()
{
	unpacked_in=$cache/$1-$(echo "$*" | sha256sum | cut -c1-12)
	cache_use "$1-$2" "$unpacked_in"
	package=$2 file=$3 options=("${@:4}")
}

# HIP without the largest of what is in its packages: the last option that matches holds.
suites_hip()
{
	suites hip libamdhip64-dev usr/include/hip/hip_runtime_api.h --architectures=amd64 \
		--dpkgopt='path-include=/usr/include/hip/*' --dpkgopt='path-include=/usr/include/hsa/*' \
		--dpkgopt='path-include=/usr/lib/x86_64-linux-gnu/*' --dpkgopt='path-include=/usr/lib64/*' \
		--dpkgopt='path-exclude=/usr/lib/x86_64-linux-gnu/libgallium*' --dpkgopt='path-exclude=/usr/lib/x86_64-linux-gnu/perl*'
}

# No package is installed: what is unpacked is taken out before.
unpack()
{
	local opts=() line uri
	command -v mmdebstrap >/dev/null || { echo 'mmdebstrap is not installed'; return 1; }
	[ "$(id -u)" = 0 ] || opts+=(--mode=unshare)
	while read -r line; do
		opts+=(--aptopt="$line")
	done < <(apt-config dump 2>/dev/null | grep -E '^Acquire::(https?::|Retries|Check-)')
	uri=$(tests/guest/rootfs --mirror || true)
	mkdir -p "$dir.$$"
	# shellcheck disable=SC2016 # the hook's
	mmdebstrap --format=null --variant=extract --include="$package" --aptopt='Acquire::Check-Valid-Until "false"' \
		--dpkgopt='path-exclude=/*' "${options[@]}" "${opts[@]}" "${@:2}" \
		--extract-hook='tar -C "$1" -cf - usr >&9' "$1" /dev/null ${uri:+"$uri"} 9>&1 > /dev/null 2> "$tmp/said" |
		tar -C "$dir.$$" --no-same-owner -xf - || { grep -m 1 'No space left' "$tmp/said" || tail -n 1 "$tmp/said"; rm -rf "$dir.$$"; return 1; }
	[ -f "$dir.$$/$file" ] || { echo "it has no $file"; rm -rf "$dir.$$"; return 1; }
	# If two do this at once, the first one counts: the other has made the same.
	mv -T "$dir.$$" "$dir" 2>/dev/null || rm -rf "$dir.$$"
}

unpacked()
{
	local no=$tmp/no-${unpacked_in##*/}-$1 suite=$1
	dir=$unpacked_in/$1
	# It has no base system of its own.
	[ "$1" != experimental ] || suite=sid
	# shellcheck disable=SC2016 # the hook's
	[ "$1" != experimental ] || set -- "$@" --aptopt='APT::Default-Release "experimental"' --setup-hook='cd "$1/etc/apt" &&
		sed "s/ sid / experimental /" sources.list > sources.list.d/experimental.list'
	[ -d "$unpacked_in" ] || cache_sweep
	mkdir -p "$unpacked_in"
	cache_hold "$unpacked_in" || true
	[ -d "$dir" ] || [ -e "$no" ] || unpack "$suite" "${@:2}" > "$no" 2>&1 ||
		echo "there is no $package of $1 here: $(tail -n 1 "$no")" > "$no"
	[ -d "$dir" ] || skip "$(cat "$no")"
}
