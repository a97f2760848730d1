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
// A turn is had by the actor's goroutine or, while that waits for something to
// do, by the goroutine of who delivers a message ([Actor.Deliver]): by one at a
// time. A message that is delivered while the actor has something else to do
// waits in the mailbox, and nobody has to wait with it.
//
// In a chain of tasks nearly all turns are therefore had by the goroutine that
// performs the tasks. A turn of the actor's own goroutine would be the same, but
// each step would wake two goroutines, and with them threads: a chain alone
// takes 16 to 23 % less processor time so and makes more steps a second, 64
// chains at a time take 2 to 6 % less (bench/NOTES.md).
//
// The package defines the two interfaces that it needs: [Store], the durable
// side of one run, and [Outbox], which carries effects away and never blocks.
package actor
