# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2154
#
# Which lines of a folder have run, by gcov's counts, for tests/run/coverage and tests/fuzz/run. They set `build`, and `gcov`, the
# compiler's own, to words of a command.

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
# A case's standard output is shown when it fails; figures always are.
exec 3>&1

# lines FILE: those of it that can run, as gcov has them: how often, or #####, the number, the text
lines()
{
	"${gcov[@]}" --stdout -o "$build/${1%/*}" "$build/${1%.c}.gcda" 2>/dev/null |
		awk -v file="$1" -F: '
			$2 + 0 == 0 && $3 == "Source" { here = $4 == file; next }
			here && $1 !~ /-$/ && $2 + 0 > 0'
}

# share FOLDER LEAST [brief]: in percent; brief: without the lines that nothing has run
share()
{
	local f all=0 ran=0 n missed
	for f in "$1"/*.c; do
		[[ $f != *absent.c ]] || continue
		lines "$f" > "$tmp/lines"
		n=$(wc -l < "$tmp/lines")
		[ "$n" -gt 0 ] || { echo "gcov knows nothing of $f"; return 1; }
		grep -E '^ *(#####|=====)' "$tmp/lines" > "$tmp/missed" || true
		missed=$(wc -l < "$tmp/missed")
		all=$((all + n)) ran=$((ran + n - missed))
		echo "# $f: $((n - missed)) of $n lines, $((100 * (n - missed) / n)) %" >&3
		[ "${3:-}" ] || sed -E 's/^ *[#=]+: *([0-9]+):/#     \1: /; s/\t/  /g' "$tmp/missed" >&3
	done
	echo "# all: $ran of $all lines, $((100 * ran / all)) %" >&3
	[ $((100 * ran)) -gt $(($2 * all)) ] || { echo "that is not more than $2 %"; return 1; }
}

# unreached FOLDER: FILE<TAB>FUNCTION of its functions that nothing has called, without those of headers
unreached()
{
	local f name
	for f in "$1"/*.c; do
		[[ $f != *absent.c ]] || continue
		"${gcov[@]}" -f -n -o "$build/${f%/*}" "$build/${f%.c}.gcda" 2>/dev/null | awk -v file="$f" -v quote="'" '
			/^Function/ { name = $2; gsub(quote, "", name) }
			/^File/ { name = "" }
			/^Lines executed:0.00%/ && name { print file "\t" name }'
	done | while read -r f name; do
		! grep -q "^[a-z].*\<$name(" "$f" || printf '%s\t%s\n' "$f" "$name"
	done | sort -u
}
