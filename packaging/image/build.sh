#!/bin/sh
# Makes an OCI image without a daemon: target/package/image, an image layout (`skopeo`, `podman` and `docker` load it). In it are
# the program of the package, `ip` and `tc`, and the libraries that these need; no shell and no package manager.
# `make image` runs it, as root, after `make package`.
set -eu
cd "$(dirname "$0")/../.."
package=$(ls -t target/package/windlass_*.deb 2>/dev/null | head -n 1)
[ -n "$package" ] || { echo "no package; \`make package\` makes one" >&2 && exit 2; }
layout=target/package/image
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root

dpkg-deb -x "$package" "$work/package"
mkdir -p "$root/etc" "$root/tmp" "$root/run/windlass" "$root/proc" "$root/sys" "$root/var/lib/windlass" "$root/usr/share/doc"
chmod 1777 "$root/tmp"
chmod 700 "$root/run/windlass" "$root/var/lib/windlass"
# as Debian has them, so that paths are the usual ones
for folder in bin sbin lib lib64; do
	mkdir -p "$root/usr/$folder"
	ln -s "usr/$folder" "$root/$folder"
done
echo 'root:x:0:0:root:/:/usr/sbin/nologin' >"$root/etc/passwd"
echo 'root:x:0:' >"$root/etc/group"
cp "$work/package/usr/bin/windlass" "$root/usr/bin/"
cp -r "$work/package/usr/share/doc/windlass" "$root/usr/share/doc/"

# Copies what is there under that path, of whichever package, with that package's copyright file.
copy() {
	mkdir -p "$root$(dirname "$1")"
	cp -L "$1" "$root$1"
	owner=$(dpkg-query -S "$(realpath "$1")" "$1" 2>/dev/null | head -n 1 | cut -d : -f 1)
	if [ -n "$owner" ] && [ ! -e "$root/usr/share/doc/$owner" ]; then
		mkdir "$root/usr/share/doc/$owner"
		cp -L "/usr/share/doc/$owner/copyright" "$root/usr/share/doc/$owner/"
		dpkg-query -W -f '${Package} ${Version}\n' "$owner" >>"$work/packages"
	fi
}

for tool in ip tc; do
	copy "/usr/sbin/$tool" 2>/dev/null || copy "/sbin/$tool"
done
for program in "$root/usr/bin/windlass" "$root"/usr/sbin/*; do
	for library in $(ldd "$program" | grep -o '/[^ ]*'); do
		[ -e "$root$library" ] || copy "$library"
	done
done
sort "$work/packages" >"$root/usr/share/doc/packages"

version=$(dpkg-deb -f "$package" Version)
created=$(date -u -Iseconds -d "@$(git log -1 --format=%ct 2>/dev/null || date +%s)")
rm -rf "$layout"
umoci init --layout "$layout"
umoci new --image "$layout:latest"
umoci unpack --image "$layout:latest" "$work/bundle" >/dev/null 2>&1
cp -a "$root/." "$work/bundle/rootfs/"
umoci repack --image "$layout:latest" "$work/bundle" >/dev/null 2>&1
umoci config --image "$layout:latest" --created "$created" --author "The Windlass authors" \
	--config.entrypoint /usr/bin/windlass --config.cmd agent --config.cmd --policy --config.cmd /etc/windlass/policy.toml \
	--config.env PATH=/usr/sbin:/usr/bin --config.volume /etc/windlass --config.stopsignal SIGTERM \
	--config.label "org.opencontainers.image.title=windlass" \
	--config.label "org.opencontainers.image.version=$version" \
	--config.label "org.opencontainers.image.licenses=GPL-2.0-only"
umoci gc --layout "$layout"
echo "$layout: $(du -sb "$layout" | cut -f 1) bytes, $(du -sb "$root" | cut -f 1) unpacked"
