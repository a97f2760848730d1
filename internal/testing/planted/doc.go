// Package planted is the check of the tests themselves: a list of bugs, each a
// small change of the source, and the test that catches each. Its own test plants
// them one after the other in a copy of the module and runs that test, which must
// fail:
//
//	PAWL_TEST=release go test ./internal/testing/planted -timeout 1h -v
//
// At lower levels it only checks that every bug can still be planted.
package planted
