#!/bin/sh
# Makes what the virtual machine of the vm tests boots: a stock kernel of Debian, and a root of Debian programs, windlass
# among them. Leaves vmlinuz and initramfs in FOLDER; the kernel's package is downloaded there once, by apt.
#   image.sh FOLDER WINDLASS KERNEL
# KERNEL: 6.1, 6.12 or 6.18, or a folder into which `dpkg-deb -x` unpacked the image and the modules of another.
# Exit status 77: it cannot be made on this machine; the last line of the output has the reason.
set -eu
folder=$1
windlass=$(realpath "$2")
kernel=$3
here=$(cd "$(dirname "$0")" && pwd)
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
# loaded by the guest's init in this order
modules='virtio_pci virtio_net virtio_console veth tun sch_ingress cls_bpf sch_tbf sch_netem sch_fq sch_codel sch_pie sch_red'
programs='dash nsenter ip tc curl nginx tcpdump'

cannot() {
	echo "$*"
	exit 77
}

[ "$(uname -m)" = x86_64 ] || cannot "needs an x86-64 machine, whose programs the guest runs"
for tool in qemu-system-x86_64 busybox cpio strip ldd $programs; do
	command -v $tool >/dev/null || cannot "$tool is missing; \`make vm-test\` installs what it needs"
done
command -v apt-get >/dev/null || cannot "the kernel comes from Debian, and apt is missing"

# Downloads and unpacks the kernel, unless that is done already.
unpack_kernel() {
	if [ -d "$kernel" ]; then
		unpacked=$(realpath "$kernel")
		return
	fi
	unpacked=$(ls -d "$folder"/linux-image-*/complete 2>/dev/null | head -n 1)
	if [ -n "$unpacked" ]; then
		unpacked=$(dirname "$unpacked")
		return
	fi
	case $kernel in
	6.1) suite=bookworm ;;
	6.12) suite=trixie ;;
	6.18) suite=trixie-backports ;;
	*) cannot "no Debian suite is known to have Linux $kernel, and there is no such folder" ;;
	esac
	download
	unpacked=$folder/$package
	dpkg-deb -x "$unpacked"_*.deb "$unpacked"
	rm "$unpacked"_*.deb
	touch "$unpacked/complete"
}

# Where this machine's apt has Debian from. It knows what is Debian's once it has been updated.
mirror() {
	apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Label: Debian' | head -n 1
}

# Downloads the newest such kernel of the suite, with lists of its own: those of the machine stay as they are.
download() {
	[ -e "$keyring" ] || cannot "$keyring is missing, by which Debian's kernels are verified"
	[ -n "$(mirror)" ] || apt-get update -qq || true
	[ -n "$(mirror)" ] || cannot "apt of this machine has no mirror of Debian, which Linux $kernel comes from"
	rm -rf "$folder"/linux-image-*
	apt=$folder/apt
	mkdir -p "$apt/lists/partial" "$apt/archives/partial"
	echo "deb [signed-by=$keyring] $(mirror) $suite main" >"$apt/sources.list"
	cat >"$apt/apt.conf" <<-END
		Dir::Etc::sourcelist "$apt/sources.list";
		Dir::Etc::sourceparts "-";
		Dir::State::lists "$apt/lists";
		Dir::State::status "/dev/null";
		Dir::Cache "$apt";
		APT::Sandbox::User "root";
		Acquire::Languages "none";
		Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";
	END
	export APT_CONFIG="$apt/apt.conf"
	apt-get update -qq || cannot "apt could not list the packages of Debian's $suite"
	# without those of other flavours, as cloud and rt, and those without a signature
	names="^linux-image-$(echo "$kernel" | sed 's/\./\\./')\.[0-9]+[-+][0-9a-z.]+-amd64\$"
	package=$(apt-cache pkgnames "linux-image-$kernel." | grep -E "$names" | sort -V | tail -n 1)
	[ -n "$package" ] || cannot "Debian's $suite has no Linux $kernel any more"
	(cd "$folder" && apt-get download -qq "$package") || cannot "apt could not download $package"
	unset APT_CONFIG
	rm -r "$apt"
}

# Puts a program, under the path it shall have there, and the libraries it is linked with into the root.
add() {
	put "$1" "$2"
	for file in $(ldd "$1" | grep -o '/[^ ]*'); do
		put "$file" "$file"
	done
}

put() {
	mkdir -p "$root$(dirname "$2")"
	cp -L "$1" "$root$2"
}

# Puts a module and all that it needs into the root, not compressed: busybox knows few ways to compress.
add_module() {
	line=$(grep -E "/$1\.ko(\.[a-z]+)?:" "$modules_of/modules.dep") || {
		# some packages do not list what is built in
		[ -e "$modules_of/modules.builtin" ] || return 0
		grep -q "/$1\.ko$" "$modules_of/modules.builtin" && return
		echo "the kernel has no module $1"
		exit 1
	}
	for file in $(echo "$line" | tr -d :); do
		case $file in
		*.ko) put "$modules_of/$file" "/lib/modules/$version/$file" ;;
		*) expand "$file" "$root/lib/modules/$version/${file%.*}" ;;
		esac
	done
}

expand() {
	mkdir -p "$(dirname "$2")"
	case $1 in
	*.xz) xz -dc "$modules_of/$1" >"$2" ;;
	*.zst) zstd -dc "$modules_of/$1" >"$2" ;;
	esac
}

mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
unpack_kernel
# since Debian 13 the packages themselves have them in /usr
modules_of=$(ls -d "$unpacked"/lib/modules/* "$unpacked"/usr/lib/modules/* 2>/dev/null | head -n 1)
version=$(basename "$modules_of")
# an index alone may be half of one that was interrupted
if [ ! -e "$modules_of/indexed" ]; then
	busybox depmod -b "${modules_of%/lib/modules/*}" "$version"
	touch "$modules_of/indexed"
fi
root=$folder/root
rm -rf "$root"
for name in busybox proc sys dev run tmp srv etc var/log/nginx var/lib/nginx; do
	mkdir -p "$root/$name"
done
put "$(command -v busybox)" /bin/busybox
for program in $programs; do
	add "$(command -v "$program")" "$(command -v "$program")"
done
ln -s "$(command -v dash)" "$root/bin/sh"
add "$windlass" /bin/windlass
strip "$root/bin/windlass"
for module in $modules; do
	add_module "$module"
done
busybox depmod -b "$root" "$version"
echo "$modules" >"$root/etc/modules"
cp "$here/nginx.conf" "$root/etc/nginx.conf"
printf '%s\n' root:x:0:0::/:/bin/sh nobody:x:65534:65534::/:/bin/sh >"$root/etc/passwd"
printf '%s\n' root:x:0: nogroup:x:65534: >"$root/etc/group"
cp "$here/init" "$root/init"
chmod 755 "$root/init"
# not compressed: an emulated processor takes longer to unpack than to read
(cd "$root" && find . | cpio --quiet -o -H newc) >"$folder/initramfs"
cp "$(ls "$unpacked/boot/vmlinuz-$version" "$modules_of/vmlinuz" 2>/dev/null | head -n 1)" "$folder/vmlinuz"
