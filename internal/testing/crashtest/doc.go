// Package crashtest holds the tests that kill processes. A child, which is the
// test binary again, works on an engine directory and kills itself at a
// failpoint; the parent compares what the child was told with what it finds, and
// lets the runs end. There is nothing here but tests.
//
//	PAWL_TEST=gate go test ./internal/testing/crashtest                   # a sample of the kills
//	PAWL_TEST=release go test ./internal/testing/crashtest -timeout 2h    # every hit of every failpoint
//
// internal/testing/harness/NOTES.md says what is checked and what was found.
package crashtest
