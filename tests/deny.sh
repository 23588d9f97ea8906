#!/bin/sh
# Checks the packages of the build against deny.toml with cargo-deny.
#   deny.sh        licences, versions and sources; skipped where cargo-deny is not installed. `make test` runs it.
#   deny.sh all    known faults as well; builds cargo-deny first where it is missing. `make deny` runs it.
# Known faults are in a git repository. Where it cannot be fetched, ADVISORY_DB names a clone of it.
set -eu
cd "$(dirname "$0")/.."
cargo=${CARGO:-cargo}
# others read deny.toml differently
version=0.20.2
advisories=https://github.com/RustSec/advisory-db
PATH="$PWD/target/tools/bin:$PATH"

if [ "$(cargo-deny --version 2>/dev/null)" != "cargo-deny $version" ]; then
	if [ "${1-}" != all ]; then
		echo "skipped: cargo-deny: $version is not installed; \`make deny\` installs it"
		exit
	fi
	CARGO_PROFILE_DEV_DEBUG=0 $cargo install cargo-deny --version "$version" --locked --debug --root target/tools
fi
# check WHICH...: the packages of the program, and those of the Python package
check() {
	# shellcheck disable=SC2086
	$cargo deny --locked $offline check "$@"
	# shellcheck disable=SC2086
	$cargo deny --locked $offline --manifest-path crates/windlass-python/Cargo.toml --config crates/windlass-python/deny.toml \
		check "$@"
}

offline=
check bans licenses sources
[ "${1-}" = all ] || exit 0

if [ -n "${ADVISORY_DB-}" ]; then
	export GIT_CONFIG_COUNT=1 GIT_CONFIG_VALUE_0="$advisories"
	export GIT_CONFIG_KEY_0="url.$(realpath "$ADVISORY_DB").insteadOf"
fi
if $cargo deny fetch db; then
	check advisories
elif ls -d "${CARGO_HOME:-$HOME/.cargo}"/advisory-dbs/advisory-db-* >/dev/null 2>&1; then
	# as it was when last fetched; cargo-deny refuses one that is older than 90 days
	offline=--offline
	check advisories
else
	echo "skipped: cargo-deny: known faults: $advisories cannot be fetched; ADVISORY_DB=CLONE names a copy"
fi
