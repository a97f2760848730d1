// Package hook lets packages of this module reach what the engine does not
// offer to its hosts. The root package and package store fill it in.
package hook

import "sync/atomic"

// Fence makes a *pawl.Engine stop dead: from now on nothing that it does is
// committed, and nothing that it holds can be read. It is what a crash of the
// process does to the engine; its files stay as they are. The engine is to be
// closed afterwards.
var Fence func(engine any)

// PartBytes is from how many bytes on the store puts a record aside, in parts of as
// many: tests make it small, so that records of every size go that way.
var PartBytes atomic.Int64

// TrimOnce is how many records the store drops from the log in one transaction: tests
// make it small, so that the records of short runs go in several.
var TrimOnce atomic.Int64
