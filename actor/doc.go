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
// The package defines the two interfaces that it needs: [Store], the durable
// side of one run, and [Outbox], which carries effects away and never blocks.
package actor
