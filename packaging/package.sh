#!/bin/sh
# Makes the package of this machine's architecture: target/package/windlass_VERSION_ARCH.deb, and beside it the list of what the
# program is made of (windlass.cdx.json, CycloneDX). `make package` runs it.
#   WINDLASS_VERSION    another version than that of packaging/version.sh
# The same commit makes the same files with the same compiler: times are the commit's.
set -eu
cd "$(dirname "$0")/.."
cargo=${CARGO:-cargo}
out=target/package
files=$out/files
most_bytes=15000000

version=${WINDLASS_VERSION:-$(packaging/version.sh)}
if [ -z "${WINDLASS_VERSION-}" ] && [ -n "$(git status --porcelain 2>/dev/null)" ]; then
	# what is packaged is no commit
	case $version in *+*) version=$version.changed ;; *) version=$version+changed ;; esac
fi
export WINDLASS_VERSION="$version"
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
export SOURCE_DATE_EPOCH
# dpkg takes a hyphen for that of its own revision, and what stands behind a tilde for older than what does not
deb_version=$(echo "$version" | sed 's/-/~/')-1

$cargo build --locked --profile packaged --package windlass --features static

rm -rf "$files"
mkdir -p "$files/doc" "$files/man"
strip --strip-all --remove-section=.comment -o "$files/windlass" target/packaged/windlass
size=$(stat -c %s "$files/windlass")
[ "$size" -le $most_bytes ] || { echo "the program has $size bytes, at most $most_bytes are allowed" >&2 && exit 1; }
if ldd "$files/windlass" | grep -E 'lib(bpf|elf|z)\.so'; then
	echo "these should be in the program" >&2
	exit 1
fi

"$files/windlass" man --install "$files/man"
for shell in bash zsh fish; do
	"$files/windlass" completions $shell >"$files/completions.$shell"
done
mv "$files/completions.bash" "$files/windlass.bash"
mv "$files/completions.zsh" "$files/_windlass"
mv "$files/completions.fish" "$files/windlass.fish"
cp docs/*.md SECURITY.md "$files/doc/"
mkdir -p "$files/quickstart"
cp docs/quickstart/* "$files/quickstart/"
gzip -9n <CHANGELOG.md >"$files/doc/NEWS.gz"
packaging/notices.sh | gzip -9n >"$files/doc/NOTICES.gz"
cat >"$files/changelog" <<CHANGELOG
windlass ($deb_version) unstable; urgency=medium

  * Version $version; NEWS.gz has what is new.

 -- The Windlass authors <maintainers@windlass.invalid>  $(date -u -R -d "@$SOURCE_DATE_EPOCH")
CHANGELOG

sbom=$(packaging/tool.sh cargo-cyclonedx 0.5.9)
"$sbom" cyclonedx --quiet --format json --features static --manifest-path crates/windlass/Cargo.toml \
	--override-filename windlass.cdx
mv crates/windlass/windlass.cdx.json "$out/"
# it makes one for each crate of the workspace
find . -name windlass.cdx.json ! -path './target/*' -delete
gzip -9n <"$out/windlass.cdx.json" >"$files/doc/windlass.cdx.json.gz"

deb=$(packaging/tool.sh cargo-deb 3.8.0)
"$deb" deb --quiet --package windlass --no-build --no-strip --deb-version "$deb_version" --output "$out/"
package=$out/windlass_${deb_version}_$(dpkg --print-architecture).deb
echo "$package: $(stat -c %s "$package") bytes, the program $size bytes"
