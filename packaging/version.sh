#!/bin/sh
# Prints the version of this tree. Cargo.toml has the number of the release that it is, or becomes; git has how far it is:
#   0.2.0                     the commit has the tag v0.2.0, or there is no git
#   0.2.0-dev.1311+g2c609f5f  the 1311th commit, on the way to 0.2.0
set -eu
cd "$(dirname "$0")/.."
release=$(sed -n '/^\[workspace\.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
# unpacked from an archive inside of another repository, that one's commits are not this tree's
if [ "$(git rev-parse --show-toplevel 2>/dev/null)" != "$(pwd -P)" ] || git describe --exact-match --tags \
	--match "v$release" HEAD >/dev/null 2>&1; then
	echo "$release"
else
	echo "$release-dev.$(git rev-list --count HEAD)+g$(git rev-parse --short=8 HEAD)"
fi
