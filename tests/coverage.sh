#!/bin/sh
# Which lines of core/box run in its tests: those of the core and of the simulator, all conversations, the fuzz target `boxed` on random
# input, and on what searches have kept (fuzz/corpus/boxed). Prints a table of files, then each line that does not run, and fails if fewer
# than 95 % of them do. All runs natively, without root.
#   COVERAGE_OF=core/flow tests/coverage.sh     the same of other files, without a bound
set -eu
cd "$(dirname "$0")/.."
cargo=${CARGO:-cargo}
of=${COVERAGE_OF:-core/box}
unset RUSTFLAGS
# where the platform is named, build scripts do not get the flags
platform=$($cargo -vV | sed -n 's/^host: //p')
export CARGO_TARGET_DIR="$PWD/target/coverage"
counts=$CARGO_TARGET_DIR/counts
rm -rf "$counts"
mkdir -p "$counts"
tests="-p windlass-core -p windlass-sim -p windlass-conversations -p windlass-fuzz --test boxed --test groups --test conversations --test random"

# cargo's COMMAND, with counters in the C core
counted() {
	command=$1
	shift
	$cargo "$command" --config tests/coverage.toml --target "$platform" "$@"
}

# programs that such a command builds
programs_of() {
	counted "$@" --message-format=json-render-diagnostics >"$counts/built"
	sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' "$counts/built"
}

# shellcheck disable=SC2086 # words
programs=$(programs_of test --no-run $tests)
replay=$(programs_of build -p windlass-fuzz --bin boxed)
export LLVM_PROFILE_FILE="$counts/%p-%m.profraw"
# the programs in the kernel count nothing
# shellcheck disable=SC2086
counted test $tests -- --skip through_the_programs --skip in_both_homes
if [ -d fuzz/corpus/boxed ]; then
	find fuzz/corpus/boxed -type f -print0 | xargs -0 -r "$replay" >/dev/null
fi

llvm-profdata-19 merge -sparse -o "$counts/all.profdata" "$counts"/*.profraw
set -- "-instr-profile=$counts/all.profdata" "$replay"
for program in $programs; do
	set -- "$@" -object "$program"
done
llvm-cov-19 export -format=lcov "$@" "$PWD/$of" >"$counts/lcov"
awk -v root="$PWD/" -v least="$([ "$of" = core/box ] && echo 95 || echo 0)" '
	# SF:FILE, then DA:LINE,COUNT for each of its lines
	/^SF:/ { file = substr($0, 4); sub(root, "", file); if (!(file in lines)) files[++n] = file }
	/^DA:/ {
		split(substr($0, 4), of, ",")
		lines[file]++
		all++
		if (of[2] > 0) { run[file]++; all_run++; next }
		not_run[++m] = file ":" of[1]
	}
	END {
		printf "%-28s %6s %6s %7s\n", "file", "lines", "run", "%"
		for (i = 1; i <= n; i++)
			printf "%-28s %6d %6d %7.1f\n", files[i], lines[files[i]], run[files[i]], 100 * run[files[i]] / lines[files[i]]
		printf "%-28s %6d %6d %7.1f\n", "all", all, all_run, all ? 100 * all_run / all : 0
		print m ? "lines that do not run:" : "all lines run"
		for (i = 1; i <= m; i++) {
			split(not_run[i], at, ":")
			# its text, which the files of this tree have
			while (line_of[at[1]] < at[2] && (getline text < at[1]) > 0) line_of[at[1]]++
			gsub(/^[ \t]+/, "", text)
			print "  " not_run[i] ": " text
		}
		if (!all || 100 * all_run < least * all) { print "fewer than " least " % of the lines run"; exit 1 }
	}' "$counts/lcov"
