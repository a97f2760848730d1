// Package actor runs one workflow run as one goroutine with one mailbox, after
// the actor model of Hewitt, Bishop and Steiger (1973) and the Durable Objects
// that pawl's runs resemble.
//
// A turn of an [Actor] takes a batch of messages, plans them one after another
// on the state in memory, commits the records of all of them in one
// transaction, and only then lets replies and effects leave: the output gate.
// A commit that fails sends nothing; the actor forgets its state and activates
// again from what is stored. Memory is a cache.
//
// One turn runs at a time, in the actor's goroutine or, while that one is idle, in
// the goroutine of the caller of [Actor.Deliver]. A message that is delivered while
// a turn runs waits in the mailbox, and its caller does not wait.
//
// In a chain of tasks, nearly all turns therefore run in the goroutine that performs
// the tasks. If they ran in the actor's own goroutine, each step would wake two
// goroutines, and with them threads: this way a single chain takes 16 to 23 % less
// processor time and makes more steps a second, and 64 chains at a time take 2 to
// 6 % less (bench/NOTES.md).
//
// The package defines the two interfaces that it needs: [Store], the durable
// side of one run, and [Outbox], which carries effects away and never blocks.
package actor
