#!/bin/sh
# Runs commands in a copy of the tree, in which everything is built as far as it is in the tree itself: copy.sh TREE TARGET EDITS COMMANDS.
# The copy is a layer over the tree, at its very path, and ends with this mount namespace. EDITS: files that are other in the copy.
# The status is 77 where this machine lets no copy be made.
set -eu
tree=$1 target=$2 edits=$3 commands=$4
layer() {
	mkdir -p "/mnt/$1/upper" "/mnt/$1/work"
	mount -t overlay windlass-copy -o "lowerdir=$2,upperdir=/mnt/$1/upper,workdir=/mnt/$1/work" "$3"
}
mount -t tmpfs windlass-copy /mnt || exit 77
layer tree "$tree" "$tree" || exit 77
if [ "$target" != "$tree/target" ]; then
	mkdir -p "$tree/target"
	layer target "$target" "$tree/target" || exit 77
fi
cp -R "$edits/." "$tree"
cd "$tree"
exec sh -eux -c "$commands"
