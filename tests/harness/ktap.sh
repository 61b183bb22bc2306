# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# Cases of shell scripts, to be sourced:
#
#	ktap_case size check_size build/libdlbuf.so
#	ktap_run "$@"
#
# A case is a command, run in a shell of its own under `set -e`. Its status is the result: 0 passed, 4 skipped - the
# last line that it printed says why -, anything else failed, and what it printed is shown. ktap_run's arguments
# are names of the cases to run, with wildcards, or --list; it ends the script.

ktap_names=()
ktap_commands=()

# ktap_case NAME COMMAND ARGS...
ktap_case()
{
	ktap_names+=("$1")
	shift
	ktap_commands+=("${*@Q}")
}

# skip REASON
skip()
{
	echo "$*"
	exit 4
}

# nothing: standard input is empty, or is shown. A "! grep" in the midst of a case would not end it.
nothing()
{
	! grep '' || return 1
}

# ktap_cpu: hundredths of a second that this shell and its children have used
ktap_cpu()
{
	local stat

	read -ra stat < "/proc/$$/stat"
	echo $((stat[13] + stat[14] + stat[15] + stat[16]))
}

ktap_run()
{
	local i pattern n=0 failed=0 skipped=0 status cpu out chosen=()

	if [ "${1:-}" = --list ]; then
		printf '%s\n' "${ktap_names[@]}"
		exit 0
	fi
	for i in "${!ktap_names[@]}"; do
		for pattern in "${@:-*}"; do
			# shellcheck disable=SC2053 # it is a pattern
			if [[ ${ktap_names[i]} == $pattern ]]; then
				chosen+=("$i")
				break
			fi
		done
	done
	[ ${#chosen[@]} -gt 0 ] || { echo "no such case: $*" >&2; exit 2; }
	printf 'KTAP version 1\n1..%d\n' ${#chosen[@]}
	set +e
	for i in "${chosen[@]}"; do
		n=$((n + 1))
		cpu=$(ktap_cpu)
		out=$(set -e; eval "${ktap_commands[i]}" 2>&1)
		status=$?
		cpu=$((($(ktap_cpu) - cpu) / 100))
		[ $cpu = 0 ] || echo "# ${ktap_names[i]}: $cpu s of CPU"
		case $status in
		0) echo "ok $n - ${ktap_names[i]}";;
		4) skipped=$((skipped + 1))
		   echo "ok $n - ${ktap_names[i]} # SKIP $(tail -n 1 <<< "$out" | tr -d '#')";;
		*) failed=$((failed + 1))
		   [ -z "$out" ] || head -n 40 <<< "$out" | sed 's/^/# /'
		   echo "# status $status"
		   echo "not ok $n - ${ktap_names[i]}";;
		esac
	done
	[ $failed = 0 ] || exit 1
	[ $skipped != $n ] || exit 4
	exit 0
}
