package damagetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/workflow"
)

// A truth is all that can be read of a directory.
type truth struct {
	runs   map[workflow.RunID]*told
	global string // what concerns all runs
}

// A told is all that can be read of one run.
type told struct {
	seq     int64 // of the last record
	head    string
	records []string
	state   string
	events  string
	err     error // the run cannot be read
	loads   error // and cannot be loaded
}

func (w *told) text() string {
	return w.head + "\n" + strings.Join(w.records, "\n") + "\n" + w.state + "\n" + w.events
}

// seqs returns how far the runs have come.
func (h truth) seqs() seqs {
	out := seqs{}
	for id, w := range h.runs {
		out[id] = w.seq
	}
	return out
}

// tell reads a copy of a directory, which must be sound.
func tell(t testing.TB, dir string) truth {
	into := filepath.Join(harness.Workspace(t), "copy")
	copyDir(t, dir, into)
	h, err := read(into)
	require.NoError(t, err)
	for _, w := range h.runs {
		require.NoError(t, w.err)
		require.NoError(t, w.loads)
	}
	return h
}

// read opens a directory and reads everything in it. The error says that it was
// refused, or that what concerns all runs cannot be read. A panic is an error of
// its own.
func read(dir string) (truth, error) { return look(dir, everything) }

// A depth is how much is read.
type depth int

const (
	heads      depth = iota // how far runs have come
	journals                // and their records
	everything              // and all the rest
)

// look is read to some depth.
func look(dir string, deep depth) (h truth, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &panicError{p}
		}
	}()
	d, err := store.Open(dir, store.Options{})
	if err != nil {
		return truth{}, err
	}
	h, err = readAll(d, deep)
	if closed := d.Close(); err == nil && closed != nil {
		err = fmt.Errorf("close: %w", closed)
	}
	return h, err
}

// A panicError is a panic of the product.
type panicError struct{ value any }

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v", e.value) }

// typed reports whether an error says in a documented way that data is damaged.
func typed(err error) bool {
	return errors.Is(err, store.ErrCorrupt) || errors.Is(err, store.ErrVersion)
}

func readAll(d *store.Dir, deep depth) (truth, error) {
	h := truth{runs: map[workflow.RunID]*told{}}
	for head, err := range d.AllHeads(store.RunFilter{}) {
		if err != nil {
			return h, err
		}
		w := &told{seq: head.Seq, head: text(head)}
		if h.runs[head.Run] = w; deep >= journals {
			w.err = w.readJournal(d, head.Run)
		}
		if deep == everything && w.err == nil {
			w.err = w.readRest(d, head.Run)
		}
	}
	if deep < everything {
		return h, nil
	}
	var err error
	h.global, err = readGlobal(d)
	return h, err
}

func (w *told) readJournal(d *store.Dir, id workflow.RunID) error {
	for r, err := range d.History(id) {
		if err != nil {
			return err
		}
		line, err := recordText(r)
		if err != nil {
			return err
		}
		w.records = append(w.records, line)
	}
	return nil
}

func (w *told) readRest(d *store.Dir, id workflow.RunID) error {
	state, err := d.State(id)
	if err != nil {
		return err
	}
	w.state = text(state.AllRows())
	for e, err := range d.Events(id, 0) {
		if err != nil {
			return err
		}
		w.events += text(e) + "\n"
	}
	run, _, _, err := d.Load(id)
	if w.loads = err; err == nil {
		w.loads = run.Close()
	}
	return nil
}

// recordText is all that a record says.
func recordText(r decision.Record) (string, error) {
	e, err := r.Encode()
	return fmt.Sprintf("%d %v %v %s %s", e.Seq, e.At, e.Epoch, e.Message, e.Decisions), err
}

// text is a value as JSON.
func text(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("%T: %v", v, err))
	}
	return string(data)
}

// readGlobal reads what concerns all runs.
func readGlobal(d *store.Dir) (string, error) {
	var parts []any
	unfinished, err := d.Unfinished()
	if err != nil {
		return "", err
	}
	leftover, err := d.Leftover()
	if err != nil {
		return "", err
	}
	due, err := d.DueAlarms(time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC))
	if err != nil {
		return "", err
	}
	for a, err := range d.Approvals(context.Background(), store.ApprovalFilter{}) {
		if err != nil {
			return "", err
		}
		parts = append(parts, a)
	}
	for l, err := range d.DeadLetters(context.Background(), store.DeadLetterFilter{}) {
		if err != nil {
			return "", err
		}
		parts = append(parts, l)
	}
	for _, name := range []string{"work", "ask", "dead"} {
		hash, err := d.Published(context.Background(), name, 1)
		if err != nil && !errors.Is(err, store.ErrNotPublished) {
			return "", err
		}
		if err == nil {
			if _, err = d.Graph(hash); err != nil {
				return "", err
			}
		}
		parts = append(parts, hash)
	}
	paid, err := d.Outcome(context.Background(), "paid")
	if err != nil && !errors.Is(err, store.ErrNoOutcome) {
		return "", err
	}
	return text(append(parts, unfinished, leftover, due, paid)), nil
}

// prefixes checks that of every run the first records are there, and no others,
// and that what is all there is in order in all that is said of it.
func (h truth) prefixes(of truth) error {
	if h.global == "" {
		return nil // it was not read
	}
	for id, w := range h.runs {
		full := of.runs[id]
		switch {
		case full == nil:
			return fmt.Errorf("run %q was never there", string(id))
		case w.err != nil || w.loads != nil:
			return fmt.Errorf("run %q: %w", string(id), errors.Join(w.err, w.loads))
		case w.seq != int64(len(w.records)):
			return fmt.Errorf("run %q: it has %d records and should have %d", string(id), len(w.records), w.seq)
		case len(w.records) > len(full.records) || !slices.Equal(w.records, full.records[:len(w.records)]):
			return fmt.Errorf("run %q: its records are not the first of those it had", string(id))
		case len(w.records) == len(full.records) && w.text() != full.text():
			return fmt.Errorf("run %q: all records are there, and something else differs", string(id))
		}
	}
	return nil
}
