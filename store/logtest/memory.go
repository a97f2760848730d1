// Package logtest has what tests of a [store.Log] need: a Log in memory that fails as
// networks and servers do, and the tests that every Log must pass.
package logtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"

	"github.com/pawl-run/pawl/store"
)

// A Memory holds the entries of a log. Writers of it are made by [Memory.Writer].
type Memory struct {
	mu      sync.Mutex
	first   uint64 // number of the first entry that is kept
	entries [][]byte
	owner   *Writer
}

// Len returns how many entries there are.
func (m *Memory) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.entries)
}

// Bounds returns the numbers of the first entry and of the last one.
func (m *Memory) Bounds() (first, last uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return max(m.first, 1), max(m.first, 1) + uint64(len(m.entries)) - 1
}

// Change calls f with the bytes of an entry, which f may change: damage.
func (m *Memory) Change(seq uint64, f func([]byte) []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.entries[seq-m.first] = f(m.entries[seq-m.first])
}

// Clone returns a log with the same entries, which nobody has.
func (m *Memory) Clone() *Memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	return &Memory{first: m.first, entries: slices.Clone(m.entries)}
}

// Equal reports whether another log has the same entries.
func (m *Memory) Equal(other *Memory) bool {
	other = other.Clone()
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.first == other.first && slices.EqualFunc(m.entries, other.entries, bytes.Equal)
}

// Miss makes an entry missing between others.
func (m *Memory) Miss(seq uint64) { m.Change(seq, func([]byte) []byte { return nil }) }

// Lose removes the entries behind one: servers that did not sync have lost them.
func (m *Memory) Lose(behind uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.entries = m.entries[:min(behind+1-m.first, uint64(len(m.entries)))]
}

// A Fault is what happens to one call of a [Writer].
type Fault int

// The faults.
const (
	None       Fault = iota
	Refused          // it fails, and nothing was done
	AnswerLost       // it fails, but was done
	Late             // it fails, and is done before the next call: a message that was under way
	Hangs            // it returns when its context ends
)

// ErrFault is the error of calls that fail.
var ErrFault = errors.New("the log does not answer")

// A Writer is a [store.Log]: somebody who writes to a Memory, or reads it.
type Writer struct {
	memory *Memory
	last   store.Position
	late   func()
	next   func(method string) Fault
}

// Writer returns a new writer. fault, which may be nil, says what happens to each call of Take and
// Append.
func (m *Memory) Writer(fault func(method string) Fault) *Writer {
	if fault == nil {
		fault = func(string) Fault { return None }
	}
	return &Writer{memory: m, next: fault}
}

// call does what a method does, or what a fault makes of it.
func (w *Writer) call(ctx context.Context, method string, do func() error) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	w.memory.mu.Lock()
	defer w.memory.mu.Unlock()
	if w.memory.first == 0 {
		w.memory.first = 1
	}
	if late := w.late; late != nil {
		w.late = nil
		late()
	}
	switch w.next(method) {
	case Refused:
		return ErrFault
	case AnswerLost:
		_ = do() // nobody hears of it
		return ErrFault
	case Late:
		w.late = func() { _ = do() }
		return ErrFault
	case Hangs:
		w.memory.mu.Unlock()
		<-ctx.Done()
		w.memory.mu.Lock()
		return context.Cause(ctx)
	case None:
	}
	return do()
}

// Take implements [store.Log].
func (w *Writer) Take(ctx context.Context, makeEntry func(store.Position) []byte) (store.Position, error) {
	err := w.call(ctx, "Take", func() error {
		m := w.memory
		last := store.Position{}
		if n := len(m.entries); n > 0 {
			last = store.PositionOf(m.first+uint64(n)-1, m.entries[n-1])
		}
		entry := makeEntry(last)
		if err := context.Cause(ctx); err != nil {
			return err
		}
		m.owner = w
		w.last = m.addEntry(entry)
		return nil
	})
	return w.last, err
}

// addEntry appends an entry. The lock is held.
func (m *Memory) addEntry(entry []byte) store.Position {
	m.entries = append(m.entries, slices.Clone(entry))
	return store.PositionOf(m.first+uint64(len(m.entries))-1, entry)
}

// Append implements [store.Log].
func (w *Writer) Append(ctx context.Context, entry []byte) (p store.Position, err error) {
	err = w.call(ctx, "Append", func() error {
		m := w.memory
		next := w.last.Seq + 1
		if at := next - m.first; at < uint64(len(m.entries)) {
			if !bytes.Equal(m.entries[at], entry) {
				return store.ErrFenced
			}
			p = store.PositionOf(next, entry)
		} else {
			switch {
			case m.owner != w:
				return store.ErrFenced
			case at > uint64(len(m.entries)):
				return &store.CorruptError{File: fmt.Sprint("entry ", w.last.Seq), What: "it is missing: the log has lost its end"}
			}
			p = m.addEntry(entry)
		}
		return nil
	})
	if err == nil {
		w.last = p
	}
	return p, err
}

// Read implements [store.Log].
func (w *Writer) Read(ctx context.Context, after store.Position) iter.Seq2[store.Entry, error] {
	return func(yield func(store.Entry, error) bool) {
		w.memory.mu.Lock()
		first, entries := w.memory.first, slices.Clone(w.memory.entries)
		w.memory.mu.Unlock()
		for i, data := range entries {
			seq := first + uint64(i) //nolint:gosec // an index
			if seq <= after.Seq {
				continue
			}
			if err := context.Cause(ctx); err != nil {
				yield(store.Entry{}, err)
				return
			}
			if data == nil {
				yield(store.Entry{}, &store.CorruptError{File: fmt.Sprint("entry ", seq), What: "it is missing"})
				return
			}
			if !yield(store.Entry{Seq: seq, Data: slices.Clone(data)}, nil) {
				return
			}
		}
	}
}

// Drop implements [store.Log].
func (w *Writer) Drop(ctx context.Context, upTo store.Position) error {
	return w.call(ctx, "Drop", func() error {
		m := w.memory
		for m.first <= upTo.Seq && len(m.entries) > 0 {
			m.first, m.entries = m.first+1, m.entries[1:]
		}
		return nil
	})
}
