// Package golden holds engine directories that were written once, and the tests
// that open them: from the first release on, what was stored once is read for ever.
// There is nothing here but tests.
//
// testdata has two archives for each format version from that of the first release
// on, and what is in them: one of a directory that was closed, and one of a directory
// whose engine was killed. Until that release they are of the present format alone, since
// directories of formats before it are refused. A format that follows a released one gets
// new archives; those of released formats are never written again. Write those of the
// present format with
//
//	go test ./internal/testing/golden -golden.rewrite
package golden
