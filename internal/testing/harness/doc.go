// Package harness is what the packages share that break things: internal/testing/crashtest,
// internal/testing/damagetest, internal/testing/disktest, internal/testing/ownertest, internal/testing/bombtest,
// internal/testing/golden, internal/testing/simulator. It is for tests only; no package of the
// product imports it.
//
//   - Where tests work: [Workspace] is a directory in memory, [CopyLive] is one as the death of
//     its process leaves it, [Contents] is all that is in one, to compare what was there with what is.
//   - How much they try: [CurrentLevel], which PAWL_TEST sets, [Figure], [Today], [InTurn],
//     [RequireLevel], [MeasuresTime], [MeasuresMemory], [CheckProperty] and [Raced].
//   - Servers in virtual time: [Pipes], and [BusyClients] of a handler whose server has short time-outs.
//   - Processes that are harmed: [Main] makes the test binary a child,
//     [Environment] is what a child is told, [Killed] how it came to its end.
//
// Package internal/testing/harness/witness has the rest: what a host was told, held against
// what is found in its engine directory afterwards.
package harness
