// Package commitlog has the [Log] that an engine keeps its changes in, outside of its directory: as a copy
// ([pawl.Engine.Follow]) or before they count ([pawl.Options].Remote). Package store/folderlog has one in a folder.
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
// The number says where an entry is, the sum which one it is and what is before it, since each
// entry has the sum of the one before. Two logs that agree on a position agree on everything up
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
// It has one writer at a time: the last one that took it. Package logtest has the tests
// that every Log must pass.
//
// The engine asks little of it: an order, one writer, and entries that stay once Append has
// returned. It keeps an entry once that is appended twice, so that a writer can repeat an
// append whose answer was lost. A commit of a remote directory survives what the Log promises
// to survive.
type Log interface {
	// Take makes the caller the writer, from when on nobody who took the Log before appends
	// anything. It appends an entry, which makes says for the position behind which it
	// comes, and returns its position. If makeEntry ends ctx, nothing is appended, nobody loses the Log, and Take
	// fails with the cause.
	Take(ctx context.Context, makeEntry func(last Position) []byte) (Position, error)
	// Append appends an entry behind the last one, and returns its position when the entry
	// survives whatever the Log says that it survives. It fails with pawl.ErrFenced if somebody
	// else has taken the Log. After any other error the entry may be there or not; the same
	// one appended again is kept once.
	Append(ctx context.Context, entry []byte) (Position, error)
	// Read yields the entries behind a position, in order, up to the last one there is when
	// it comes to it. An entry that cannot be read, or is missing between others, is an error, which
	// ends it.
	Read(ctx context.Context, after Position) iter.Seq2[Entry, error]
	// Drop removes the entries up to a position and with it, unless something keeps it from
	// that, and before returning no promise is made of when.
	Drop(ctx context.Context, upTo Position) error
}
