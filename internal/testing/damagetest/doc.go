// Package damagetest holds the tests that lose, tear and damage what is on the
// disk: losses of power, cut and changed logs, changed files, files of another
// kind, older copies. There is nothing here but tests.
//
//	PAWL_TEST=gate go test ./internal/testing/damagetest                   # a sample
//	PAWL_TEST=release go test ./internal/testing/damagetest -timeout 2h    # the figures of a release
//
// internal/testing/harness/NOTES.md says what is checked and what was found.
package damagetest
