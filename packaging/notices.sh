#!/bin/sh
# Prints the copyright notices and licences of all packages that are linked into the program, and of the C that these carry. Packages
# of the same text stand over it together.
set -eu
cd "$(dirname "$0")/.."
cargo=${CARGO:-cargo}
sources=${CARGO_HOME:-$HOME/.cargo}/registry/src
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Notes the text FILE of NAME; of two names, the text is kept once.
note() {
	text=$(sha256sum "$2" | cut -d ' ' -f 1)
	echo "$1" >>"$work/$text.names"
	cp "$2" "$work/$text"
}

# One line a package: NAME vVERSION LICENCE. Where there is a choice, that of the Apache licence is not made: it does not combine with
# GPL-2.0.
$cargo tree --locked --package windlass --features static --edges normal,no-proc-macro --prefix none --format '{p} {l}' >"$work/packages"
sed "s/ (\\*)\$//" "$work/packages" | sort -u |
	while read -r name version licence; do
		folder=$(ls -d "$sources"/*/"$name-${version#v}" 2>/dev/null | head -n 1)
		# what is this tree's own has no such folder
		[ -n "$folder" ] || continue
		find "$folder" -maxdepth 1 -type f \( -iname 'licen[sc]e*' -o -iname 'copying*' -o -iname 'notice*' \
			-o -iname 'copyright*' -o -iname 'unlicense*' \) ! -iname '*apache*' | sort >"$work/files"
		[ -s "$work/files" ] || echo "$name ${version#v}: $licence" >>"$work/without"
		while read -r file; do
			note "$name ${version#v}: $licence" "$file"
		done <"$work/files"
		if [ "$name" = libbpf-sys ]; then
			note "libbpf, in $name ${version#v}: BSD-2-Clause" "$folder/libbpf/LICENSE.BSD-2-Clause"
			note "libelf of elfutils, in $name ${version#v}: GPL-2.0-or-later" "$folder/elfutils/COPYING-GPLV2"
			note "zlib, in $name ${version#v}: Zlib" "$folder/zlib/LICENSE"
		fi
	done

note "uPlot 1.6.32: MIT" crates/windlass/web/uplot/LICENSE

for names in "$work"/*.names; do
	sort -u "$names"
	printf '\n'
	cat "${names%.names}"
	printf '\n%s\n\n' ------------------------------------------------------------------------
done
if [ -s "$work/without" ]; then
	echo "Packages that carry no text of their licence:"
	cat "$work/without"
fi
