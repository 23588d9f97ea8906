#!/bin/sh
# A server to try Windlass with, in a network namespace: in the place of a virtual machine, a container or a host.
#   try.sh up IFACE [bridge]   the server, behind IFACE, and a client over a line of 20 Mbit/s that loses what is too much
#   try.sh load IFACE          the client downloads for three seconds: goodput, and what the server itself had to retransmit
#   try.sh down IFACE          removes both
# Needed: root, iproute2, iperf3. Nothing leaves this machine.
set -eu
[ $# -ge 2 ] || { sed -n '2,6s/^# \{0,1\}//p' "$0" >&2; exit 2; }
iface=$2
server=try-$iface
client=away-$iface
uplink=up-$iface
near=10.79.0
far=198.51.100

up() {
	for name in "$server" "$client"; do
		ip netns add "$name"
		ip -n "$name" link set lo up
	done
	ip link add "$iface" type veth peer name eth0 netns "$server"
	ip link add "$uplink" type veth peer name eth0 netns "$client"
	gateway=$iface
	if [ "${1-}" = bridge ]; then
		gateway=br-$iface
		ip link add "$gateway" type bridge
		ip link set "$iface" master "$gateway" up
	fi
	ip addr add "$near.1/24" dev "$gateway"
	ip addr add "$far.1/24" dev "$uplink"
	ip link set "$gateway" up
	ip link set "$uplink" up
	host "$server" "$near"
	host "$client" "$far"
	sysctl -qw net.ipv4.ip_forward=1
	tc qdisc add dev "$uplink" root tbf rate 20mbit burst 20kb limit 60kb
	ip netns exec "$server" iperf3 --server --daemon
}

host() {
	ip -n "$1" addr add "$2.2/24" dev eth0
	ip -n "$1" link set eth0 up
	ip -n "$1" route add default via "$2.1" congctl cubic
}

load() {
	ip netns exec "$client" iperf3 --client "$near.2" --reverse --time 3 --format m |
		awk '/ sender$/ { retransmissions = $(NF - 1) } / receiver$/ { goodput = $(NF - 2) " " $(NF - 1) }
		     END { if (goodput == "") exit 1; print goodput ", " retransmissions " retransmissions by the server" }'
}

down() {
	ip netns pids "$server" | xargs -r kill
	ip link del "$iface" 2>/dev/null || true
	ip link del "$uplink" 2>/dev/null || true
	ip link del "br-$iface" 2>/dev/null || true
	ip netns del "$server"
	ip netns del "$client"
}

case $1 in
up | load | down) "$1" "${3-}" ;;
*) echo "try.sh: up, load or down, not '$1'" >&2 && exit 2 ;;
esac
