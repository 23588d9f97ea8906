#!/bin/sh
# Builds the wheel of the Python package into target/wheels with maturin, which it installs into target/python/tools. `make wheel`
# runs it. PYTHON is the interpreter; the wheel goes with every Python from 3.10 on.
set -eu
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
"$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))' 2>/dev/null || {
	echo "wheel: $python is no Python 3.10 or newer with venv (Debian: apt-get install python3-venv); PYTHON names another"
	exit 2
}
tools=target/python/tools
[ -x $tools/bin/maturin ] || {
	"$python" -m venv $tools
	$tools/bin/pip install -q 'maturin>=1.9,<2'
}
# one wheel, so that none of an older tree is installed by mistake
rm -rf target/wheels
root=$PWD
cd python
CARGO_TARGET_DIR="$root/target/python" "$root/$tools/bin/maturin" build --release --out "$root/target/wheels" --compatibility linux
ls "$root"/target/wheels/*.whl
