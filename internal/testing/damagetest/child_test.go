package damagetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/internal/testing/harness/witness"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/workflow"
)

// The environment that makes the test binary a child.
const (
	childDir  = "PAWL_DAMAGETEST_DIR"  // what loses power
	childLife = "PAWL_DAMAGETEST_LIFE" // number of the life, from 1
	childLax  = "PAWL_DAMAGETEST_LAX"  // not empty: commits are not synced
)

const ledgerFile = "ledger"

// engineDir is the engine directory, below a folder that does not exist either.
func engineDir(dir string) string { return filepath.Join(dir, "new", "engine") }

// A note is a line of the ledger: something that was acknowledged.
type note struct {
	Run  workflow.RunID `json:",omitempty"`
	Seq  int64          `json:",omitempty"` // it has this record,
	Text string         `json:",omitempty"` // which is this
	Gone bool           `json:",omitempty"` // it was purged
	Kept string         `json:",omitempty"` // an outcome is kept under this key
	Name string         `json:",omitempty"` // this definition is published
}

// A life is one process.
type life struct {
	hook   testhook.Hook // of dir
	dir    *store.Dir
	graph  *compiled.Graph
	ledger *os.File
	blobs  *blob.Files
	owners map[workflow.RunID]*owner
}

// An owner does for a run what its actor does.
type owner struct {
	*life
	run    *store.Run
	state  *state.State
	events []decision.Event
}

// child lives one life and ends without closing anything, if it is to.
func child(path string) error {
	number, err := strconv.Atoi(os.Getenv(childLife))
	if err != nil {
		return err
	}
	l := &life{owners: map[workflow.RunID]*owner{}}
	if l.graph, err = compiled.Compile(workflow.Bounds{}, witness.MustParse(workYAML)); err != nil {
		return err
	}
	// The ledger is of a disk that loses nothing.
	if l.ledger, err = os.OpenFile(filepath.Join(path, ledgerFile), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600); err != nil {
		return err
	}
	l.hook.SetPartBytes(1000) // some records are spilled
	l.hook.SetFlushWorkers(1)
	if number == 2 {
		l.hook.SetRedoBytes(1500) // regions of the redo log take turns
	}
	o := store.Options{Hook: &l.hook}
	if os.Getenv(childLax) != "" {
		o.Durability = store.ProcessCrash
	}
	if l.dir, err = store.Open(engineDir(path), o); err != nil {
		return err
	}
	if l.blobs, err = blob.OpenFiles(filepath.Join(engineDir(path), "blobs"), blob.Options{}); err != nil {
		return err
	}
	if err := l.resume(); err != nil {
		return err
	}
	return []func() error{l.first, l.second, l.third}[number-1]()
}

func (l *life) note(n note) error {
	line, err := json.Marshal(n)
	if err != nil {
		return err
	}
	_, err = l.ledger.Write(append(line, '\n'))
	return err
}

// resume takes over the runs that are there.
func (l *life) resume() error {
	ids, err := l.dir.Unfinished()
	if err != nil {
		return err
	}
	for _, id := range ids {
		run, state, events, err := l.dir.Load(id)
		if err != nil {
			return err
		}
		l.owners[id] = &owner{l, run, state, events}
	}
	return nil
}

// do commits a record of a run, the first one too, and notes it.
func (l *life) do(id workflow.RunID, m state.Message, ds ...decision.Decision) error {
	o := l.owners[id]
	if o == nil {
		o = &owner{life: l, run: l.dir.New(store.Head{Run: id, InputHash: "in"}, l.graph), state: state.NewState(id, l.graph)}
		l.owners[id] = o
	}
	seq := o.run.Head().Seq + 1
	at := time.UnixMilli(1_700_000_000_000 + seq).UTC()
	rec := decision.Record{Seq: seq, At: at, Epoch: l.dir.Epoch(), Planner: 1, Message: m, Decisions: ds}
	for _, d := range ds {
		o.events = append(o.events, decision.Apply(o.state, d, &rec)...)
	}
	if err := o.run.Commit(o.state, []decision.Record{rec}); err != nil {
		return err
	}
	line, err := recordText(rec)
	if err != nil {
		return err
	}
	return l.note(note{Run: id, Seq: seq, Text: line})
}

// start begins a run with an input that a blob is part of.
func (l *life) start(id workflow.RunID) error {
	hash, size, err := l.blobs.Put(context.Background(), strings.NewReader(strings.Repeat(string(id), 100)))
	if err != nil {
		return err
	}
	input := map[string]any{"ref": blob.Ref{Hash: hash, Size: size}.Value()}
	return l.do(id, state.Start{Input: input}, decision.StartRun{Input: input, At: time.UnixMilli(1_700_000_000_000).UTC()},
		decision.CreateToken{Token: state.Token{ID: 1, Node: "one"}})
}

// append adds something to the data of a run.
func (l *life) append(id workflow.RunID, size int) error {
	return l.do(id, state.Heartbeat{Token: 1}, decision.AppendData{Path: []string{"state", "list"}, Value: strings.Repeat("x", size)})
}

func (l *life) end(id workflow.RunID) error {
	return l.do(id, state.TaskCompleted{Token: 1, Attempt: 1}, decision.CompleteToken{Token: 1},
		decision.CompleteRun{Output: map[string]any{"of": string(id)}, At: time.UnixMilli(1_700_000_009_000).UTC()})
}

// file has runs filed, all in one round but for the first.
func (l *life) file(ids ...workflow.RunID) error {
	queued := make(chan struct{})
	defer l.hook.OnHit(func(name string) {
		if name == "file.begin" {
			<-queued
		}
	})()
	done := make(chan error, len(ids))
	for _, id := range ids {
		o := l.owners[id]
		o.run.Flush(o.state.TakeChanges(), o.events, func(err error) { done <- err })
		o.events = nil
	}
	close(queued)
	var errs []error
	for range ids {
		errs = append(errs, <-done)
	}
	return errors.Join(errs...)
}

// steps does one thing after the other.
func steps(do ...func() error) error {
	for i, f := range do {
		if err := f(); err != nil {
			return fmt.Errorf("step %d: %w", i, err)
		}
	}
	return nil
}

// first makes runs, files some of them twice, alone and together, and purges one.
// It ends as if it had been killed.
func (l *life) first() error {
	ids := []workflow.RunID{"a", "b", "c", "d", "e", "f"}
	return steps(
		func() error { return l.dir.Publish(l.graph) },
		func() error { return l.note(note{Name: "work"}) },
		func() error { return l.each(ids, l.start) },
		func() error { return l.append("a", 100) },
		func() error { return l.file("a") },
		func() error { return l.append("a", 3000) },
		func() error { return l.append("b", 10) },
		func() error { return l.file("a", "b") },
		func() error { return l.keep("paid") },
		func() error { return l.append("a", 10) },
		func() error { return l.end("f") },
		func() error { return l.file("f", "a", "b", "c", "d", "e") },
		func() error { return l.append("c", 10) },
		l.list,
		func() error { return l.append("d", 10) },
		l.list,
		func() error { return l.dir.Purge("f", "") },
		func() error { return l.note(note{Run: "f", Gone: true}) },
		func() error { return l.append("d", 10) },
	)
}

// second goes on with what the first has left, and closes.
func (l *life) second() error {
	return steps(
		func() error {
			return l.each([]workflow.RunID{"a", "c", "d"}, func(id workflow.RunID) error { return l.append(id, 50) })
		},
		func() error { return l.file("c") },
		func() error { return l.takeTurns([]workflow.RunID{"a", "b", "c", "d", "e"}) },
		func() error { return l.end("b") },
		func() error { return l.file("b", "d", "a") },
		func() error { return l.start("g") },
		func() error { return l.dir.Close() },
	)
}

// third goes on with what the second has closed, and ends as if it had been
// killed.
func (l *life) third() error {
	return steps(
		func() error { return l.append("g", 5000) },
		func() error { return l.keep("again") },
		func() error { return l.start("f") },
		func() error { return l.file("g") },
		func() error { return l.append("g", 1) },
		func() error { return l.file("g") },
		func() error { return l.end("c") },
	)
}

func (l *life) each(ids []workflow.RunID, do func(workflow.RunID) error) error {
	for _, id := range ids {
		if err := do(id); err != nil {
			return err
		}
	}
	return nil
}

// takeTurns fills both regions of the redo log, again and again. The commits in it move when somebody
// lists runs or a region is needed, and other transactions come behind them.
func (l *life) takeTurns(ids []workflow.RunID) error {
	for n := range 30 {
		if err := l.append(ids[n%7%len(ids)], 20*(n%5)); err != nil {
			return err
		}
		if n%4 == 2 {
			if err := l.list(); err != nil {
				return err
			}
		}
		if n%8 == 3 {
			if err := l.keep(fmt.Sprint("turn ", n)); err != nil {
				return err
			}
		}
	}
	return nil
}

// list reads the rows of all runs, for which what the redo log has is moved.
func (l *life) list() error {
	for _, err := range l.dir.AllHeads(store.RunFilter{}) {
		if err != nil {
			return err
		}
	}
	return nil
}

func (l *life) keep(key string) error {
	if err := l.dir.KeepOutcome(key, map[string]any{"key": key}, time.UnixMilli(1_700_000_000_000)); err != nil {
		return err
	}
	return l.note(note{Kept: key})
}
