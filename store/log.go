package store

import (
	"bytes"
	"compress/flate"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"slices"
	"sync"
	"time"

	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/commitlog"
	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/memo"
	"github.com/pawl-run/pawl/internal/state"
)

// A Log keeps the entries of a directory outside of it.
type Log = commitlog.Log

// A Position is a place in a Log.
type Position = commitlog.Position

// An Entry is what a Log holds at one position.
type Entry = commitlog.Entry

// The kinds of entries.
//
// The numbers are a part of the format.
type entryKind byte

const (
	entryOpen    entryKind = 1 // somebody has taken the log
	entryChanges entryKind = 2 // what some transactions have written
	entryBase    entryKind = 3 // there is a base: a copy of the directory
	entryCommit  entryKind = 4 // one transaction, which counts because it is here
	entryAnew    entryKind = 5 // nothing before this counts: the base behind it is all
	entryDamaged entryKind = 0 // nobody can tell what it was; it is never written
)

// maxEntry is after how many bytes of changes an entry takes no further transaction. One transaction may be larger.
const maxEntry = 768 << 10

// A logEntry is the content of an entry.
//
// Two kinds of directories write entries. A directory that is followed writes entryChanges, some time after its commits, with number counting its transactions;
// a remote one writes entryCommit, before each. The fields at, epoch and before are of every entry, the others of some kinds.
type logEntry struct {
	kind    entryKind
	at      time.Time   // when it was made
	epoch   state.Epoch // of the life of the directory that it is of
	before  [32]byte    // sum of the entry before it, as the writer knows it
	number  int64       // of the first transaction, from 1 in each life; of the last one that a base has; of a remote directory, how often the log was begun anew
	changes [][]byte    // tapes of transactions, in order
	base    string      // hash of the manifest of a base
	damage  error       // why it cannot be read
}

// entryVersion is the first byte of every entry.
const entryVersion = 1

// encode returns the bytes of an entry, which end with their CRC-32C.
//
// The same entry has the same bytes each time, so that it can be appended again.
func (e *logEntry) encode() []byte {
	out := []byte{entryVersion, byte(e.kind)}
	out = binary.AppendVarint(out, e.at.UnixMilli())
	out = binary.LittleEndian.AppendUint64(out, uint64(e.epoch)) //nolint:gosec // its 64 bits
	out = append(out, e.before[:]...)
	switch e.kind {
	case entryOpen, entryDamaged:
	case entryChanges, entryCommit:
		out = binary.AppendVarint(out, e.number)
		out = append(out, deflate(e.changes)...)
	case entryBase:
		out = binary.AppendVarint(out, e.number)
		out = append(out, e.base...)
	case entryAnew:
		out = binary.AppendVarint(out, e.number)
	}
	return binary.LittleEndian.AppendUint32(out, crc32.Checksum(out, castagnoli))
}

// deflate compresses tapes, each after its length.
func deflate(tapes [][]byte) []byte {
	var out bytes.Buffer
	index.DeflateTexts(&out, slices.Values(tapes), func(int) bool { return true })
	return out.Bytes()
}

// inflate is the inverse of deflate.
func inflate(data []byte) (tapes [][]byte, err error) {
	r := inflaters.Get().(io.ReadCloser)
	defer inflaters.Put(r)
	if err := r.(flate.Resetter).Reset(bytes.NewReader(data), nil); err != nil {
		return nil, err
	}
	all, err := io.ReadAll(io.LimitReader(r, maxInflated))
	for err == nil && len(all) > 0 {
		n, size := binary.Uvarint(all)
		if size <= 0 || n > uint64(len(all)-size) {
			return nil, errBadEntry
		}
		tapes = append(tapes, all[size:size+int(n)]) //nolint:gosec // at most the bytes that are there
		all = all[size+int(n):]                      //nolint:gosec // likewise
	}
	return tapes, err
}

// inflaters have what reading a compression takes: 40 KB.
var inflaters = sync.Pool{New: func() any { return flate.NewReader(nil) }}

// maxInflated bounds the bytes of an entry's changes: a transaction writes little more than one value, which is at most 16 MiB.
const maxInflated = 256 << 20

var errBadEntry = errors.New("it is not an entry, or is damaged")

// decodeEntry reads the bytes of an entry.
//
// An entry that passes the checksum was written by some version of this program; the further checks are against a fault in that, and bound what is allocated.
func decodeEntry(data []byte) (*logEntry, error) {
	e, body, err := decodeHeader(data)
	if err != nil || e.kind == entryOpen {
		return e, err
	}
	var size int
	if e.number, size = binary.Varint(body); size <= 0 {
		return nil, errBadEntry
	}
	switch body = body[size:]; e.kind {
	case entryChanges, entryCommit:
		e.changes, err = inflate(body)
	case entryBase:
		e.base = string(body)
	case entryAnew:
	default:
		err = errBadEntry
	}
	return e, err
}

// decodeHeader reads what every entry begins with, and returns what only its kind has.
//
// An entry of a later version is told from a damaged one by its checksum, which stays where it is
// in all versions: whoever reads it needs a newer program, and not a backup.
func decodeHeader(data []byte) (e *logEntry, body []byte, err error) {
	body, ok := bytes.CutPrefix(data, []byte{entryVersion})
	switch {
	case !ok && len(data) > 0 && data[0] > entryVersion && checkCRC(data):
		return nil, nil, fmt.Errorf("%w: it is of version %d, and this program reads %d", ErrVersion, data[0], entryVersion)
	case !ok || len(data) < entryHeader+crc32.Size || !checkCRC(data):
		return nil, nil, errBadEntry
	}
	e = &logEntry{kind: entryKind(body[0])}
	body = body[1 : len(body)-crc32.Size]
	at, size := binary.Varint(body)
	if size <= 0 || len(body) < size+8+len(e.before) {
		return nil, nil, errBadEntry
	}
	e.at, body = time.UnixMilli(at).UTC(), body[size:]
	e.epoch, body = state.Epoch(binary.LittleEndian.Uint64(body)), body[8:]
	body = body[copy(e.before[:], body):]
	return e, body, nil
}

// entryHeader is how many bytes every entry has at least, without its checksum.
const entryHeader = 1 + 1 + 1 + 8 + 32

func checkCRC(data []byte) bool {
	n := len(data) - crc32.Size
	return n >= 0 && crc32.Checksum(data[:n], castagnoli) == binary.LittleEndian.Uint32(data[n:])
}

// PositionOf returns the position of the entry with a number and bytes.
func PositionOf(seq uint64, entry []byte) Position {
	return Position{Seq: seq, Sum: sha256.Sum256(entry)}
}

// nameOfEntry names an entry in errors.
func nameOfEntry(seq uint64) string { return fmt.Sprintf("entry %d of the log", seq) }

// Moments that one can no longer go back to are dropped from the log, and then from the bases.

// A keptBase is a base that the log names.
type keptBase struct {
	hash string // of its manifest
	at   time.Time
	// before is the position of the last entry that has nothing which the base lacks: of the base or the opening before it.
	before Position
}

// dropOld drops the entries of the log, as dropEntries does, and then the blobs which nothing in the rest needs; a crash in between leaves blobs that
// the next call finds.
func (f *follower) dropOld(ctx context.Context, since time.Time, least int) error {
	unused := time.Now().Add(-unusedFor) // before the log is read: what comes later is not looked for
	kept, err := dropEntries(ctx, f.o.Log, since, least)
	if err != nil || len(kept) == 0 {
		return err
	}
	used := map[string]bool{}
	for _, b := range kept {
		if err := f.markUsed(ctx, used, b.hash); err != nil {
			return err
		}
	}
	err = readLog(ctx, f.o.Log, kept[0].before, func(_ Position, e *logEntry) error {
		return eachRef(e, func(hash string) error { used[hash] = true; return nil })
	})
	if err != nil {
		return err
	}
	return f.dropUnused(ctx, used, unused)
}

// dropEntries drops the entries of a log that only serve to go back behind a time, and returns the bases that are kept; none if there was nothing to drop.
//
// Kept are the last base that is older than since, and everything after it: with less one could not go back to that moment. The last bases are kept
// whatever their age, at least so many. Blobs stay: also those of a base that the log has no room for yet.
func dropEntries(ctx context.Context, log Log, since time.Time, least int) ([]keptBase, error) {
	var bases []keptBase
	mark := Position{}
	err := readLog(ctx, log, Position{}, func(p Position, e *logEntry) error {
		switch e.kind {
		case entryOpen, entryAnew:
			mark = p
		case entryBase:
			bases = append(bases, keptBase{e.base, e.at, mark})
			mark = p
		case entryChanges, entryCommit, entryDamaged:
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	first := 0 // of the bases that are kept
	for i := range bases[:max(len(bases)-least+1, 0)] {
		if bases[i].at.Before(since) {
			first = i
		}
	}
	if first == 0 {
		return nil, nil
	}
	return bases[first:], log.Drop(ctx, bases[first].before)
}

// markUsed marks the blobs of a base.
func (f *follower) markUsed(ctx context.Context, used map[string]bool, hash string) error {
	m, err := readManifest(ctx, f.o.Bases, hash)
	if err != nil {
		return err
	}
	used[hash] = true
	for _, hash := range m.Index {
		used[hash] = true
	}
	for _, hash := range m.Blobs {
		used[hash] = true
	}
	for _, file := range m.Files {
		used[file.Hash] = true
	}
	return nil
}

// unusedFor is how old a blob is that is dropped: one that was put lately may belong to a base that is not in the log yet, of whoever has taken it meanwhile.
const unusedFor = 24 * time.Hour

// dropUnused deletes the blobs that are not used and were put before a time. It deletes nothing if the store has a base of another directory, whose log
// names blobs that this one does not know.
func (f *follower) dropUnused(ctx context.Context, used map[string]bool, before time.Time) error {
	var old []string
	for info, err := range f.o.Bases.All(ctx) {
		if err == nil && !used[info.Hash] {
			err = f.checkUnused(ctx, info)
		}
		if err != nil {
			return err
		}
		if !used[info.Hash] && info.Time.Before(before) {
			old = append(old, info.Hash)
		}
	}
	for _, hash := range old {
		if _, err := f.o.Bases.Delete(ctx, hash, before); err != nil {
			return err
		}
	}
	return nil
}

// ownedBlobs are some of the blobs that are no base of another directory, so that each is looked at once.
type ownedBlobs = memo.Table[string, struct{}]

// maxOwned bounds how many of them are remembered, some 150 bytes each.
const maxOwned = 1 << 16

// checkUnused fails if a blob that is not used is a base of another directory, or of a later program; also if it was put lately, for the blobs in it may be old.
// A base that lacks a part is nobody's any more, and so is what only begins as a manifest: the blobs of runs, which their authors write, are among the others.
func (f *follower) checkUnused(ctx context.Context, info blob.Info) error {
	if info.Size < leastBase || f.ours.Has(info.Hash) {
		return nil
	}
	is, err := isManifest(ctx, f.o.Bases, info.Hash)
	if is {
		err = compareSecret(ctx, f.o.Bases, info.Hash, f.dir.secret)
	}
	switch {
	case err == nil || errors.Is(err, errNoManifest):
		f.ours.Put(info.Hash, struct{}{}, 0, memo.Bounds{Entries: maxOwned})
		return nil
	case isLost(err) || errors.Is(err, fs.ErrInvalid): // a part of it is missing
		return nil
	case errors.Is(err, ErrOtherLog):
		return fmt.Errorf("the store of bases has one of another directory, %s, and nothing is deleted from it: give each log an empty store of its own, or delete this blob if no other directory uses the store", info.Hash)
	}
	return err
}

// readLog calls do with the entries of a log behind a position, in order, but for those that do not count: their writer had lost the log. A damaged entry is
// passed on as damaged, and so is one that does not go on from the one before it although its writer had the log. The entry behind it counts as well, since its
// link cannot be checked: only its number says whether it goes on from there.
//
// An entry that names another one before it was appended by somebody who had lost the log, or is behind such a one. For example, of entries A, B behind A,
// X behind A, and C behind B, X is passed over. An opening counts in any case, since the log itself has decided who takes it.
func readLog(ctx context.Context, log Log, after Position, do func(Position, *logEntry) error) error {
	head, owner := after, state.Epoch(0)                     // of the last entry that counts
	seen, whole := memo.Recent[uint64]{Most: maxSeen}, false // whole: they are all that the log ever had
	if after.Seq != 0 {
		seen.Add(seenKey(after.Sum))
	}
	for entry, err := range log.Read(ctx, after) {
		if err != nil {
			return err
		}
		e, err := decodeEntry(entry.Data)
		if errors.Is(err, ErrVersion) {
			return fmt.Errorf("%s: %w", nameOfEntry(entry.Seq), err)
		}
		here := PositionOf(entry.Seq, entry.Data)
		opens := err == nil && (e.kind == entryOpen || e.kind == entryAnew)
		stray := err == nil && head.Seq != 0 && e.before != head.Sum
		switch {
		case err != nil:
			err = &CorruptError{File: nameOfEntry(entry.Seq), What: "it cannot be read", Err: err}
		case stray && (seen.Has(seenKey(here.Sum)) || !opens && !seen.Has(seenKey(e.before)) && (whole || e.epoch == owner)):
			err = &CorruptError{File: nameOfEntry(entry.Seq), What: "it does not go on from the one before it"}
		case stray && !opens:
			seen.Add(seenKey(here.Sum))
			continue
		}
		if head = here; err != nil {
			head, e = Position{}, &logEntry{kind: entryDamaged, damage: err}
			whole = false
		} else {
			owner = e.epoch
			seen.Add(seenKey(here.Sum))
			whole = (whole || here.Seq == 1) && !seen.HasForgotten()
		}
		if err := do(Position{Seq: here.Seq, Sum: head.Sum}, e); err != nil {
			return err
		}
	}
	return nil
}

// maxSeen is how many entries are remembered at least, by the beginnings of their sums, since a writer that has lost the log learns of it as it appends.
const maxSeen = 1 << 17

func seenKey(sum [32]byte) uint64 { return binary.LittleEndian.Uint64(sum[:]) }
