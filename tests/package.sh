#!/bin/sh
# Installs the package on a fresh Debian, runs it, upgrades it from another version, removes and purges it, while transfers pass
# whose checksums are compared; then runs the image. `make test-package` runs it, as root.
#   SUITE               Debian's release (bookworm)
#   DEBIAN_ROOT         what debootstrap has made of it, which is copied (made anew)
#   PREVIOUS_PACKAGE    what is upgraded (this tree, built with another version)
# The machine is a root of debootstrap's with namespaces of its own, in which Debian's systemd is process 1: units, restrictions
# and maintainer scripts run as they do elsewhere. A server is behind its tap0, a client behind its eth0 (20 Mbit/s, 1 % of loss).
# Commands of docs/install.md are run as they are printed.
set -eu
cd "$(dirname "$0")/.."
here=$PWD
suite=${SUITE:-bookworm}
run=wlpkg$$
work=$(mktemp -d)
root=$work/root
cgroup=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/self/mounts)/$run
# of a transfer; of one that lasts while packages are installed
short_bytes=20000000
long_bytes=120000000
init=
background=

cleanup() {
	[ -z "$init" ] || kill -KILL "$init" 2>/dev/null || true
	for pid in $background; do
		kill "$pid" 2>/dev/null || true
	done
	wait 2>/dev/null || true
	for host in box server client; do
		ip netns del $run-$host 2>/dev/null || true
	done
	# its processes are killed, and take a moment to be gone
	for _ in $(seq 100); do
		[ -d "$cgroup" ] || break
		find "$cgroup" -depth -type d -exec rmdir {} + 2>/dev/null || sleep 0.1
	done
	rm -rf --one-file-system "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

fail() {
	echo "failed: $*" >&2
	for log in console image; do
		[ ! -s "$work/$log" ] || tail -n 10 "$work/$log" >&2
	done
	[ -z "$init" ] || machine journalctl --unit windlass --no-pager --lines 20 >&2
	exit 1
}

passed() {
	echo "ok: $*"
}

# Looks for as long as a minute whether a command succeeds.
until_true() {
	what=$1
	shift
	for _ in $(seq 300); do
		! "$@" >/dev/null 2>&1 || return 0
		sleep 0.2
	done
	fail "not within a minute: $what"
}

cannot() {
	echo "skipped: package: $*"
	exit 0
}

# --- the machine

mirror() {
	apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Label: Debian' | head -n 1
}

make_root() {
	if [ -n "${DEBIAN_ROOT-}" ]; then
		cp -a "$DEBIAN_ROOT" "$root"
	else
		debootstrap_root
	fi
	rm -f "$root"/var/cache/apt/archives/*.deb
	mkdir -p "$root/root/previous" "$root/root/current"
}

debootstrap_root() {
	debootstrap --variant=minbase --include=systemd,systemd-sysv,iproute2,adduser,man-db "$suite" "$root" "$(mirror)" \
		>"$work/debootstrap" 2>&1 || { tail -n 5 "$work/debootstrap"; cannot "debootstrap could not make Debian's $suite"; }
}

in_box() { nsenter --net=/run/netns/$run-box "$@"; }
in_client() { ip netns exec $run-client "$@"; }

make_network() {
	for host in box server client; do
		ip netns add $run-$host
		ip -n $run-$host link set lo up
	done
	ip -n $run-box link add tap0 type veth peer name eth0 netns $run-server
	ip -n $run-box link add eth0 type veth peer name eth0 netns $run-client
	ip -n $run-box addr add 10.0.0.1/24 dev tap0
	ip -n $run-box addr add 192.0.2.1/24 dev eth0
	ip -n $run-server addr add 10.0.0.2/24 dev eth0
	ip -n $run-client addr add 192.0.2.7/24 dev eth0
	for link in box:tap0 box:eth0 server:eth0 client:eth0; do
		ip -n $run-${link%:*} link set "${link#*:}" up
	done
	ip -n $run-server route add default via 10.0.0.1
	ip -n $run-client route add default via 192.0.2.1
	in_box sysctl -qw net.ipv4.ip_forward=1
	tc -n $run-box qdisc add dev eth0 root tbf rate 20mbit burst 64kb limit 128kb
	in_client nft "add table ip lossy; add chain ip lossy in { type filter hook prerouting priority 0; };
		add rule ip lossy in tcp sport 80 numgen random mod 100 == 0 drop"
}

make_server() {
	mkdir "$work/www"
	head -c $long_bytes /dev/urandom >"$work/www/load"
	chmod -R go+rX "$work"
	cat >"$work/nginx.conf" <<-CONF
		daemon off;
		user root;
		pid $work/nginx.pid;
		error_log $work/nginx.log;
		events {}
		http { access_log off; server { listen 10.0.0.2:80; root $work/www; } }
	CONF
	ip netns exec $run-server nginx -c "$work/nginx.conf" -e "$work/nginx.log" &
	background="$background $!"
	until_true "the server answers" in_client curl -sf -r 0-9 -o /dev/null http://10.0.0.2/load
}

# What process 1 of the machine needs, whose mounts, processes, network and cgroups are its own.
boot='
set -e
mount --make-rprivate /
mount --bind "$1" "$1"
cd "$1"
mount -t proc proc proc
mount -t sysfs sysfs sys
mount -t cgroup2 cgroup sys/fs/cgroup
# as systemd mounts it outside of containers
mount -t bpf -o mode=700 bpf sys/fs/bpf
mount -t tmpfs -o mode=755 tmpfs run
mount -t tmpfs -o mode=755 tmpfs dev
for device in null:1:3 zero:1:5 full:1:7 random:1:8 urandom:1:9 tty:5:0 ptmx:5:2; do
	mknod -m 666 dev/${device%%:*} c $(echo ${device#*:} | tr : " ")
done
mkdir dev/pts dev/shm
mkdir -p .host
pivot_root . .host
cd /
umount -l /.host
exec env -i container=other PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd
'

boot_machine() {
	mkdir "$cgroup"
	(
		echo 0 >"$cgroup/cgroup.procs"
		in_box unshare --mount --uts --ipc --cgroup --pid --fork --kill-child sh -c "$boot" boot "$root" \
			</dev/null >"$work/console" 2>&1
	) &
	background="$background $!"
	until_true "process 1 of the machine" find_init
	init=$(find_init)
	until_true "systemd is up" is_up
}

# The one process of that cgroup whose number is 1 in a namespace of its own.
find_init() {
	for pid in $(cat "$cgroup"/cgroup.procs "$cgroup"/init.scope/cgroup.procs 2>/dev/null); do
		if awk '/^NSpid:/ && NF > 2 && $NF == 1 { found = 1 } END { exit !found }' "/proc/$pid/status" 2>/dev/null; then
			echo "$pid"
			return 0
		fi
	done
	return 1
}

# As a shell of root there has it.
machine() {
	nsenter -t "$init" -m -u -i -p -n -C env -i HOME=/root TERM=dumb DEBIAN_FRONTEND=noninteractive \
		PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@"
}

is_up() { machine systemctl is-system-running | grep -qE 'running|degraded'; }

# Runs the block for a shell below a heading of docs/install.md.
follow() {
	awk -v heading="## $1" '/^## / { is_there = $0 == heading }
		/^```/ { is_shell = is_there && $0 == "```sh"; next } is_shell' docs/install.md >"$root/root/commands"
	[ -s "$root/root/commands" ] || fail "docs/install.md has no commands under $1"
	while read -r line; do
		machine sh -c "cd ${2:-/root} && APT_CONFIG=/root/apt.conf; export APT_CONFIG; $line" >"$work/out" 2>&1 </dev/null ||
			fail "$1: $line: $(cat "$work/out")"
		echo "  $line"
	done <"$root/root/commands"
}

# --- what is looked at

flows() { machine windlass flows "$@"; }
is_controlled() { flows state controlled and dst 192.0.2.7 | grep -q '10\.0\.0\.2:80'; }
counter() { machine windlass counters --json | sed -n "s/.*\"$1\":\([0-9]*\).*/\1/p"; }
main_pid() { machine systemctl show windlass --property MainPID --value; }

# Begins a transfer of so many bytes; `finish_transfer` waits for its end and compares what came.
begin_transfer() {
	load_bytes=$1
	start_curl
	until_true "the transfer is under control" is_controlled
}

start_curl() {
	in_client curl -s -r 0-$((load_bytes - 1)) -o "$work/got" http://10.0.0.2/load &
	transfer=$!
	background="$background $transfer"
}

# One that has ended stays there until it is waited for.
is_running() { awk '/^State:/ { exit $2 == "Z" }' "/proc/$transfer/status" 2>/dev/null; }

finish_transfer() {
	wait "$transfer" || fail "$1: curl ended with status $?"
	[ "$(sha256sum <"$work/got")" = "$(head -c "$load_bytes" "$work/www/load" | sha256sum)" ] || fail "$1: other bytes came than were served"
	passed "$1: $load_bytes bytes, checksum right"
}

# Numbers of all that is pinned: prog 17, map 18, link 3.
pinned() {
	for pin in $(machine find /sys/fs/bpf/windlass -type f); do
		for kind in prog map link; do
			bpftool "$kind" show pinned "/proc/$init/root$pin" 2>/dev/null | sed -n "1s/^\([0-9]*\):.*/$kind \1/p"
		done
	done | sort -u
}

is_freed() { ! bpftool "$1" show id "$2"; }

# --- what is tested

check_package() {
	lintian --fail-on error --display-info "$1" || fail "lintian"
	passed "lintian has no errors"
	dpkg-deb -c "$1" | awk '$6 ~ /usr\/bin\/windlass$/ { print "ok: the program has " $3 " bytes" }'
}

check_unit() {
	machine systemd-analyze verify /usr/lib/systemd/system/windlass.service >"$work/out" 2>&1 || fail "$(cat "$work/out")"
	! grep -q windlass "$work/out" || fail "systemd-analyze verify: $(cat "$work/out")"
	passed "systemd-analyze verify finds nothing"
	machine systemd-analyze security --offline=true --threshold=35 --no-pager \
		/usr/lib/systemd/system/windlass.service >"$work/out" 2>&1 || fail "$(tail -n 1 "$work/out")"
	passed "systemd-analyze security: $(tail -n 1 "$work/out")"
}

# As the kernel has it of the agent's process.
check_privileges() {
	status=/proc/$init/root/proc/$(main_pid)/status
	user=$(machine id -u windlass)
	for line in "Uid:$user$user$user$user" CapEff:000000c000003000 CapBnd:000000c000003000 CapAmb:000000c000003000 \
		NoNewPrivs:1 Seccomp:2; do
		tr -d '\t' <"$status" | grep -qx "$line" || fail "the agent's process has not $line: $(cat "$status")"
	done
	passed "the agent has user windlass, four capabilities, no new privileges, a filter"
	mounts=/proc/$init/root/proc/$(main_pid)/mountinfo
	awk '$5 == "/" && $6 !~ /^ro/ { exit 1 }' "$mounts" || fail "its root is not read-only"
	passed "its root file system is read-only"
}

install_and_run() {
	follow "The package" /root/previous
	! machine systemctl is-active --quiet windlass || fail "it runs without a policy"
	[ "$(machine systemctl is-enabled windlass)" = enabled ] || fail "it is not enabled"
	follow "A policy"
	until_true "the service is active" machine systemctl is-active --quiet windlass
	until_true "tap0 is under control" machine sh -c 'windlass status | grep -q tap0'
	check_unit
	check_privileges
	begin_transfer $short_bytes
	follow "Look at it"
	finish_transfer "a transfer behind the service"
	[ "$(counter repaired_segs)" -gt 0 ] || fail "no lost segment was repaired"
	passed "$(counter repaired_segs) lost segments were repaired by the box"
}

# A look at the flow every fifth of a second, until the file `stop` is there; prints how many had it under control, and how many not.
watch_control() {
	yes=0 no=0
	while [ ! -e "$work/stop" ] && is_running; do
		if is_controlled; then yes=$((yes + 1)); else no=$((no + 1)); fi
		sleep 0.2
	done
	echo "$yes $no" >"$work/looks"
}

upgrade() {
	begin_transfer $long_bytes
	before=$(main_pid) repaired=$(counter repaired_segs)
	rm -f "$work/stop"
	watch_control &
	watcher=$!
	follow "Another version" /root/current
	until_true "the new agent" machine sh -c 'windlass status | grep -q tap0'
	is_running || fail "the transfer ended before the upgrade did: too short"
	: >"$work/stop"
	wait $watcher
	read -r yes no <"$work/looks"
	[ "$no" = 0 ] || fail "$no of $((yes + no)) looks during the upgrade did not find the flow under control"
	passed "$yes of $yes looks during the upgrade found the flow under control"
	[ "$(main_pid)" != "$before" ] || fail "it is the older agent's process"
	machine readlink "/proc/$(main_pid)/exe" | grep -qx /usr/bin/windlass || fail "another program runs than the package's"
	is_controlled || fail "the flow is not under the new agent's control"
	[ "$(counter flows_mid_stream)" = 0 ] || fail "a flow was taken for one that is older than the box"
	finish_transfer "a transfer through the upgrade"
	[ "$(counter repaired_segs)" -gt "$repaired" ] || fail "nothing was repaired behind the upgrade"
	machine windlass --version | grep -q "$current_version" || fail "$(machine windlass --version)"
	passed "upgraded to $(machine windlass --version)"
}

restart() {
	begin_transfer $long_bytes
	machine systemctl stop windlass
	is_controlled || fail "the flow is not under control while the service is stopped"
	machine systemctl start windlass
	until_true "the agent is back" machine systemctl is-active --quiet windlass
	is_controlled || fail "the flow is not under control after a start"
	machine systemctl kill --signal KILL windlass
	until_true "systemd starts what was killed" machine sh -c '[ "$(systemctl show windlass -P NRestarts)" = 1 ] && windlass status'
	is_controlled || fail "the flow is not under control after a kill"
	passed "stopped, started and killed: the flow stays under control"
	finish_transfer "a transfer through these"
}

# An older version whose state of connections is another: the link says which it is.
other_state() {
	begin_transfer $long_bytes
	state=$(machine sh -c 'ls -d /sys/fs/bpf/windlass/*/tap0/state')
	machine ln -sfn 1 "$state"
	before=$(main_pid)
	machine sh -c 'apt-get install -y --reinstall /root/current/*.deb' >"$work/out" 2>&1 </dev/null || fail "$(cat "$work/out")"
	# apt has a terminal of its own for what it installs
	cure=$(tr -d '\r' <"$work/out" | sed -n 's|^ *\(/proc/.*\)|\1|p')
	[ -n "$cure" ] || fail "the installation has no cure: $(cat "$work/out")"
	[ "$(main_pid)" = "$before" ] || fail "the agent was replaced by one that cannot take over"
	is_controlled || machine readlink "/proc/$before/exe" | grep -q deleted || fail "it is not the older agent"
	passed "the agent goes on where the new one could not take over"
	machine sh -c "$cure" >"$work/out" 2>&1 || fail "$cure: $(cat "$work/out")"
	until_true "the new agent controls tap0" machine sh -c 'windlass status | grep -q tap0'
	finish_transfer "a transfer through the release that was printed"
}

remove() {
	begin_transfer $long_bytes
	pinned >"$work/pinned"
	[ "$(wc -l <"$work/pinned")" -gt 10 ] || fail "little is pinned: $(cat "$work/pinned")"
	follow "Remove"
	finish_transfer "a transfer through the removal"
	left=$(machine sh -c 'ls -d /sys/fs/bpf/windlass /run/windlass /var/lib/windlass /etc/windlass /usr/share/doc/windlass \
		/etc/systemd/system/multi-user.target.wants/windlass.service /var/lib/systemd/deb-systemd-helper-enabled/windlass* \
		2>/dev/null; ip -br link | grep wlc; getent passwd windlass; getent group windlass; dpkg -l windlass 2>/dev/null | grep ^.[^n]; \
		grep -lx windlass /proc/[0-9]*/comm') || true
	# file systems that others have mounted may stay, and what systemd keeps of any service
	[ -z "$left" ] || fail "left after purge: $left"
	while read -r kind id; do
		until_true "$kind $id is freed" is_freed "$kind" "$id"
	done <"$work/pinned"
	passed "nothing is left after purge: $(wc -l <"$work/pinned") programs, maps and links are freed, no device, file or user"
}

# The image's root file system with its four capabilities and no others, as a container engine has it.
run_image() {
	umoci unpack --image target/package/image:latest "$work/bundle" >/dev/null 2>&1
	rootfs=$work/bundle/rootfs
	cp packaging/debian/policy.example.toml "$rootfs/etc/windlass/policy.toml"
	others=$(capsh --decode="$(sed -n 's/^CapBnd:[[:space:]]*//p' /proc/self/status)" | sed 's/.*=//' | tr , '\n' |
		grep -vxE 'cap_(bpf|perfmon|net_admin|net_raw)' | paste -sd ,)
	in_box unshare --mount --propagation private sh -c '
		echo $$ >"$3" && cd "$1" && mount --bind . . && mount -t proc proc proc && mount -t sysfs sysfs sys &&
		mount --bind /dev dev &&
		mount -t bpf -o mode=700 bpf sys/fs/bpf && mount -o remount,bind,ro . && mount -t tmpfs -o mode=700 tmpfs run/windlass &&
		exec capsh --drop="$2" --chroot="$1" --shell=/usr/bin/windlass -- agent --policy /etc/windlass/policy.toml' \
		image "$rootfs" "$others" "$work/pid" >"$work/image" 2>&1 &
	shell=$!
	background="$background $shell"
	until_true "the image's agent controls tap0" grep -q 'tap0: under control' "$work/image"
	agent=$(cat "$work/pid")
	grep CapEff "/proc/$agent/status" | grep -q c000003000 || fail "$(cat "/proc/$agent/status")"
	load_bytes=$short_bytes
	start_curl
	finish_transfer "a transfer behind the image's agent"
	kill "$agent"
	wait $shell || fail "the image's agent ended with status $?: $(cat "$work/image")"
	passed "the image runs with four capabilities and a read-only root"
}

[ "$(id -u)" = 0 ] || cannot "needs root"
for tool in debootstrap lintian umoci bpftool capsh nginx nft; do
	command -v $tool >/dev/null || cannot "$tool is missing; \`make test-package\` installs what it needs"
done
[ -n "$(mirror)" ] || apt-get update -qq || true
[ -n "$(mirror)" ] || cannot "apt of this machine has no mirror of Debian"

previous=${PREVIOUS_PACKAGE-}
if [ -z "$previous" ]; then
	# older than any of this tree's
	WINDLASS_VERSION=0.0.1 packaging/package.sh
	previous=$(ls target/package/windlass_0.0.1-*.deb)
	mv "$previous" "$work/"
	previous=$work/$(basename "$previous")
fi
packaging/package.sh
current=$(ls -t target/package/windlass_*.deb | head -n 1)
current_version=$(target/package/files/windlass --version | cut -d ' ' -f 2)
packaging/image/build.sh

check_package "$current"
make_root
cp "$previous" "$root/root/previous/"
cp "$current" "$root/root/current/"
echo 'APT::Get::Assume-Yes "true"; APT::Sandbox::User "root";' >"$root/root/apt.conf"
make_network
make_server
boot_machine
passed "Debian's $suite is up, $(machine systemctl --version | head -n 1)"
install_and_run
upgrade
restart
other_state
remove
kill -KILL "$init" && init=
run_image
cd "$here"
echo "package: all of it holds"
