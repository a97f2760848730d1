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

// facts encodes the facts of a state.
var facts = codec.New[any](state.Facts{})

// A Meta says which run a file is of, and how far it goes.
type Meta struct {
	Run        workflow.RunID
	Workflow   string // name of its definition
	Version    int
	Definition string // hash
	Facts      *state.Facts
	Seq        int64 // of the last record
	Sum        Checksum
}

func metaRow(m *Meta) ([]driver.Value, error) {
	text, err := facts.Append(nil, *m.Facts, nil)
	if err != nil {
		return nil, err
	}
	return []driver.Value{
		int64(1), string(m.Run), m.Workflow, int64(m.Version), m.Definition, m.Facts.Status.String(), m.Seq, m.Sum[:], string(text),
	}, nil
}

func tokenRow(t *state.Token) []driver.Value {
	return []driver.Value{
		int64(t.ID), string(t.Node), t.Status.String(), int64(t.Parent), int64(t.Scope.Group), int64(t.Scope.Branch),
		int64(t.Attempt), int64(t.Base), epochText(t.Epoch), column.Millis(t.Due), column.Millis(t.Beat), nullableText(t.Via),
		countsText(t.Counts), optionalText(t.Input), column.FailureText(t.Failure), column.FailureText(t.Caught), optionalText(t.Source),
		t.Order, nullableText(t.Holds), boolInt(t.Held), votesText(t.Votes), memoryText(t.Memory),
	}
}

func groupRow(g *state.Group) []driver.Value {
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

func branchRow(b state.BranchChange) []driver.Value {
	return []driver.Value{int64(b.Scope.Group), int64(b.Scope.Branch), b.Status.String(), column.FailureText(b.Failure)}
}

// itemRows returns the elements of a foreach; an empty list is one row.
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

func journalRow(e Entry) []driver.Value {
	return []driver.Value{
		e.Seq, e.At.UnixMilli(), e.Epoch.String(), int64(e.Planner), column.SharedString(e.Message), column.SharedString(e.Decisions), e.Sum[:],
	}
}

// valueRows returns the large values of records, each once.
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

func eventRow(e decision.Event) []driver.Value {
	return []driver.Value{
		e.Seq, e.Record, e.At.UnixMilli(), string(e.Type), int64(e.Token), string(e.Node), int64(e.Group), column.ObjectText(e.Data),
	}
}

func epochText(e workflow.Epoch) driver.Value {
	if e == 0 {
		return nil
	}
	return e.String()
}

func countsText(c state.Counts) driver.Value {
	if c == nil {
		return nil
	}
	return column.JSONText(c)
}

func boolInt(b bool) driver.Value {
	if b {
		return int64(1)
	}
	return int64(0)
}

// votes encodes the votes of an approval: their data keeps its types.
var votes = codec.New[any](ballots{})

type ballots struct {
	Votes []state.Vote `json:"votes"`
}

// memories encodes what tokens remember of their tasks: its values keep their types.
var memories = codec.New[any](state.TaskMemory{})

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

func signalRow(k *state.KeptSignal) []driver.Value {
	return []driver.Value{int64(k.Seq), k.Name, k.ID, optionalText(k.Payload), column.Millis(k.Due), boolInt(k.Done)}
}

func stepRow(x *state.Step) []driver.Value {
	return []driver.Value{string(x.Node), int64(x.Phase), int64(x.Resolved), int64(x.Live)}
}

func revisionRow(r *state.Revision) []driver.Value {
	return []driver.Value{int64(r.Number), r.Graph.Hash, string(value.Encode(r.Document))}
}
