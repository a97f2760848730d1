package golden

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/internal/testing/harness/replays"
	"github.com/pawl-run/pawl/planning"
	"github.com/pawl-run/pawl/rescue"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/workflow"
)

var rewrite = flag.Bool("golden.rewrite", false, "write the archives of the present format anew")

// goldens are the archives in testdata, with the failpoint at which the process
// was killed that wrote it.
var goldens = []golden{
	{name: "format-8-closed", in: []string{"file"}},
	{name: "format-8-killed", kill: "file.built", in: []string{"file", "log", "file and log"}},
}

type golden struct {
	name string
	kill string
	in   []string // where runs stand
}

// sample returns the archives of a test: in a quick one, the last.
func sample() []golden { return goldens[harness.Figure(len(goldens)-1, 0, 0):] }

// kinds are the states of runs, and of their tokens, that every directory has.
var kinds = []string{
	"running", "paused", "completed", "failed", "timed_out", "cancelled",
	"pending", "dispatched", "retrying", "waiting_for_siblings", "waiting_for_join", "waiting_for_subworkflow",
	"waiting_for_event", "waiting_for_timer", "waiting_for_approval", "waiting_for_lock", "waiting_for_operator",
}

// patience bounds how long the runs may take to end.
const patience = 5 * time.Minute

// An expectation is what is known of a golden directory.
type expectation struct {
	Runs map[workflow.RunID]standing // as it was found
	Ends map[workflow.RunID]string   // outcomes, when all runs have ended
}

// A standing is how a run stands in a golden directory.
type standing struct {
	Status  string
	Seq     int64
	Journal string // digest
	Events  int
	Logged  int // records in the log
	Filed   bool
	Live    map[string]int `json:",omitempty"` // tokens by status
}

// Every directory that an earlier version wrote, closed or killed, is in order, has
// the journals that it had, and all its runs come to the ends that they had.
func TestGolden(t *testing.T) {
	if *rewrite {
		for _, g := range goldens {
			dir := filepath.Join(t.TempDir(), "engine")
			write(t, dir, g.kill)
			archiveOf(t, dir, archive(g.name))
			text, err := json.MarshalIndent(look(t, g.name), "", " ")
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join("testdata", g.name+".json"), append(text, '\n'), 0o600))
		}
	}
	for _, g := range sample() {
		t.Run(g.name, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join("testdata", g.name+".json"))
			require.NoError(t, err)
			var want expectation
			require.NoError(t, json.Unmarshal(text, &want))
			require.GreaterOrEqual(t, len(want.Runs), 2*len(stories))
			got := look(t, g.name)
			require.Equal(t, want, got)
			found := map[string]int{}
			records := 0
			for _, s := range got.Runs {
				found[s.Status]++
				found[where(s)]++
				for status, n := range s.Live {
					found[status] += n
				}
				records += int(s.Seq)
			}
			for _, kind := range slices.Concat(kinds, g.in) {
				require.NotZero(t, found[kind], "%s: %v", kind, found)
			}
			t.Logf("%d runs, %d records, %v; %d outcomes, 0 violations", len(got.Runs), records, found, len(got.Ends))
		})
	}
}

func where(s standing) string {
	switch {
	case s.Filed && s.Logged > 0:
		return "file and log"
	case s.Filed:
		return "file"
	}
	return "log"
}

// look unpacks a golden directory, and finds out what is in it and how its runs
// end.
func look(t *testing.T, name string) expectation {
	dir := unpack(t, archive(name))
	sound(t, dir)
	out := expectation{Runs: standings(t, dir), Ends: map[workflow.RunID]string{}}
	finish(t, dir)
	sound(t, dir)
	for _, h := range heads(t, dir) {
		out.Ends[h.Run] = outcomeText(h.Outcome())
	}
	return out
}

// sound checks that Verify finds no damage in a directory, and that the planner decides
// what was decided.
func sound(t *testing.T, dir string) {
	r, err := rescue.Verify(t.Context(), dir, rescue.Options{})
	require.NoError(t, err)
	require.Zero(t, r.Damage, "%v", r.Findings)
	runs, err := replays.Check(dir)
	require.NoError(t, err)
	require.Positive(t, runs)
}

func heads(t *testing.T, dir string) (out []store.Head) {
	d, err := store.Open(dir, store.Options{})
	require.NoError(t, err)
	for h, err := range d.AllHeads(store.RunFilter{}) {
		require.NoError(t, err)
		out = append(out, h)
	}
	require.NoError(t, d.Close())
	return out
}

// standings reads a copy of a directory.
func standings(t *testing.T, dir string) map[workflow.RunID]standing {
	to := filepath.Join(t.TempDir(), "copy")
	require.NoError(t, os.CopyFS(to, os.DirFS(dir)))
	d, err := store.Open(to, store.Options{})
	require.NoError(t, err)
	out := map[workflow.RunID]standing{}
	for h, err := range d.AllHeads(store.RunFilter{}) {
		require.NoError(t, err)
		s := standing{Status: h.Status.String(), Seq: h.Seq, Filed: h.File != ""}
		s.Journal, s.Live = journal(t, d, h)
		for _, err := range d.Events(h.Run, 0) {
			require.NoError(t, err)
			s.Events++
		}
		out[h.Run] = s
	}
	require.NoError(t, d.Close())
	c, err := sqlite.Open(filepath.Join(to, "pawl.db"), ``)
	require.NoError(t, err)
	require.NoError(t, c.Each(`SELECT id, count(*) FROM log JOIN runs ON num = key >> 32 GROUP BY id`, func(r *sqlite.Row) error {
		id := workflow.RunID(r.Text(0))
		s := out[id]
		s.Logged = r.Int(1)
		out[id] = s
		return nil
	}))
	require.NoError(t, c.Close())
	return out
}

// journal returns the digest of a run's journal, which gives the same decisions
// when it is replayed, and the live tokens that it comes to.
func journal(t *testing.T, d *store.Dir, h store.Head) (digest string, live map[string]int) {
	g, err := d.Graph(h.Definition)
	require.NoError(t, err)
	s := state.NewState(h.Run, g)
	sum := sha256.New()
	for r, err := range d.History(h.Run) {
		require.NoError(t, err)
		e, err := r.Encode()
		require.NoError(t, err)
		require.NoError(t, binary.Write(sum, binary.BigEndian, []int64{r.Seq, r.At.UnixMilli(), int64(r.Epoch), int64(r.Planner), int64(len(e.Message))}))
		_, err = sum.Write(append(e.Message, e.Decisions...))
		require.NoError(t, err)

		s.Epoch, s.Rules = r.Epoch, r.Planner
		plan, err := planning.Step(s, r.Message, r.At)
		require.NoError(t, err, "%s, record %d", h.Run, r.Seq)
		r.Decisions = plan.Decisions
		again, err := r.Encode()
		require.NoError(t, err)
		require.True(t, bytes.Equal(e.Decisions, again.Decisions), "%s, record %d: %s, now %s", h.Run, r.Seq, e.Decisions, again.Decisions)
		for _, c := range plan.Decisions {
			decision.Apply(s, c, &r)
		}
	}
	for _, token := range s.AllRows().Tokens {
		if !token.Status.Terminal() {
			if live == nil {
				live = map[string]int{}
			}
			live[token.Status.String()]++
		}
	}
	return hex.EncodeToString(sum.Sum(nil)), live
}

// finish opens a directory and gives every run what it waits for.
func finish(t *testing.T, dir string) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	e, err := pawl.Open(ctx, dir, pawl.Options{Executor: hand{}})
	require.NoError(t, err)
	for _, suffix := range []string{"", "-late"} {
		for _, s := range stories {
			id := workflow.RunID(s.name + suffix)
			if s.ends != nil {
				require.NoError(t, s.ends(ctx, e, id), "%s", id)
			}
		}
	}
	for r, err := range e.Runs(ctx, pawl.RunFilter{}) {
		require.NoError(t, err)
		_, err = e.Wait(ctx, r.Run)
		require.NoError(t, err, "%s", r.Run)
	}
	kept, err := e.Once(ctx, "paid/1", func(context.Context) (any, error) { return nil, fmt.Errorf("it was kept") })
	require.NoError(t, err)
	require.Equal(t, object{"receipt": odd}, kept)
	_, err = e.Inspect(ctx, "done-purged")
	require.ErrorIs(t, err, pawl.ErrRunNotFound)
	out, err := e.Run(ctx, workflow.Run{ID: "new", Workflow: "kid"}, object{"v": 1})
	require.NoError(t, err)
	require.Equal(t, object{"v": int64(2)}, out.Output, "of the version that was published last")
	readParcel(ctx, t, e)
	require.NoError(t, e.Close(ctx))
}

// readParcel reads the artifact of a run whose task was done when the directory
// was made.
func readParcel(ctx context.Context, t *testing.T, e *pawl.Engine) {
	out, err := e.Wait(ctx, "parcel")
	require.NoError(t, err)
	require.Len(t, out.Artifacts, 1)
	r, err := e.OpenArtifact(ctx, out.Artifacts[0])
	require.NoError(t, err)
	text, err := io.ReadAll(r)
	require.NoError(t, err)
	require.NoError(t, r.Close())
	require.Equal(t, bytes.Repeat([]byte("pärcel"), 100), text)
}

// outcomeText says how a run ended, in all that does not depend on when.
func outcomeText(o workflow.Outcome) string {
	// The planners that wrote the archives told no cause.
	if o.Failure != nil {
		f := *o.Failure
		f.Cause, o.Failure = nil, &f
	}
	text, err := json.Marshal(struct {
		Status    string
		Output    map[string]any
		Failure   *workflow.Failure
		Artifacts []workflow.Artifact `json:",omitempty"`
	}{o.Status.String(), o.Output, o.Failure, o.Artifacts})
	if err != nil {
		panic(fmt.Sprintf("outcome of %q: %v", string(o.Run), err))
	}
	return string(text)
}
