package runfile

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/codec"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// A flush is what one has to write.
type flush struct {
	changes state.Changes
	entries []*Entry
	events  []decision.Event
}

// piecesOf returns events as they come from several commits; one commit in four has told nothing.
func piecesOf(events []decision.Event) (out [][]decision.Told) {
	for some := range slices.Chunk(events, 3) {
		if len(out)%4 == 0 {
			out = append(out, nil)
		}
		out = append(out, decision.TellEvents(some))
	}
	return out
}

// largeFlush returns a flush of so many tokens, records and events. It changes some of the rows of a flush before it,
// which had so many tokens.
func largeFlush(before, n int) (f flush) {
	for i := 1; i <= before; i += 3 {
		f.changes.Tokens = append(f.changes.Tokens, &state.Token{ID: workflow.TokenID(i), Node: "changed", Status: workflow.Completed, Epoch: 1})
	}
	f.changes.Items = map[workflow.GroupID][]any{workflow.GroupID(before + 1): make([]any, n), workflow.GroupID(before + 2): nil}
	for i := before + 1; i <= before+n; i++ {
		scope := workflow.Scope{Group: 1, Branch: i}
		f.changes.Tokens = append(f.changes.Tokens, &state.Token{ID: workflow.TokenID(i), Node: "n", Status: workflow.Pending, Scope: scope, Input: int64(i)})
		f.changes.Branches = append(f.changes.Branches, state.BranchChange{Scope: scope})
		f.changes.Data = append(f.changes.Data,
			state.DataChange{Path: []string{"state", "list"}, Kind: state.DataAppend, Index: i, Value: int64(i)},
			state.DataChange{Path: []string{"state", fmt.Sprint("key", i*7%n)}, Value: strings.Repeat("v", i%3000)})
		e := &Entry{Encoded: decision.Encoded{Seq: int64(i), At: time.UnixMilli(int64(i)), Message: []byte("{}"), Decisions: []byte("[]"), Values: &codec.Values{}}}
		if i%50 == 0 {
			e.Values.Add([]byte(`"` + strings.Repeat("x", i%40*1000) + `"`))
		}
		f.entries = append(f.entries, e)
		f.events = append(f.events, decision.Event{Seq: int64(i), Record: int64(i), Type: "x", Data: map[string]any{"i": int64(i)}})
	}
	return f
}

// writeTo writes a flush with a definition and the meta row.
func (f *flush) writeTo(to Target) error {
	err := WriteDefinition(to, "hash", "{}")
	if err == nil {
		err = WriteMeta(to, &Meta{Run: "r", Workflow: "w", Facts: &state.Facts{}, Seq: int64(len(f.entries))})
	}
	if err == nil {
		err = WriteChanges(to, &f.changes, f.entries, piecesOf(f.events))
	}
	return err
}

// A large file has the same rows, whether it is laid out in memory or written row by row, at once or over the one
// before, and those are the ones that SQLite reads.
func TestALargeFile(t *testing.T) {
	first, second, third := largeFlush(0, 1500), largeFlush(1500, 2000), largeFlush(3500, 100)
	all := func(to Target) error {
		for _, f := range []*flush{&first, &second, &third} {
			if err := f.writeTo(to); err != nil {
				return err
			}
		}
		return nil
	}
	want, err := new(Builder).Build(nil, all)
	require.NoError(t, err)
	db := openBytes(t, want)
	defer func() { require.NoError(t, db.Close()) }()
	require.Greater(t, len(want), 2<<20)
	requireAlike(t, db, written(t, nil, all))
	data := written(t, nil, first.writeTo)
	data = written(t, data, second.writeTo)
	requireAlike(t, db, written(t, data, third.writeTo))
	require.NoError(t, db.Script(`VACUUM`)) // a file that SQLite laid out
	require.NoError(t, db.Script(`DELETE FROM events WHERE seq > 3500; DELETE FROM journal WHERE seq > 3500`))
	data, err = db.Serialize()
	require.NoError(t, err)
	data = written(t, data, third.writeTo)
	complete := openBytes(t, want)
	defer func() { require.NoError(t, complete.Close()) }()
	requireAlike(t, complete, data)
}

// To write a large file takes the same memory however many rows it has.
func TestALargeFileTakesLittleMemory(t *testing.T) {
	cost := func(n int) float64 {
		f := flush{changes: largeFlush(0, n).changes, events: largeFlush(0, n).events}
		f.changes.Data = nil
		old, err := Open(written(t, nil, f.writeTo))
		require.NoError(t, err)
		f.events = nil
		to := &memoryFile{}
		require.NoError(t, WriteFile(to, old, f.writeTo)) // it is as large as it will be
		return testing.AllocsPerRun(3, func() { require.NoError(t, WriteFile(to, old, f.writeTo)) })
	}
	small := cost(100)
	require.Less(t, cost(5000), small+100)
}

// A file that cannot be read is not written anew without its rows.
func TestALargeFileThatCannotBeRead(t *testing.T) {
	f := largeFlush(0, 3000)
	data := written(t, nil, f.writeTo)
	old, err := OpenAt(bytes.NewReader(data[:len(data)/2]), int64(len(data)))
	if err == nil {
		next := largeFlush(3000, 1)
		err = WriteFile(&memoryFile{}, old, next.writeTo)
	}
	require.Error(t, err)
}
