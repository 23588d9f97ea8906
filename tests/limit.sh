#!/bin/sh
# Runs a test's binary as tests/run.sh has cargo do: for so long at most, so that one that hangs does not hang all tests.
# The limit is some three times what the slowest takes. The binary and what it has started are a process group of their
# own, which ends with it at the limit, or when cargo ends first, as by Ctrl-C. Such a group cannot read from a terminal.
# Then nobody may read on what is printed, and timeout must not end by its own message. Rust's programs ignore SIGPIPE anyway,
# and those that they start have it as ever.
trap '' PIPE
exec setpriv --pdeathsig TERM timeout --verbose --kill-after=30 "${WINDLASS_TEST_LIMIT:-25m}" "$@" </dev/null
