// Package folderlog keeps the log of a copy of an engine directory in a plain folder: of
// another disk, of a network file system, of whatever is synchronized elsewhere.
//
// Each entry is a file of its own, named by its number and made by a hard link, which fails
// where there is one already: so two writers never append the same entry, and whoever finds
// another one's entry where the next should be knows that it has lost the log. An entry is
// durable, with its name, before Append returns.
package folderlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"

	"github.com/pawl-run/pawl/store"
)

// A Log is a [store.Log] in a folder. It may be used by many goroutines.
type Log struct {
	dir string

	mu   sync.Mutex
	last store.Position // the last entry that this writer knows
	took bool
}

// nameDigits is the length of the name of an entry.
const nameDigits = 20

// Open opens the log in a folder, which it makes if it is missing. A reader need not take the log.
func Open(dir string) (*Log, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open the log: %w", err)
	}
	return &Log{dir: dir}, nil
}

// Take implements [store.Log].
func (l *Log) Take(ctx context.Context, makeEntry func(store.Position) []byte) (store.Position, error) {
	if makeEntry == nil {
		return store.Position{}, errors.New("take the log: nothing makes its entry")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		if err := context.Cause(ctx); err != nil {
			return store.Position{}, err
		}
		last, err := l.lastPosition()
		if err != nil {
			return store.Position{}, err
		}
		entry := makeEntry(last)
		if err := context.Cause(ctx); err != nil {
			return store.Position{}, err
		}
		err = l.writeEntry(last.Seq+1, entry)
		if errors.Is(err, fs.ErrExist) {
			continue // somebody has appended meanwhile
		}
		if err != nil {
			return store.Position{}, err
		}
		l.last, l.took = store.PositionOf(last.Seq+1, entry), true
		return l.last, nil
	}
}

// errNotTaken says that a log was not taken by whoever appends to it.
var errNotTaken = errors.New("the log was not taken")

// Append implements [store.Log].
func (l *Log) Append(ctx context.Context, entry []byte) (store.Position, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := context.Cause(ctx); err != nil {
		return store.Position{}, err
	}
	if !l.took {
		return store.Position{}, errNotTaken
	}
	seq := l.last.Seq + 1
	err := l.checkLast()
	if err == nil {
		err = l.writeEntry(seq, entry)
	}
	if errors.Is(err, fs.ErrExist) {
		err = l.checkOurs(seq, entry)
	} else if err == nil {
		if err = l.checkLast(); errors.Is(err, store.ErrFenced) { // dropped meanwhile: ours stands before what is left
			err = errors.Join(err, os.Remove(l.pathOf(seq)))
		}
	}
	if err != nil {
		return store.Position{}, err
	}
	l.last = store.PositionOf(seq, entry)
	return l.last, nil
}

// checkLast fails if the last entry that this writer knows is gone: with ErrFenced if there are others. Drop leaves
// the last one of all, so somebody else has appended behind it, and dropped it and perhaps what came
// next: that the name of the next entry is free says nothing then. If all that is left is older, the folder has lost the end
// of the log.
func (l *Log) checkLast() error {
	at := l.pathOf(l.last.Seq)
	_, err := os.Lstat(at)
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	numbers, err := l.listNumbers()
	switch {
	case err != nil:
		return err
	case len(numbers) == 0 || numbers[len(numbers)-1] < l.last.Seq:
		return &store.CorruptError{File: at, What: "it is missing: the folder has lost the end of the log"}
	}
	return fmt.Errorf("%w: %s is no longer there", store.ErrFenced, at)
}

// checkOurs fails with ErrFenced if an entry that is there is not the one that was to be
// appended.
func (l *Log) checkOurs(seq uint64, entry []byte) error {
	found, err := os.ReadFile(l.pathOf(seq))
	if err == nil && !bytes.Equal(found, entry) {
		err = fmt.Errorf("%w: %s is another one's", store.ErrFenced, l.pathOf(seq))
	}
	if err == nil {
		err = syncPath(l.dir)
	}
	return err
}

// writeEntry makes the file of an entry, durably. It fails with fs.ErrExist if its name is taken, and with store.ErrNoSpace
// if the disk has no room for it; after any other error it is there, or not.
func (l *Log) writeEntry(seq uint64, entry []byte) error {
	err := l.linkEntry(seq, entry)
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fmt.Errorf("%w: %w", store.ErrNoSpace, err)
	}
	if err == nil {
		err = syncPath(l.dir)
	}
	return err
}

// linkEntry makes the file of an entry, under its name at last.
func (l *Log) linkEntry(seq uint64, entry []byte) error {
	f, err := os.CreateTemp(l.dir, "new-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // a crash leaves it, and it does no harm
	if _, err = f.Write(entry); err == nil {
		err = f.Sync()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Link(f.Name(), l.pathOf(seq))
	}
	return err
}

// Read implements [store.Log].
//
// A listing is not made at one instant: while somebody appends it may have an entry and not the one before it. It only says where the
// entries begin and end; in between they are opened by their numbers.
func (l *Log) Read(ctx context.Context, after store.Position) iter.Seq2[store.Entry, error] {
	return func(yield func(store.Entry, error) bool) {
		next, last, err := l.findEnds()
		if after.Seq != 0 {
			next = after.Seq + 1
		}
		for ; err == nil && after.Seq < next && next <= last; next++ { // from 1, and not behind the last number
			var data []byte
			if err = context.Cause(ctx); err == nil {
				data, err = l.readEntry(next, after.Seq != 0 && next == after.Seq+1)
			}
			if err == nil && !yield(store.Entry{Seq: next, Data: data}, nil) {
				return
			}
		}
		if err != nil {
			yield(store.Entry{}, err)
		}
	}
}

// readEntry returns an entry that was listed, or that stands before one that was. If it is missing, a second look tells damage from entries that
// Drop has removed meanwhile: damage leaves entries behind it, and before it as well. The first entry behind the place of a reader
// may have none before it, and counts as damage in any case.
func (l *Log) readEntry(seq uint64, first bool) ([]byte, error) {
	at := l.pathOf(seq)
	data, err := os.ReadFile(at)
	if !errors.Is(err, fs.ErrNotExist) {
		return data, err
	}
	numbers, err := l.listNumbers()
	if err != nil {
		return nil, err
	}
	data, err = os.ReadFile(at) // somebody may have made it meanwhile
	switch {
	case !errors.Is(err, fs.ErrNotExist):
		return data, err
	case len(numbers) > 0 && numbers[len(numbers)-1] > seq && (first || numbers[0] < seq):
		return nil, &store.CorruptError{File: at, What: "it is missing"}
	}
	return nil, fmt.Errorf("%s was removed meanwhile: read again", at)
}

// findEnds returns the numbers of the first entry and of the last one: last is 0 without any.
func (l *Log) findEnds() (first, last uint64, err error) {
	numbers, err := l.listNumbers()
	if err != nil || len(numbers) == 0 {
		return 0, 0, err
	}
	first, err = l.firstBefore(numbers[0])
	return first, numbers[len(numbers)-1], err
}

// firstBefore returns the first entry from which on there is one of each number up to that one.
func (l *Log) firstBefore(seq uint64) (uint64, error) {
	for ; seq > 1; seq-- {
		_, err := os.Lstat(l.pathOf(seq - 1))
		if errors.Is(err, fs.ErrNotExist) {
			break
		}
		if err != nil {
			return 0, err
		}
	}
	return seq, nil
}

// Drop implements [store.Log]. It leaves the last entry, behind which the next one comes.
func (l *Log) Drop(ctx context.Context, upTo store.Position) error {
	numbers, err := l.listNumbers()
	for _, seq := range numbers[:max(0, len(numbers)-1)] { // from the first: what is left has no gap
		if seq > upTo.Seq || err != nil {
			break
		}
		if err = context.Cause(ctx); err == nil {
			err = os.Remove(l.pathOf(seq))
		}
	}
	return err
}

func (l *Log) lastPosition() (store.Position, error) {
	numbers, err := l.listNumbers()
	if err != nil || len(numbers) == 0 {
		return store.Position{}, err
	}
	seq := numbers[len(numbers)-1]
	data, err := os.ReadFile(l.pathOf(seq))
	return store.PositionOf(seq, data), err
}

// listNumbers returns the numbers of the entries, in order. Other names are passed over.
func (l *Log) listNumbers() ([]uint64, error) {
	f, err := os.Open(l.dir)
	if err != nil {
		return nil, err
	}
	names, err := f.Readdirnames(-1)
	_ = f.Close() // it was only read
	var out []uint64
	for _, name := range names {
		if seq, err := strconv.ParseUint(name, 10, 64); err == nil && len(name) == nameDigits && seq > 0 {
			out = append(out, seq)
		}
	}
	slices.Sort(out)
	return out, err
}

func (l *Log) pathOf(seq uint64) string {
	return filepath.Join(l.dir, fmt.Sprintf("%0*d", nameDigits, seq))
}

// syncPath makes the names in a folder durable.
func syncPath(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	err = f.Sync()
	_ = f.Close() // it was only read
	return err
}
