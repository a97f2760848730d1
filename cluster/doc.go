// Package cluster lets several processes keep one engine directory: one of them has it open, and if that
// one dies, or is cut off, another takes over with everything that was acknowledged.
//
// The processes are the nodes. They share a [Backend]: the log in which every commit is kept before it counts (see
// pawl.RemoteOptions), two stores, and a [Cell], which says who has the lease. The node with the lease opens the engine, and
// renews the lease; the others stand by, each with a directory that is kept as the log has it, and a node that sees that the
// lease was not renewed for its term takes it. The lease says who should have the directory, and who may answer: a clock or a pause that
// deceives it costs a take-over or an old answer and nothing else, because the log takes commits only from the node that took it last.
//
// A node answers the HTTP API of the engine (package api), wherever the engine is: a node that does not have it passes requests
// on to the one that has. [Node.Client] calls it in the same way.
package cluster
