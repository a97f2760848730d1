package runfile

import (
	"database/sql/driver"
	"fmt"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/codec"
	"github.com/pawl-run/pawl/internal/column"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/workflow"
)

// The functions here return rows of a run's file, in the order of the columns
// in file.sql. row_read.go has their inverses.

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

// metaRow returns the one row of meta. It fails if a value in the facts cannot be encoded.
func metaRow(m *Meta) ([]driver.Value, error) {
	text, err := facts.Append(nil, *m.Facts, nil)
	if err != nil {
		return nil, err
	}
	return []driver.Value{
		int64(1), string(m.Run), m.Workflow, int64(m.Version), m.Definition, m.Facts.Status.String(), m.Seq, m.Sum[:], string(text),
	}, nil
}

// tokenRow returns the row of a token. Most columns of most tokens are NULL, which takes a byte in the header of the
// record and no more.
func tokenRow(t *state.Token) []driver.Value {
	return []driver.Value{
		int64(t.ID), string(t.Node), t.Status.String(), int64(t.Parent), int64(t.Scope.Group), int64(t.Scope.Branch),
		int64(t.Attempt), int64(t.Base), epochText(t.Epoch), column.Millis(t.Due), column.Millis(t.Beat), nullableText(t.Via),
		countsText(t.Counts), optionalText(t.Input), column.FailureText(t.Failure), column.FailureText(t.Caught), optionalText(t.Source),
		t.Order, nullableText(t.Holds), boolInt(t.Held), votesText(t.Votes), memoryText(t.Memory),
	}
}

// groupRow returns the row of a group. Spawns and Added are nil or lists: nil stays nil when it is read.
func groupRow(g *state.Group) []driver.Value {
	// nil becomes NULL, and not the text null.
	var spawns driver.Value
	if g.Spawns != nil {
		spawns = column.JSONText(g.Spawns)
	}
	var added driver.Value
	if g.Added != nil {
		added = column.JSONText(g.Added)
	}
	return []driver.Value{
		int64(g.ID), g.Name, int64(g.Origin), string(g.Node), int64(g.Scope.Group), int64(g.Scope.Branch),
		g.Phase.String(), int64(g.First), int64(g.Total), int64(g.Max), boolInt(g.Open),
		int64(g.Started), int64(g.Arrived), int64(g.Ended), int64(g.Failed), column.Millis(g.Due),
		spawns, countsText(g.Counts), optionalText(g.Result), column.FailureText(g.Caught),
		added, int64(g.Unstarted), boolInt(g.Closed),
	}
}

// branchRow returns the row of a branch that is resolved.
func branchRow(b state.BranchChange) []driver.Value {
	return []driver.Value{int64(b.Scope.Group), int64(b.Scope.Branch), b.Status.String(), column.FailureText(b.Failure)}
}

// itemRows returns the elements of a foreach; an empty list is one row. Without that row, a foreach over nothing
// would be read as a group that has no elements because it has no foreach.
func itemRows(id workflow.GroupID, items []any) [][]driver.Value {
	if len(items) == 0 {
		return [][]driver.Value{{int64(id), int64(-1), "null"}}
	}
	rows := make([][]driver.Value, len(items))
	for i, v := range items {
		rows[i] = []driver.Value{int64(id), int64(i), valueText(v)}
	}
	return rows
}

// journalRow returns the row of a record. Its texts are not copied, and belong to the row from now on.
func journalRow(e Entry) []driver.Value {
	return []driver.Value{
		e.Seq, e.At.UnixMilli(), e.Epoch.String(), int64(e.Planner), column.SharedString(e.Message), column.SharedString(e.Decisions), e.Sum[:],
	}
}

// valueRows returns the large values of records, each once. A value that another record of the file has brought
// before is there already, under the same hash: the table ignores it.
func valueRows(entries []Entry) [][]driver.Value {
	var rows [][]driver.Value
	seen := map[string]bool{}
	for _, e := range entries {
		for hash, raw := range e.Values.All() {
			if !seen[hash] {
				seen[hash] = true
				rows = append(rows, []driver.Value{hash, column.SharedString(raw)})
			}
		}
	}
	return rows
}

// eventRow returns the row of an event.
func eventRow(e decision.Event) []driver.Value {
	return []driver.Value{
		e.Seq, e.Record, e.At.UnixMilli(), string(e.Type), int64(e.Token), string(e.Node), int64(e.Group), column.ObjectText(e.Data),
	}
}

// epochText is an epoch as sixteen hexadecimal digits, NULL for none: of a token that has never been dispatched.
func epochText(e workflow.Epoch) driver.Value {
	if e == 0 {
		return nil
	}
	return e.String()
}

// countsText is loop counts as JSON, NULL for none.
func countsText(c state.Counts) driver.Value {
	if c == nil {
		return nil
	}
	return column.JSONText(c)
}

// boolInt is 1 for true and 0 for false, which SQLite has no type for.
func boolInt(b bool) driver.Value {
	if b {
		return int64(1)
	}
	return int64(0)
}

// votes encodes the votes of an approval: their data keeps its types.
var votes = codec.New[any](ballots{})

// ballots are the votes of one approval as a codec takes them: it encodes structs, and a list is none.
type ballots struct {
	Votes []state.Vote `json:"votes"`
}

// memories encodes what tokens remember of their tasks: its values keep their types.
var memories = codec.New[any](state.TaskMemory{})

// memoryText is what a token remembers, NULL for nothing. Its values have passed a limit and a codec before, when the
// decision was recorded: an error here is a broken invariant.
func memoryText(m *state.TaskMemory) driver.Value {
	if m == nil {
		return nil
	}
	text, err := memories.Append(nil, *m, nil)
	if err != nil {
		panic(fmt.Sprintf("runfile: memory: %v", err))
	}
	return string(text)
}

// votesText is the votes of an approval, NULL for none, with the same right to panic.
func votesText(vs []state.Vote) driver.Value {
	if vs == nil {
		return nil
	}
	text, err := votes.Append(nil, ballots{vs}, nil)
	if err != nil {
		panic(fmt.Sprintf("runfile: votes: %v", err))
	}
	return string(text)
}

// signalRow returns the row of a signal, also of one that is done: its id must not count twice.
func signalRow(k *state.KeptSignal) []driver.Value {
	return []driver.Value{int64(k.Seq), k.Name, k.ID, optionalText(k.Payload), column.Millis(k.Due), boolInt(k.Done)}
}

// stepRow returns the row of a node of a dag to which something has happened.
func stepRow(x *state.Step) []driver.Value {
	return []driver.Value{string(x.Node), int64(x.Phase), int64(x.Resolved), int64(x.Live)}
}

// revisionRow returns the row of a definition that a patch has made, with the document from which it was compiled.
func revisionRow(r *state.Revision) []driver.Value {
	return []driver.Value{int64(r.Number), r.Graph.Hash, string(value.Encode(r.Document))}
}
