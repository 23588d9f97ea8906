#!/bin/sh
# Prints the path of a tool that is a cargo command; builds it into target/tools where it is missing there.
#   tool.sh NAME VERSION
set -eu
cd "$(dirname "$0")/.."
tool=target/tools/bin/$1
if [ ! -x "$tool" ] || ! grep -qs "^\"$1 $2 " target/tools/.crates.toml; then
	CARGO_PROFILE_DEV_DEBUG=0 ${CARGO:-cargo} install "$1" --version "$2" --locked --debug --root target/tools >&2
fi
echo "$PWD/$tool"
