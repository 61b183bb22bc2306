# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# The common part of dmabuf-test's tests; sourced after ktap.sh, with the build folder as $1.

dmabuf_test=$(realpath "${1:?usage: BUILD [CASE...]}")/dmabuf-test
[ -x "$dmabuf_test" ] || { echo "there is no $1/dmabuf-test"; exit 4; }
man=man/dmabuf-test.1
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
# Where the tool may leave files.
files=$tmp/files

# look WHAT ARGS...: look.py
look()
{
	python3 -IS tests/tool/look.py "$@"
}

# check COMMAND...: says which one failed
check()
{
	"$@" && return
	echo "failed: $*"
	return 1
}

# not COMMAND...: that it fails; a plain ! is nothing to set -e
not()
{
	! "$@" || { echo "succeeded: $*"; return 1; }
}

# Seconds for an event that is certain to come, on a machine that is busy with other things.
bound=600

# The words in front of the tool, to run it as another user for instance.
as=()

# tool STATUS ARGS...: runs it with this exit status; its output goes to $tmp/out and $tmp/err
tool()
{
	local want=$1 got tries=0
	shift
	# A fence of vgem's ends by itself after ten seconds, and a busy machine may be late.
	until
		got=0
		timeout --kill-after=5 $bound "${as[@]}" "$dmabuf_test" "$@" > "$tmp/out" 2> "$tmp/err" || got=$?
		[ "$got" = "$want" ] || [ $((++tries)) = 10 ] || ! grep -q 'expired: the machine is too slow' "$tmp/out"
	do :; done
	[ "$got" = "$want" ] || shown "dmabuf-test ${*@Q}: exit status $got, not $want"
}

# shown SENTENCE: the failure, and what the tool printed
shown()
{
	echo "$1"
	cat "$tmp/err" "$tmp/out"
	return 1
}

# quiet: nothing on standard error
quiet()
{
	[ ! -s "$tmp/err" ] || shown 'standard error is not empty:'
}

# said REGEX: standard error is one line, with the prefix and this
said()
{
	local lines
	mapfile -t lines < "$tmp/err"
	[ ${#lines[@]} = 1 ] && [[ ${lines[0]} == 'dmabuf-test: '* ]] && [[ ${lines[0]} =~ $1 ]] && return
	shown "standard error is not one line with '$1':"
}

# nothing_left: no file, and no dma-buf where that can be seen
nothing_left()
{
	local bufinfo=/sys/kernel/debug/dma_buf/bufinfo
	# rmdir(1) removes what is empty.
	rmdir "$files" || shown "files were left: $(ls -A "$files")"
	[ "${DLBUF_LAB:-}" != 1 ] || [[ $(< $bufinfo) == *'Total 0 objects'* ]] || shown "dma-bufs were left: $(< $bufinfo)"
}

# refuses STATUS REGEX ARGS...: the camera command on the CPU, with files to write; later options win over these, --device too
refuses()
{
	local status=$1 regex=$2 device='--device cpu'
	shift 2
	[[ " $*" != *' --device'* ]] || device=
	[ ! -e "$files" ] || rm -r "$files"
	mkdir "$files"
	# shellcheck disable=SC2086 # nothing or two words
	tool "$status" camera $device --png "$files/picture.png" --json="$files/report.json" "$@"
	said "$regex"
	[ ! -s "$tmp/out" ] || shown 'standard output is not empty:'
	nothing_left
}

# await COMMAND...: until it succeeds
await()
{
	local end=$((SECONDS + bound))
	until "$@" 2> "$tmp/await"; do
		[ $SECONDS -lt $end ] || { echo "in vain for $bound s: $*"; cat "$tmp/await"; return 1; }
		sleep 0.05
	done
}

ended()
{
	! kill -0 "$pid" || grep -q '^State:.Z' "/proc/$pid/status"
}

# nothing_runs: no process of the tool is left
nothing_runs()
{
	local exe
	for exe in /proc/[0-9]*/exe; do
		[ ! "$exe" -ef "$dmabuf_test" ] || { echo "$exe is left"; return 1; }
	done
}

# The first frame's dma-buf is mapped: the camera streams.
streams()
{
	grep -q /dmabuf "/proc/$pid/maps" || ended
}

# at_exit COMMAND: when the case ends, however it does; the last one first
exits=()
at_exit()
{
	exits=("$1" "${exits[@]}")
	trap 'for e in "${exits[@]}"; do eval "$e"; done' EXIT
}

# two_files: those that the camera command is making, which have no name yet
two_files()
{
	[ "$(readlink "/proc/$pid/fd/"* | grep -c "^$files/")" = 2 ]
}

# start ARGS...: the camera command in the background, in the middle of its frames; sets $pid
start()
{
	rm -rf "$files"
	mkdir "$files"
	"$dmabuf_test" camera --device cpu --frames 1000000 --png "$files/picture.png" --json="$files/report.json" "$@" \
		> "$tmp/out" 2> "$tmp/err" &
	pid=$!
	at_exit '[ -z "$pid" ] || kill -KILL "$pid" 2> /dev/null || true'
	await streams
	! ended 2> /dev/null || shown 'the run ended at once:'
	await two_files
}

# ends STATUS REGEX: what start() started, having said this and left nothing
ends()
{
	local got=0
	await ended
	wait "$pid" || got=$?
	pid=
	[ "$got" = "$1" ] || shown "exit status $got, not $1"
	said "$2"
	nothing_left
}

# terminal COMMAND...: all of its output, as a terminal gets it, into $tmp/terminal
terminal()
{
	env TERM=xterm script -qec "${*@Q}" /dev/null > "$tmp/terminal" < /dev/null || {
		cat -v "$tmp/terminal"
		return 1
	}
}

# has TEXT, has_not TEXT: of the terminal
has()
{
	grep -qF -- "$1" "$tmp/terminal" || { echo "no ${1@Q} in"; cat -v "$tmp/terminal"; return 1; }
}

has_not()
{
	! grep -qF -- "$1" "$tmp/terminal" || { echo "${1@Q} in"; cat -v "$tmp/terminal"; return 1; }
}

colour=$'\e[1m'
drawn=$'\r\e[K'

# in_guest: for what changes the machine's drivers
in_guest()
{
	[ "${DLBUF_LAB:-}" = 1 ] || skip 'changes drivers, which only a guest of the lab is for'
}

# plain_user: from here on the tool is run by one who may open none of the nodes
plain_user()
{
	in_guest
	# Mesa would say that it has no home for its cache.
	as=(env MESA_SHADER_CACHE_DISABLE=true setpriv --reuid=65534 --regid=65534 --clear-groups)
}

# vivid_node: the node of its camera, whatever number it has
vivid_node()
{
	local name
	for name in /sys/class/video4linux/video*/name; do
		[[ -e $name && $(< "$name") == vivid-*-vid-cap ]] || continue
		name=${name%/name}
		echo "/dev/${name##*/}"
		return
	done
	return 1
}
