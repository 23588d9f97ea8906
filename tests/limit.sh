#!/bin/sh
# Runs a test's binary as tests/run.sh has cargo do: for so long at most, so that one that hangs does not hang all tests.
# The limit is some five times what the slowest takes. The binary and what it has started are a process group of their
# own, which ends with it at the limit, or when cargo ends first, as by Ctrl-C. Such a group cannot read from a terminal.
# Then what is printed may not be read any more, and timeout must not end by its own message. Rust's programs ignore SIGPIPE anyway,
# and those that they start have it as ever.
trap '' PIPE
# What these do is mostly to wait, for packets and for others: cargo runs as many at once as there are processors.
case ${1##*/} in
end_to_end-* | guests-* | pages-*) export RUST_TEST_THREADS="${RUST_TEST_THREADS:-$(($(nproc) * 2))}" ;;
esac
# What the binary leaves in its group is ended, too: a reader would wait for it.
then_end_the_rest='trap : TERM
"$@"
status=$?
for pid in $(sed -n "s/^\([0-9]*\) (.*) [A-Za-z] [0-9]* $PPID .*/\1/p" /proc/[0-9]*/stat 2>/dev/null); do
	[ "$pid" = $$ ] || [ "$pid" = "$PPID" ] || kill -KILL "$pid" 2>/dev/null
done
exit $status'
exec setpriv --pdeathsig TERM timeout --verbose --kill-after=30 "${WINDLASS_TEST_LIMIT:-25m}" \
	sh -c "$then_end_the_rest" "$1" "$@" </dev/null
