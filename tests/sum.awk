# Sums up what tests/run.sh has printed: which binaries ran into the limit of tests/limit.sh, and how many tests passed.
# `failed`: steps that failed. The status is 1 if anything failed, or nothing passed.

/^ *(Running|Doc-tests) / {
	binary = $0
	skipped_here = 0
	split("", slow)
}

# "skipped: TEST: why", or "skipped: TEST: part: why", of a test that has passed besides; with one thread the test's own
# line, not yet at its end, comes before
match($0, /(^| \.\.\. (ok|FAILED|ignored)?)skipped: [^:]+/) {
	name = substr($0, RSTART, RLENGTH)
	sub(/.*skipped: /, "", name)
	if (!((binary, name) in seen)) {
		skipped++
		skipped_here++
	}
	seen[binary, name]
}

/^test .* has been running for over 60 seconds$/ {
	slow[$2]
}

/^test .* \.\.\. (ok|FAILED)$/ {
	delete slow[$2]
}

/timeout: sending signal TERM to command/ {
	where = binary
	sub(/^ */, "", where)
	killed = killed "killed, as it took too long: " where "\n"
	for (name in slow)
		killed = killed "  without a result: " name "\n"
}

/^test result: / {
	passed += $4 > skipped_here ? $4 - skipped_here : 0
	failed += $6
	ignored += $8
	skipped_here = 0
}

END {
	printf "%s", killed
	printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped + ignored
	exit failed > 0 || passed == 0
}
