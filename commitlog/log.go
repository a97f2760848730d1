// Package commitlog has the interface [Log], in which an engine keeps its changes outside of its directory: as a copy
// ([pawl.Engine.Follow]), or before each commit ([pawl.Options].Remote). Package store/folderlog implements it in a folder.
//
// [pawl.Engine.Follow]: https://pkg.go.dev/github.com/pawl-run/pawl#Engine.Follow
// [pawl.Options]: https://pkg.go.dev/github.com/pawl-run/pawl#Options
package commitlog

import (
	"context"
	"iter"
)

// A Position is a place in a [Log]: the entry with that number. The zero value is before
// the first one.
//
// Seq says where an entry is. Sum identifies it and all entries before it, since each
// entry contains the sum of the one before. Two logs that agree on a position agree on everything up
// to it.
type Position struct {
	Seq uint64   `json:"seq"` // from 1
	Sum [32]byte `json:"-"`   // SHA-256 of the entry
}

// An Entry is what a [Log] holds at one position.
type Entry struct {
	Seq  uint64 // from 1
	Data []byte
}

// A Log keeps entries in their order, outside of the engine directory: in a folder of
// another disk, say, or on servers. Entries are below 1 MB, unless one transaction is larger, and
// mean nothing to the Log.
// It has one writer at a time: the last one that took it. Package store/logtest has the tests
// that every Log must pass.
//
// The engine asks little of a Log: an order, one writer, and entries that stay once Append has
// returned. If the writer appends an entry again, because the answer was lost, the Log keeps it
// only once. A commit of a remote directory survives what the Log promises
// to survive.
type Log interface {
	// Take makes the caller the writer: earlier writers can append no more. It appends the entry
	// that makeEntry returns for the last position, and returns the position of that entry. It
	// calls makeEntry again if somebody has appended meanwhile. If makeEntry cancels ctx,
	// nothing is appended, the former writer keeps the Log, and Take fails with the cause.
	Take(ctx context.Context, makeEntry func(last Position) []byte) (Position, error)
	// Append appends an entry behind the last one, and returns its position when the entry
	// is as durable as the Log promises. It fails with pawl.ErrFenced if somebody
	// else has taken the Log, and with pawl.ErrNoSpace if it has no room for the entry, which this
	// attempt has not put there. After any other error the entry may be there or not; the writer
	// may append it again.
	Append(ctx context.Context, entry []byte) (Position, error)
	// Read yields, in order, the entries behind a position that exist when it begins, and perhaps
	// later ones. If an entry cannot be read, or is missing between others, it yields an error
	// and ends.
	Read(ctx context.Context, after Position) iter.Seq2[Entry, error]
	// Drop removes the entries up to and including a position. It may leave some of them, such as
	// the last one of the Log, or remove them later.
	Drop(ctx context.Context, upTo Position) error
}
