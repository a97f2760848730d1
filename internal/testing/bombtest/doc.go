// Package bombtest holds the tests that feed an engine with what is too large,
// too deep, endless or hostile: values at every limit and beyond, expressions,
// loops, fan-outs, recursions and patches that want to grow without bound, names
// that want to be something else. A bomb must end in a typed error, leave what it
// was refused by unchanged, and not hold up other runs. There is nothing here but
// tests.
//
//	PAWL_TEST=gate go test ./internal/testing/bombtest                   # limits lowered where the default takes long
//	PAWL_TEST=release go test ./internal/testing/bombtest -timeout 1h    # the defaults as well, and larger samples
//
// internal/testing/harness/NOTES.md says what is checked and what was found.
package bombtest
