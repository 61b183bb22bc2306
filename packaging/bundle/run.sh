#!/bin/sh
# SPDX-License-Identifier: MIT
#
# run.sh: tests the dma-bufs of this machine, and packs a report
#
#	sh run.sh [OUTDIR]
#
# Prints KTAP: what the machine has, the conformance suite on each of its devices, fences, the
# matrix of exporters and importers, and frames of a camera. A skipped test has its reason. Then it
# writes OUTDIR/dlbuf-report.tar.gz, without names, addresses and serial numbers; the camera's
# pictures are not in it. OUTDIR is the current folder; if that cannot be written to, the report is
# in the folder that the last line names.
#
# Busybox's shell and programs are enough. Root may open more devices than other users. Nothing
# is written beside this script.
#
# Exit status: 0 nothing failed, 1 something failed, 2 bad usage, 4 nothing could be tested.
set -u
LC_ALL=C
PATH=/usr/sbin:/usr/bin:/sbin:/bin:$PATH
export LC_ALL PATH
unset CDPATH

case ${1-} in
-h | --help)
	sed '1,3d; /^set/,$d; s/^# \{0,1\}//' "$0"
	exit 0;;
-*)
	echo "run.sh: $1 is no option; see run.sh --help" >&2
	exit 2;;
esac
here=$(cd "$(dirname "$0")" && pwd)
out=$(cd "${1:-.}" 2> /dev/null && pwd) || {
	echo "run.sh: there is no folder ${1:-.}" >&2
	exit 2
}

give_up()
{
	printf 'KTAP version 1\n1..0 # SKIP %s\n' "$*"
	exit 4
}

# Sets $work to a new folder with room for the results: /tmp may be full, the folder read-only.
find_room()
{
	for dir in "${TMPDIR-}" /tmp /var/tmp /dev/shm /run "$out"; do
		work=$(mktemp -d "${dir:-/nowhere}/dlbuf.XXXXXX" 2> /dev/null) || continue
		dd if=/dev/zero of="$work/room" bs=1048576 count=8 2> /dev/null && rm "$work/room" && return
		rm -rf "$work"
	done
	give_up "neither /tmp, /var/tmp, /dev/shm, /run nor $out has 8 MB that can be written; TMPDIR names another folder"
}

# Sets $tool and $suite: the static programs have only the CPU as device, but need no C library.
find_programs()
{
	for kind in '' -static; do
		tool=$here/dmabuf-test$kind suite=$here/cts$kind
		said=$("$tool" --version 2>&1) && return
		[ "$kind" ] || first="$said"
	done
	give_up "no program starts here: $(echo "$first; $said" | tr '\n' ' ')"
}

# table TITLE: the rows of a table of `dmabuf-test list`: name, tab, the last column
table()
{
	awk -F '  +' -v title="$1" '
		!NF { found = 0 }
		found && NR > found { print $2 "\t" $3 "\t" $NF }
		index($0, title) == 1 { found = NR + 1 }' "$work/list"
}

# ---------------------------------------------------------------- results

n=0 failed=0 skipped=0

# result STATUS NAME REASON
result()
{
	n=$((n + 1))
	case $1 in
	0) echo "ok $n $2";;
	4)
		skipped=$((skipped + 1))
		echo "ok $n $2 # SKIP $(echo "$3" | tr -d '#')";;
	*)
		failed=$((failed + 1))
		echo "# $2: exit status $1"
		echo "not ok $n $2";;
	esac
}

# test_of NAME COMMAND...: what it prints is a comment; its last line is the reason of a skip
test_of()
{
	name=$1
	shift
	status=0
	"$@" > "$work/said" 2>&1 || status=$?
	sed 's/^/# /' "$work/said"
	result $status "$name" "$(tail -n 1 "$work/said")"
}

# suite_of DEVICE: its cases are a test within the test
suite_of()
{
	{
		"$suite" --device "$1" 2>&1
		echo $? > "$work/status"
	} | sed 's/^/  /'
	result "$(cat "$work/status")" "suite/$1" 'each case was skipped'
}

static_works()
{
	"$here/dmabuf-test-static" list
}

fences()
{
	"$tool" fence --json="$work/fence.json"
}

matrix()
{
	DMABUF_TEST=$tool sh "$here/demonstration" "$work" matrix
}

# The first camera of the list, with a format that it has.
frames()
{
	table Cameras | awk -F '\t' '$2 != "-"' > "$work/cameras"
	IFS='	' read -r node lens formats < "$work/cameras" || {
		table Cameras | cut -f 3 | grep . || echo 'there is no camera'
		return 4
	}
	case " $formats " in
	*' NV12 '*) format=NV12;;
	*) format=${formats%% *};;
	esac
	DMABUF_TEST=$tool DEVICES=all CAMERA=$node FORMAT=$format sh "$here/demonstration" "$work" frames
}

# Devices that work have a suite each; the others are skipped.
all()
{
	devices=$(table Importers | cut -f 1)
	printf 'KTAP version 1\n1..%d\n' $((5 + $(echo "$devices" | wc -l)))
	echo "# dlbuf $("$tool" --version), $(uname -srm)"
	[ "$suite" = "$here/cts" ] || echo "# the static programs, because dmabuf-test does not start: $first"
	test_of list cat "$work/list"
	test_of static static_works
	for device in $devices; do
		line=$(table Importers | grep "^$device	")
		case $line in
		"$device	-	"*) result 4 "suite/$device" "${line##*	}";;
		*) suite_of "$device";;
		esac
	done
	test_of fences fences
	test_of matrix matrix
	test_of frames frames
	echo "# $((n - failed - skipped)) passed, $failed failed, $skipped skipped"
	status=0
	[ $skipped != $n ] || status=4
	[ $failed = 0 ] || status=1
	echo $status > "$work/status"
}

# public FILE: into the report, without private data
public()
{
	[ ! -s "$1" ] || DMABUF_TEST=$tool sh "$here/report" --public < "$1" > "$work/pack/${1##*/}"
}

pack()
{
	for file in results.ktap fence.json run/matrix.json run/matrix.html run/report.json; do
		public "$work/$file" || return
	done
	if [ -s "$work/run/matrix.json" ]; then set -- "$work/run/matrix.json"; else set --; fi
	DMABUF_TEST=$tool sh "$here/report" "$@" > "$work/pack/report.md" || return
	for to in "$out" "${work%/*}"; do
		tar -C "$work" -czf "$to/dlbuf-report.tar.gz" pack 2> /dev/null && echo "# report: $to/dlbuf-report.tar.gz" && return
	done
	return 1
}

find_room
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
find_programs
mkdir "$work/pack"
export TMPDIR="$work"
"$tool" list > "$work/list" 2>&1
all | tee "$work/results.ktap"
status=$(cat "$work/status")
pack || {
	echo "# report: it cannot be written to $out or ${work%/*}"
	[ "$status" != 0 ] || status=1
}
exit "$status"
