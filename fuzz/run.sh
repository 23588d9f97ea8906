#!/bin/sh
# Searches with libFuzzer, guided by coverage: fuzz/run.sh TARGET [OPTION...] [CORPUS...]. The first folder takes new inputs.
# With -seed and -runs the search is the same every time: addresses, which find their way into inputs, are not random.
set -eu
cd "$(dirname "$0")/.."
cargo=${CARGO:-cargo}
target=$1
shift
# its flags would be taken instead of ours
unset RUSTFLAGS
# where the platform is named, build scripts do not get the flags
platform=$($cargo -vV | sed -n 's/^host: //p')
features=--no-default-features
[ "$target" != wire ] || features=
$cargo build $features --config fuzz/guided.toml --target "$platform" -p windlass-fuzz --bin "$target"
finds=fuzz/artifacts/$target/
mkdir -p "$finds"
begun=$(mktemp)
trap 'rm -f "$begun"' EXIT
# which not every container allows
fixed=$(setarch -R true 2>/dev/null && echo setarch -R) || true
$fixed "${CARGO_TARGET_DIR:-target}/$platform/debug/$target" -artifact_prefix="$finds" "$@" || {
	# none: the options were wrong, say; what is there is of earlier searches
	for find in $(find "$finds" -type f -newer "$begun"); do
		echo "once more, event by event: cargo run -p windlass-fuzz --bin $target -- $find" >&2
	done
	exit 1
}
