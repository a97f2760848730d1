// Package ownertest holds the tests of who owns an engine directory, and for how
// long: processes that open it side by side, are stopped in the middle of a
// commit and go on when it has another owner; two engines in one process; engines
// that close under load, or are asked for everything at once; and engines whose
// wall clock jumps. There is nothing here but tests.
//
//	PAWL_TEST=gate go test ./internal/testing/ownertest                   # a sample
//	PAWL_TEST=release go test ./internal/testing/ownertest -timeout 2h    # the figures of a release
//
// internal/testing/harness/NOTES.md says what is checked and what was found.
package ownertest
