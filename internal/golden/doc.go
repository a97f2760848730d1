// Package golden holds engine directories that earlier versions of this module
// wrote, and the tests that open them: what was stored once is read for ever.
// There is nothing here but tests.
//
// testdata has two archives for each format version, and what is in them: one
// of a directory that was closed, and one of a directory whose engine was killed.
// A new format gets new archives; those of released formats are never written
// again. Write those of the present format with
//
//	go test ./internal/golden -golden.rewrite
package golden
