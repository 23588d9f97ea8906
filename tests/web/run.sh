#!/bin/sh
# The pages of `windlass web` in Debian's Chromium: `make test-web`. CHROMIUM is another program, WINDLASS_SCREENSHOTS=1 writes the
# pictures of docs/web.md, and arguments are Node's (--test-name-pattern=axe).
set -eu
cd "$(dirname "$0")/../.."
WINDLASS_ROOT=$PWD
export WINDLASS_ROOT
# the packages of npm stay out of the sources
out=target/web-tests
mkdir -p $out
cp tests/web/*.js $out/
if ! cmp -s tests/web/package.json $out/package.json || [ ! -d $out/node_modules ]; then
	cp tests/web/package.json tests/web/.npmrc $out/
	npm install --silent --prefix $out
fi
cd $out
exec node --test --test-concurrency=1 "$@"
