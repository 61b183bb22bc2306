# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# How to compile what uses an adapter of dlbuf/interop/, to be sourced from the top of the tree.

# packages_of NAME: those that its example needs besides dlbuf, as it says itself, and its test besides those
packages_of()
{
	local source
	for source in "examples/$1.c" "examples/$1.cpp" "tests/interop/$1.c" "tests/interop/$1.cpp"; do
		[ ! -e "$source" ] ||
			sed -n '1,20s/.*pkg-config --cflags --libs dlbuf *\([^)]*\)).*/\1/p' "$source"
	done | xargs
}

# group_of NAME: the group of tests/guest/packages that has them
group_of()
{
	case $1 in
	rdma|verbs) echo net;;
	*) echo media;;
	esac
}

# compiler_for NAME COMPILER ARGS...: the machine's own, or where packages are needed for the guest's release
compiler_for()
{
	local name=$1
	shift
	command -v "$1" > /dev/null || skip "$1 is not installed"
	if [ -z "$(packages_of "$name")" ]; then
		"$@"
	else
		sysroot_or_skip "$name"
		tests/guest/cc --with "$(group_of "$name")" "$@"
	fi
}

# flags_of NAME --cflags|--libs...: what others' headers are warned about is theirs
flags_of()
{
	local packages
	packages=$(packages_of "$1")
	[ -n "$packages" ] || return 0
	# shellcheck disable=SC2086 # a list of names; why there is none, compiler_for says
	{ tests/guest/cc --with "$(group_of "$1")" pkg-config "${@:2}" $packages || true; } | sed 's/-I/-isystem /g'
}

# sysroot_or_skip NAME: the group's packages may be out of reach: then nothing is said about the adapter
sysroot_or_skip()
{
	local said
	[ -x tests/guest/cc ] || skip 'the lab has no sysroot'
	said=$(tests/guest/lab --with "$(group_of "$1")" --sysroot 2>&1 > /dev/null) || skip "no sysroot: $(tail -n 1 <<< "$said")"
}
