# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# Debian's sources, from the mirror that apt uses. To be sourced.

# shellcheck disable=SC2034 # for the scripts that source this
cache=${DLBUF_CACHE:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/dlbuf}

# debian_source SUITE PACKAGE DIR: leaves the archives of the suite's version in DIR, which it makes
debian_source()
{
	local suite=$1 package=$2 dir=$3 codename uri

	mkdir -p "$dir"/apt/{lists,archives}/partial
	: > "$dir/apt/status"
	# shellcheck disable=SC1091 # the machine's
	codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
	# shellcheck disable=SC2016 # apt's own
	uri=$(apt-get indextargets --format '$(REPO_URI)' "Codename: $codename" 'Created-By: Packages' | sed -n 1p)
	[ -n "$uri" ] || { echo 'apt knows no mirror (apt-get update)' >&2; return 1; }
	echo "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $uri $suite main" > "$dir/apt/sources.list"
	set -- -qq -o "Dir::Etc::sourcelist=$dir/apt/sources.list" -o Dir::Etc::sourceparts=/dev/null \
		-o "Dir::State::lists=$dir/apt/lists" -o "Dir::State::status=$dir/apt/status" -o "Dir::Cache=$dir/apt" \
		-o APT::Sandbox::User=root
	apt-get "$@" update || return
	(cd "$dir" && apt-get "$@" source --download-only "$package")
}
