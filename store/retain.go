package store

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Moments that one can no longer go back to are dropped from the log, and then from the bases.

// A keptBase is a base that the log names.
type keptBase struct {
	hash string // of its manifest
	at   time.Time
	// before is the position of the last entry that has nothing which the base lacks: of the
	// base or the opening before it.
	before Position
}

// dropOld drops the entries of the log, and the blobs, that only serve to go back behind a
// time.
//
// Kept are the last base that is older than since, and everything after it: with less one could
// not go back to that moment. The log drops first, and then the blobs which nothing in the rest
// needs; a crash in between leaves blobs that the next call finds.
func (f *follower) dropOld(ctx context.Context, since time.Time) error {
	unused := time.Now().Add(-unusedFor) // before the log is read: what comes later is not looked for
	var bases []keptBase
	mark := Position{}
	err := readLog(ctx, f.o.Log, Position{}, func(p Position, e *logEntry) error {
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
		return err
	}
	first := 0 // of the bases that are kept
	for i := range bases {
		if bases[i].at.Before(since) {
			first = i
		}
	}
	if first == 0 {
		return nil
	}
	if err := f.o.Log.Drop(ctx, bases[first].before); err != nil {
		return err
	}
	used := map[string]bool{}
	for _, b := range bases[first:] {
		if err := f.markUsed(ctx, used, b.hash); err != nil {
			return err
		}
	}
	err = readLog(ctx, f.o.Log, bases[first].before, func(_ Position, e *logEntry) error {
		return eachRef(e, func(hash string) error { used[hash] = true; return nil })
	})
	if err != nil {
		return err
	}
	return f.dropUnused(ctx, used, unused)
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

// unusedFor is how old a blob is that is dropped: one that was put lately may belong to a
// base that is not in the log yet, of whoever has taken it meanwhile.
const unusedFor = 24 * time.Hour

// dropUnused deletes the blobs that are not used and were put before a time.
func (f *follower) dropUnused(ctx context.Context, used map[string]bool, before time.Time) error {
	for info, err := range f.o.Bases.All(ctx) {
		if err != nil {
			return err
		}
		if used[info.Hash] {
			continue
		}
		if _, err := f.o.Bases.Delete(ctx, info.Hash, before); err != nil {
			return err
		}
	}
	return nil
}

// readLog calls do with the entries of a log behind a position, in order, but for those that do not
// count: their writer had lost the log. A damaged entry is passed on as damaged. The entry behind it
// counts as well, since its link cannot be checked: only its number says whether it goes on from there.
//
// An entry that does not name the one before it was appended by somebody who had lost the log, or
// is behind such a one. For example, of entries A, B behind A, X behind A, and C behind B, X is
// passed over. An opening counts in any case, since the log itself has decided who takes it.
func readLog(ctx context.Context, log Log, after Position, do func(Position, *logEntry) error) error {
	head := after
	for entry, err := range log.Read(ctx, after) {
		if err != nil {
			return err
		}
		e, err := decodeEntry(entry.Data)
		if errors.Is(err, ErrVersion) {
			return fmt.Errorf("%s: %w", nameOfEntry(entry.Seq), err)
		}
		if err != nil {
			err = &CorruptError{File: nameOfEntry(entry.Seq), What: "it cannot be read", Err: err}
			head = Position{}
			if err := do(Position{Seq: entry.Seq}, &logEntry{kind: entryDamaged, damage: err}); err != nil {
				return err
			}
			continue
		}
		if e.kind != entryOpen && e.kind != entryAnew && head.Seq != 0 && e.before != head.Sum {
			continue
		}
		head = PositionOf(entry.Seq, entry.Data)
		if err := do(head, e); err != nil {
			return err
		}
	}
	return nil
}
