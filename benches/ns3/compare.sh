#!/bin/sh
# Packet-hops per second of ns-3 and of the simulator on the same loads, in turn, and the ratio of the best of each.
# Called by `make bench-ns3`, which installs ns-3 and builds both. Rounds: first argument, 3 by default.
# The ns-3 is Debian's, which is built without -O3 (an optimised build of ns-3 is 1.1 to 2.1 times as fast on these loads) and runs
# without SACK here: where its sources are at hand, build them with `./ns3 configure -d optimized` and name the library's folder in
# LD_LIBRARY_PATH.
set -eu
cd "$(dirname "$0")/../.."
rounds=${1:-3}
ns3=target/ns3-speed

value() {
	sed -n "s/.*\"hops_per_s\":\([0-9]*\).*/\1/p"
}

more() {
	if [ "$1" -gt "$2" ]; then echo "$1"; else echo "$2"; fi
}

printf '%-12s %16s %16s %8s %8s\n' load 'ns-3 hops/s' 'windlass hops/s' ratio bound
for pair in five-flows:15 incast:40 fat-tree:40; do
	load=${pair%:*}
	theirs=0
	ours=0
	for _ in $(seq "$rounds"); do
		theirs=$(more "$theirs" "$("$ns3" "$load" | value)")
		ours=$(more "$ours" "$(target/release/windlass bench sim --only "$load" --json | value)")
	done
	printf '%-12s %16s %16s %8s %8s\n' "$load" "$theirs" "$ours" "$((ours / theirs))" ">= ${pair#*:}"
done
echo "ratio: to Debian's ns-3, built without -O3 and run without SACK; an optimised build is 1.1 to 2.1 times as fast"
