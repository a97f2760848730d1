package replay_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/planning"
	"github.com/pawl-run/pawl/replay"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/workflow"
)

func TestCheck(t *testing.T) {
	r := playOrder(t, "order-41", 0.93, 12, 7)
	report, err := replay.Check(r.recording())
	require.NoError(t, err)
	require.Equal(t, replay.Report{Run: "order-41", Workflow: "order", Version: 3, Status: workflow.RunCompleted, Records: 6}, report)
}

// TestCheckOfTheWholeRun: a condition may read the variable run as a whole, which has instants.
func TestCheckOfTheWholeRun(t *testing.T) {
	r := record(t, "whole", `{name: whole, start: a, nodes: [{id: a}, {id: b}], transitions: [{from: a, to: b, condition: "'id' in run"}]}`, nil)
	report, err := replay.Check(r.recording())
	require.NoError(t, err)
	require.Nil(t, report.Difference)
	require.EqualValues(t, 1, report.Records)
}

// TestCheckFindsAnotherPlanner changes what a record says, as if another planner had made it:
// the first record and the first decision that differ are named, with the reasons.
func TestCheckFindsAnotherPlanner(t *testing.T) {
	tests := []struct {
		name   string
		change func(*decision.Record)
		want   replay.Difference
		text   string
	}{
		{
			name: "another transition",
			change: func(r *decision.Record) {
				for i, d := range r.Decisions {
					if c, ok := d.(decision.CreateToken); ok {
						c.Token.Node = "approve"
						r.Decisions[i] = c
					}
				}
			},
			want: replay.Difference{Decision: 2, Was: "create-token t5 node=approve", Is: "create-token t5 node=ship"},
			text: "record 5, TaskCompleted token=t4 attempt=1 at check: decision 2 differs\n  was: create-token t5 node=approve\n  is:  create-token t5 node=ship\n  why: t4 check->ship [tier 0]: result.score > 0.8 is true with result.score = 0.93",
		},
		{
			name:   "fewer decisions",
			change: func(r *decision.Record) { r.Decisions = r.Decisions[:2] },
			want:   replay.Difference{Decision: 3, Is: `dispatch-task t5 task=work attempt=1 input={}`},
		},
		{
			name:   "a message that was refused",
			change: func(r *decision.Record) { r.Epoch++; r.Message = otherEpoch(r.Message) },
			want:   replay.Difference{Refused: "stale"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := playOrder(t, "order-41", 0.93, 12, 7)
			tt.change(&r.records[4])
			report, err := replay.Check(r.recording())
			if tt.want.Refused == "" {
				require.NoError(t, err)
			}
			d := report.Difference
			require.NotNil(t, d)
			require.EqualValues(t, 4, report.Records)
			require.EqualValues(t, 5, d.Seq)
			require.Equal(t, tt.want.Decision, d.Decision)
			require.Equal(t, tt.want.Was, d.Was)
			require.Equal(t, tt.want.Is, d.Is)
			if tt.want.Refused != "" {
				require.NotEmpty(t, d.Refused)
			}
			if tt.text != "" {
				require.Equal(t, tt.text, d.String())
			}
		})
	}
}

func TestCheckOfAnUnreadableRecording(t *testing.T) {
	r := playOrder(t, "order-41", 0.93)
	broken := errors.New("broken")
	_, err := replay.Check(replay.New("a", r.graph, func(yield func(decision.Record, error) bool) { yield(decision.Record{}, broken) }))
	require.ErrorIs(t, err, broken)
	_, err = replay.Check(replay.New("a", r.graph, func(func(decision.Record, error) bool) {}))
	require.ErrorContains(t, err, "no records")
	r.records[1].Planner = planning.Version + 1
	_, err = replay.Check(r.recording())
	require.ErrorIs(t, err, store.ErrVersion)
	require.ErrorContains(t, err, "use a newer pawl")
}

// TestAll reads what is no recording: each comes as an error, and the others are read.
func TestAll(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.db"), []byte("no database"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "notes.txt"), nil, 0o600))
	var errs []error
	for rec, err := range replay.All(replay.Options{}, dir, filepath.Join(dir, "nothing.db"), filepath.Join(dir, "notes.txt")) {
		require.Nil(t, rec)
		errs = append(errs, err)
	}
	require.Len(t, errs, 3)
	require.ErrorContains(t, errs[0], "it is not a database")
	require.ErrorIs(t, errs[1], os.ErrNotExist)
	require.ErrorContains(t, errs[2], "it is empty")
	_, err := replay.Open(filepath.Join(dir, "a.db"), replay.Options{})
	require.ErrorContains(t, err, "it is not a database")
}

// The file of a run has two names at times, and is read once.
func TestAllReadsAFileWithTwoNamesOnce(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"linked-a.db": "1", "copied-a.db": "2", "copied-b.db": "2", "twoa.db": "3", "twob.db": "4", "oneb.db": "5"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	require.NoError(t, os.Link(filepath.Join(dir, "linked-a.db"), filepath.Join(dir, "linked-b.db")))
	n := 0
	for _, err := range replay.All(replay.Options{}, dir) {
		require.ErrorContains(t, err, "it is not a database")
		n++
	}
	require.Equal(t, 5, n)
	for _, err := range replay.All(replay.Options{}, filepath.Join(dir, "linked-b.db")) {
		require.ErrorContains(t, err, "it is not a database")
		n++
	}
	require.Equal(t, 6, n, "one that is named is read")
}
