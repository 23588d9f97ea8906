# Sums up what tests/run.sh has printed: which binaries ran into the limit of tests/limit.sh, and how many tests passed.
# `failed`: steps that failed. The status is 1 if anything failed, or nothing passed.

/^ *(Running|Doc-tests) / {
	split("", slow)
}

/^skipped: / {
	skipped++
}

/^test .* has been running for over 60 seconds$/ {
	slow[$2]
}

/^test .* \.\.\. (ok|FAILED)$/ {
	delete slow[$2]
}

/timeout: sending signal TERM to command/ {
	sub(/.*timeout: sending signal TERM to command/, "")
	killed = killed "killed, as it took too long:" $0 "\n"
	for (name in slow)
		killed = killed "  without a result: " name "\n"
}

/^test result: / {
	passed += $4
	failed += $6
	ignored += $8
}

END {
	printf "%s", killed
	printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped + ignored
	exit failed > 0 || passed == 0
}
