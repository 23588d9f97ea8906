#!/bin/sh
# Runs lints and all tests; the last line sums up. Called by `make test`.
set -u
cd "$(dirname "$0")/.." || exit 1
log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT
failed_steps=0

# Shows and keeps what the step prints; counts it if it fails (the status of the command, not that of tee).
run() {
	echo "== $*"
	{ "$@" 2>&1; echo $? >"$log.status"; } | tee -a "$log"
	[ "$(cat "$log.status")" = 0 ] || failed_steps=$((failed_steps + 1))
}

run make --no-print-directory lint
run cargo build -p windlass
run cargo test --workspace --no-fail-fast -- --nocapture
# both builds must simulate the same, to the byte
run cargo test --release -p windlass-sim --test determinism
run cmp target/tmp/determinism.debug.json target/tmp/determinism.release.json
rm -f "$log.status"

sum() {
	sed -n "s/^test result: .* \([0-9]*\) $1.*/\1/p" "$log" | awk '{ n += $1 } END { print n + 0 }'
}
passed=$(sum passed)
failed=$(($(sum failed) + failed_steps))
skipped=$(($(grep -c '^skipped: ' "$log") + $(sum ignored)))
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
