package runfile

import (
	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/codec"
	"github.com/pawl-run/pawl/internal/column"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/workflow"
)

// The functions here write rows of a run's file, in the order of the columns in file.sql. row_read.go has their
// inverses.

// facts encodes the facts of a state. They are one JSON text in the meta row, from which fields that are zero are
// left out: a new fact needs no new column, and a file from before it is read with its zero value.
var facts = codec.New[any](state.Facts{})

// A Meta says which run a file is of, and how far it goes. Workflow, Version and the status stand in columns of their
// own for those who query the file; the state is in Facts.
type Meta struct {
	Run        workflow.RunID
	Workflow   string // name of its definition
	Version    int
	Definition string // hash
	Facts      *state.Facts
	Seq        int64 // of the last record
	Sum        Checksum
}

// putMeta writes the one row of meta, with its facts as text.
func putMeta(w *rowWriter, m *Meta, facts []byte) {
	w.putInts(1)
	w.putTexts(string(m.Run), m.Workflow)
	w.putInts(int64(m.Version))
	w.putTexts(m.Definition, m.Facts.Status.String())
	w.putInts(m.Seq)
	w.putBlob(m.Sum[:])
	w.putTexts(column.SharedString(facts))
}

// putDefinition writes the row of a definition. That of the beginning has the number 1.
func putDefinition(w *rowWriter, number int, hash, doc string) {
	w.putInts(int64(number))
	w.putTexts(hash, doc)
}

// putToken writes the row of a token. Most columns of most tokens are NULL, which takes a byte in the header of the
// record and no more.
func putToken(w *rowWriter, t *state.Token) {
	w.putInts(int64(t.ID))
	w.putTexts(string(t.Node), t.Status.String())
	w.putInts(int64(t.Parent), int64(t.Scope.Group), int64(t.Scope.Branch), int64(t.Attempt), int64(t.Base))
	w.putEpoch(t.Epoch)
	w.putTime(t.Due)
	w.putTime(t.Beat)
	w.putOptional(string(t.Via))
	w.putCounts(t.Counts)
	w.putValue(t.Input)
	w.putFailure(t.Failure)
	w.putFailure(t.Caught)
	w.putValue(t.Source)
	w.putInts(t.Order)
	w.putOptional(t.Holds)
	w.putBool(t.Held)
	w.putVotes(t.Votes)
	w.putMemory(t.Memory)
}

// putGroup writes the row of a group. Spawns and Added are nil or lists: nil stays nil when it is read.
func putGroup(w *rowWriter, g *state.Group) {
	w.putInts(int64(g.ID))
	w.putTexts(g.Name)
	w.putInts(int64(g.Origin))
	w.putTexts(string(g.Node))
	w.putInts(int64(g.Scope.Group), int64(g.Scope.Branch))
	w.putTexts(g.Phase.String())
	w.putInts(int64(g.First), int64(g.Total), int64(g.Max))
	w.putBool(g.Open)
	w.putInts(int64(g.Started), int64(g.Arrived), int64(g.Ended), int64(g.Failed))
	w.putTime(g.Due)
	w.putJSON(g.Spawns == nil, g.Spawns)
	w.putCounts(g.Counts)
	w.putValue(g.Result)
	w.putFailure(g.Caught)
	w.putJSON(g.Added == nil, g.Added)
	w.putInts(int64(g.Unstarted))
	w.putBool(g.Closed)
}

// putBranch writes the row of a branch that is resolved.
func putBranch(w *rowWriter, b *state.BranchChange) {
	w.putInts(int64(b.Scope.Group), int64(b.Scope.Branch))
	w.putTexts(b.Status.String())
	w.putFailure(b.Failure)
}

// putElement writes an element of a foreach.
func putElement(w *rowWriter, e *element) {
	w.putInts(int64(e.group), int64(e.index))
	w.putText(e.value)
}

// putData writes what was set or appended.
func putData(w *rowWriter, c *state.DataChange) {
	index := int64(-1)
	if c.Kind == state.DataAppend {
		index = int64(c.Index)
	}
	w.putInts(int64(c.Scope.Group), int64(c.Scope.Branch))
	w.putTexts(value.Pointer(c.Path))
	w.putInts(index)
	w.putText(c.Value)
}

// putEntry writes the row of a record.
func putEntry(w *rowWriter, e *Entry) {
	w.putInts(e.Seq, e.At.UnixMilli())
	w.putHex(e.Epoch)
	w.putInts(int64(e.Planner))
	w.putTexts(column.SharedString(e.Message), column.SharedString(e.Decisions))
	w.putBlob(e.Sum[:])
}

// putEvent writes the row of an event.
func putEvent(w *rowWriter, t *decision.Told) {
	e := t.Bare()
	w.putInts(e.Seq, e.Record, e.At.UnixMilli())
	w.putTexts(string(e.Type))
	w.putInts(int64(e.Token))
	w.putTexts(string(e.Node))
	w.putInts(int64(e.Group))
	start := len(w.made)
	made, some := t.AppendText(w.made)
	if !some {
		w.putNull()
		return
	}
	w.made = made
	w.putMade(start)
}

// putSignal writes the row of a signal, also of one that is done: its id must not count twice.
func putSignal(w *rowWriter, k *state.KeptSignal) {
	w.putInts(int64(k.Seq))
	w.putTexts(k.Name, k.ID)
	w.putValue(k.Payload)
	w.putTime(k.Due)
	w.putBool(k.Done)
}

// putStep writes the row of a node of a dag to which something has happened.
func putStep(w *rowWriter, x *state.Step) {
	w.putTexts(string(x.Node))
	w.putInts(int64(x.Phase), int64(x.Resolved), int64(x.Live))
}
