# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# Completion of dmabuf-test for bash. The program itself knows the words.

_dmabuf_test()
{
	local line=${COMP_LINE:0:COMP_POINT} breaks=${COMP_WORDBREAKS//[^:=]/} words word
	read -ra words <<< "$line"
	[[ $line != *[[:space:]] ]] || words+=("")
	mapfile -t COMPREPLY < <("${words[0]/#\~/$HOME}" --complete "${words[@]:1}" 2> /dev/null)
	# Readline replaces what is behind the last : or = only.
	word=${words[-1]}
	[ -z "$breaks" ] || word=${word%"${word##*["$breaks"]}"}
	[ -z "$breaks" ] || COMPREPLY=("${COMPREPLY[@]#"$word"}")
}
complete -o default -F _dmabuf_test dmabuf-test
