package pawl

import "github.com/pawl-run/pawl/store"

// A Codec stands between values and the disk; package aesgcm has one that encrypts. Values are plain
// in the engine's memory, in expressions, and for tasks and callers.
//
// The engine encodes, each with the id of the key: every record of a run's journal, that is inputs,
// results, signals, votes with their comments, failures, heartbeat details, metadata and what
// operators say; the files of runs, as a whole; output, failure, artifacts and the hash of the input
// in the index of runs; the lists of approvals and dead letters; kept outcomes; definitions; and the
// content of blobs in the directory. Backups have the same bytes, or bytes that were encoded anew. A
// store in Options.Blobs gets content plain, and names it by its hash: it has to encrypt it itself, as
// one of blob.OpenSealed does, whose names are the same.
//
// These remain in clear: the ids and labels of runs, and the parents of children; names, versions
// and hashes of definitions; statuses, instants, sizes and counts; in the lists the ids of nodes,
// task types and the codes of dead letters; keys of outcomes, as of Once; and the hashes of blobs,
// by which somebody who guesses a content sees that the guess is right. Do not put secrets there.
// The engine does not encode what tasks log.
//
// A Codec must lose nothing: Decode returns what Encode was given, since runs are
// replayed from what is stored. So it cannot redact. Data that must never be stored do not belong
// into a value: put a reference to them there. A codec may compress before it encrypts, but then
// sizes tell something of the content.
//
// Its methods are called by many goroutines at once, on the way of every commit. They neither
// change nor keep what they are given.
type Codec interface {
	// KeyID names the key that Encode uses: 1 to 64 letters, digits, dots, hyphens and
	// underscores; Open fails otherwise. It is stored in clear with all that Encode returns,
	// and must not change while an engine has the codec.
	KeyID() string
	// Encode returns what is stored in place of plain. The place says what it is and to which run
	// it belongs; Decode gets the same. A codec that authenticates the place binds the bytes to
	// it, so that the bytes of one run cannot be put into another. If Encode fails the commit
	// does, as with a disk that fails, and is tried again later. At most 1 MiB may come of 16 KiB.
	Encode(place string, plain []byte) (stored []byte, err error)
	// Decode returns what Encode was given, under whichever key it was stored. It fails if it
	// lacks that key, or if stored is not what Encode returned for this place; nothing is then
	// overwritten or repaired away, and the caller gets a *SealedError.
	Decode(keyID, place string, stored []byte) (plain []byte, err error)
}

// A SealedError says that a value was stored with a Codec and cannot be read. Its KeyID is that of the
// key that it needs, its Place says what it is and to which run it belongs, and its Err is what the
// codec says, nil if there is no codec. Nothing is lost: with the key it can be read again.
type SealedError = store.SealedError

// ErrSealed says that a value was stored with a Codec and cannot be read: Options.Codec
// is not set, lacks the key, or gets other bytes than it made. It is always a *SealedError.
var ErrSealed = store.ErrSealed
