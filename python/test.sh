#!/bin/sh
# Installs the wheel in target/wheels into a clean virtual environment, with what its tests need, and runs them: types, docstrings, the
# examples of docs/python.md and the notebook among them. `make test-python` runs it after `make wheel`.
#   test.sh [ARGUMENT...]    arguments for pytest
set -eu
cd "$(dirname "$0")/.."
root=$PWD
CARGO_TARGET_DIR=$root/target/python "${CARGO:-cargo}" clippy -q --locked --manifest-path crates/windlass-python/Cargo.toml \
	--all-targets -- -D warnings
venv=target/python/venv
rm -rf $venv
"${PYTHON:-python3}" -m venv $venv
wheel=$(ls target/wheels/*.whl)
$venv/bin/pip install -q "$wheel[plot,learn]" -r python/tests/requirements.txt
# what not every Python has yet; tests that need it are skipped
for package in distributed polars ray; do
	$venv/bin/pip install -q $package || echo "skipped: $package: pip could not install it"
done
# away from the sources, so that it is the wheel that is imported
cd python/tests
WINDLASS="${WINDLASS:-$root/target/debug/windlass}" exec "$root/$venv/bin/python" -m pytest -q -rs -p no:cacheprovider "$@" .
