#!/bin/sh
# Steps a second of environments: ns3-gym's rl-tcp in the way that it publishes, a simulation in a process of its own and a socket to
# the learner for each environment, and `windlass.env.VectorEnv` with the same network. Called by `make bench-ns3gym`, which installs
# ns-3 and what ns3-gym needs, after `make wheel`. NS3GYM names a clone of ns3-gym, which no registry of packages carries.
set -eu
cd "$(dirname "$0")/../.."
[ -d "${NS3GYM-}/model" ] || {
	echo "NS3GYM=CLONE names a clone of ns3-gym; without one there is nothing to compare with"
	exit 2
}
clone=$(realpath "$NS3GYM")
here=$PWD/benches/ns3gym
work=$PWD/target/ns3gym
rm -rf "$work"
mkdir -p "$work/include/ns3" "$work/client/ns3gym"

# the module as its CMakeLists.txt has it, against Debian's ns-3
protoc -I "$clone/model" --cpp_out="$work/include" --python_out="$work/client/ns3gym" messages.proto
for header in "$clone"/model/*.h "$clone"/helper/*.h; do
	ln -s "$header" "$work/include/ns3/"
	echo "#include \"ns3/$(basename "$header")\"" >>"$work/include/ns3/opengym-module.h"
done
cp "$clone"/model/ns3gym/ns3gym/*.py "$work/client/ns3gym/"
libraries=
for name in applications internet point-to-point point-to-point-layout traffic-control network flow-monitor stats core; do
	libraries="$libraries -lns3-$name"
done
# shellcheck disable=SC2086
g++ -O2 -std=c++17 -w -I"$work/include" -I"$clone/model" -o "$work/rl-tcp" "$clone"/model/*.cc "$clone"/helper/*.cc \
	"$clone"/examples/rl-tcp/*.cc "$work/include/messages.pb.cc" -lzmq -lprotobuf $libraries

"${PYTHON:-python3}" -m venv "$work/theirs"
"$work/theirs/bin/pip" install -q pyzmq 'protobuf<3.21' numpy gym
"${PYTHON:-python3}" -m venv "$work/ours"
"$work/ours/bin/pip" install -q "$(ls target/wheels/*.whl)[learn]"

export GYM_NS3_CLIENT="$work/client" GYM_NS3_PROGRAM="$work/rl-tcp"
for count in 1 2 4; do
	for number in $(seq "$count"); do
		"$work/theirs/bin/python" "$here/theirs.py" $((5600 + 10 * count + number)) 2>"$work/log.$count.$number" &
	done | awk -v n="$count" '{ sum += $1 } END { printf "ns3-gym, %d processes: %.0f steps/s\n", n, sum }'
done
"$work/ours/bin/python" "$here/ours.py"
