// Package pawltest plays scenario files: a definition, mocked tasks, events at
// given times, and the expected outcome. They run on the real
// engine and on real files, in virtual time: a wait of a hundred years
// takes milliseconds.
//
// A test plays all scenarios of a file or folder as subtests:
//
//	func TestOrders(t *testing.T) { pawltest.Run(t, "testdata/orders") }
//
// The same files are played from the shell by "pawl test". A file holds one
// scenario per YAML document; its format is in docs/scenarios.md
// and described by [Schema]. A problem of
// a definition inside a scenario has its line in the scenario file.
//
// # Order within an instant
//
// Virtual time stands still while anything is left to do at an instant. The steps of one instant
// happen one after the other, and each is committed before the next begins:
//
//  1. results of mocks with a delay that are due, in the order of their tasks
//  2. events of the scenario, in the order of the file
//  3. results of mocks without a delay, in the order of their tasks
//  4. timers and timeouts of the engine
//  5. firings of schedules
//
// so that a result wins over a timeout at the same instant. Options.Shuffle
// permutes the results.
//
// # Limits
//
// One scenario is played at a time in a process. While one is played, no other
// test of the process may run an engine within testing/synctest. An engine
// that a test runs there has no Options.Socket, and no HTTP server beside it:
// while a goroutine waits for connections, virtual time stands still.
package pawltest
