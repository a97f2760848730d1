// Package planted is the check of the tests themselves: a list of bugs, each a
// small change of the source, and the test that catches each. Its own test plants
// them one after the other in a copy of the module and runs that test, which must
// fail:
//
//	go test ./internal/planted -planted -v
//
// Without the flag it only checks that every bug can still be planted.
package planted
