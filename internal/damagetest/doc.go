// Package damagetest holds the tests that lose, tear and damage what is on the
// disk: losses of power, cut and changed logs, changed files, files of another
// kind, older copies. There is nothing here but tests.
//
//	go test ./internal/damagetest                              # a sample
//	go test ./internal/damagetest -timeout 2h -damage.all      # the figures of a release
//
// docs/reliability.md says what is checked and what was found.
package damagetest
