#!/bin/sh
# `cargo test`, with a limit of time for each binary (tests/limit.sh).
exec cargo --config "target.'cfg(unix)'.runner = 'tests/limit.sh'" test "$@"
