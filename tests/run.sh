#!/bin/sh
# Runs lints and tests; the last line sums up.
#   run.sh         what CI runs: `make test`
#   run.sh long    as well what is slow and rarely fails: `make test-long`. Those tests are ignored otherwise, by name, or are
#                  shorter without WINDLASS_TEST_LONG.
set -u
if [ "${1-}" = long ]; then
	export WINDLASS_TEST_LONG=1
	# a thousand rounds of what `make test` has five of (tests/limit.sh)
	export WINDLASS_TEST_LIMIT="${WINDLASS_TEST_LIMIT:-90m}"
fi
# tests/sum.awk reads the output of cargo and timeout
export CARGO_TERM_COLOR=never CARGO_TERM_QUIET=false LC_MESSAGES=C
unset LC_ALL LANGUAGE
cd "$(dirname "$0")/.." || exit 1
logs=$(mktemp -d) || exit 1
log=$logs/all
besides=
trap 'kill $besides 2>/dev/null; rm -rf "$logs"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
failed_steps=0

# Shows and keeps what the step prints; counts it if it fails (the status of the command, not that of tee).
run() {
	echo "== $*"
	{ "$@" 2>&1; echo $? >"$log.status"; } | tee -a "$log"
	[ "$(cat "$log.status")" = 0 ] || failed_steps=$((failed_steps + 1))
}

# Begins a step that goes on beside the next ones, where these leave a processor idle.
begin() {
	name=$1
	shift
	nice "$@" >"$logs/$name" 2>&1 &
	besides="$besides $!"
	eval "pid_of_$name=$!"
}

# Waits for such a step; shows what it has printed.
finish() {
	echo "== $1"
	eval "wait \"\$pid_of_$1\""
	finished=$?
	# libFuzzer proposes a dictionary, in hundreds of lines
	sed '/^###### Recommended/,/^###### End of/d' "$logs/$1" | tee -a "$log"
	[ "$finished" = 0 ] || failed_steps=$((failed_steps + 1))
}

# A test that takes a minute of one processor goes on beside the others, which leave one idle for as long. Not the virtual machine's: a
# kernel that is starved while it boots panics over its timers.
ORACLE=random_flows_get_their_servers_bytes
# Short searches need what is built beside the tests for the long one, so they come last.
SEARCHES=a_search_

run tests/deny.sh ${WINDLASS_TEST_LONG:+all}
# with all that is tested: alone, the program's libraries would be built with fewer features, and then again
run cargo build --workspace --all-targets
begin oracle tests/cargo_test.sh --workspace --test oracle -- --nocapture "$ORACLE"
# for segments and ticks that break the box, from nothing and in the same order at every run
begin search fuzz/run.sh boxed -max_total_time="${WINDLASS_FUZZ_SECONDS:-60}" -max_len=500 -len_control=0 -seed=1 -verbosity=0
begin lint make --no-print-directory lint
run tests/cargo_test.sh --workspace --no-fail-fast -- --nocapture --skip "$ORACLE" --skip "$SEARCHES" ${WINDLASS_TEST_LONG:+--include-ignored}
finish oracle
finish lint
finish search
run tests/cargo_test.sh --workspace --test guided -- --nocapture
if [ -n "${WINDLASS_TEST_LONG-}" ]; then
	# both builds must simulate the same, to the byte
	run tests/cargo_test.sh --release -p windlass-sim --test determinism
	run cmp target/tmp/determinism.debug.json target/tmp/determinism.release.json
	run make --no-print-directory vm-test miri
	if python3 -c 'import venv, ensurepip' 2>/dev/null; then
		run make --no-print-directory test-python
	else
		echo "skipped: make test-python: python3 has no venv (Debian: apt-get install python3-venv)"
	fi
	! command -v chromium >/dev/null || run make --no-print-directory test-web
	! command -v debootstrap >/dev/null || run make --no-print-directory test-package
fi

awk -v failed="$failed_steps" -f tests/sum.awk "$log"
