#!/bin/sh
# Makes recorded.txt anew: a real download through the box, as the box saw it on the side of the clients. Run as root, with
# target/release/windlass built.
#
#   d <us> <first byte> <bytes>              data on its way to the client, repairs of the box among it
#   a <us> <next byte> [<first>-<end> ...]   an ACK, and the blocks that it reports (RFC 2018)
set -eu
cd "$(dirname "$0")"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
sed 's/^size = .*/size = "2 MB"/' ../../scenarios/wan.toml > "$folder/download.toml"
../../target/release/windlass run "$folder/download.toml" --captures "$folder"
tcpdump -tt -nr "$folder/clients.pcap" 2> /dev/null | awk '
	/Flags \[[^]]*[SFR]/ { next }
	{ split($1, at, "."); now = (at[1] % 100000) * 1000000 + at[2]; if (!begun) begun = now; us = now - begun }
	$3 ~ /\.80$/ && !/length 0/ {
		match($0, /seq [0-9]+:[0-9]+/); split(substr($0, RSTART + 4, RLENGTH - 4), seq, ":")
		print "d", us, seq[1], seq[2] - seq[1]
	}
	$5 ~ /\.80:$/ && /length 0/ {
		match($0, /ack [0-9]+/); line = "a " us " " substr($0, RSTART + 4, RLENGTH - 4); rest = $0
		while (match(rest, /\{[0-9]+:[0-9]+\}/)) {
			block = substr(rest, RSTART + 1, RLENGTH - 2); sub(":", "-", block); line = line " " block
			rest = substr(rest, RSTART + RLENGTH)
		}
		print line
	}' > recorded.txt
