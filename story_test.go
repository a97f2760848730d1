package pawl

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/actor"
	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/dispatch"
	"github.com/pawl-run/pawl/internal/faults"
	"github.com/pawl-run/pawl/internal/keeping"
	"github.com/pawl-run/pawl/internal/roster"
	"github.com/pawl-run/pawl/internal/running"
	"github.com/pawl-run/pawl/internal/simulating"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/telemetry"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/internal/testing/story"
	"github.com/pawl-run/pawl/internal/watching"
	"github.com/pawl-run/pawl/planning"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/timeout"
	"github.com/pawl-run/pawl/workflow"
)

// The stories of planning/testdata are played a second time: by an actor on the
// real store, in virtual time, next to the planner alone. Both must give the
// same trace, and the same state: kept in memory throughout, or passivated,
// flushed and loaded again after every message, with the directory opened anew.
// The gate plays each story in one of these ways, and in the other one the next day.
func TestStoriesOnTheRealStore(t *testing.T) {
	paths, err := filepath.Glob("planning/testdata/*.txt")
	require.NoError(t, err)
	require.Greater(t, len(paths), 40)
	type playing struct {
		path   string
		reopen bool
	}
	var all []playing
	for i, path := range paths {
		switch {
		case filepath.Base(path) == "clock_jump.txt": // time in a bubble does not go back
		case harness.CurrentLevel() > harness.Quick:
			all = append(all, playing{path, i%2 == 0}, playing{path, i%2 == 1})
		case i%8 == 0:
			all = append(all, playing{path, true})
		}
	}
	for _, p := range harness.SampleOfDay(t, harness.Figure(1, 2, 1), all) {
		t.Run(fmt.Sprintf("%s/reopen=%t", filepath.Base(p.path), p.reopen), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				<-time.After(time.Until(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)))
				s := &duet{reopen: p.reopen}
				defer s.end()
				datadriven.RunTest(t, p.path, func(t *testing.T, d *datadriven.TestData) string {
					s.t = t
					s.play(d)
					return d.Expected
				})
			})
		})
	}
}

// A duet is a story played by a planner alone and by an actor on a store.
type duet struct {
	t      *testing.T
	reopen bool

	model *state.State
	steps int64 // that the model has taken, which number its records
	seq   int64 // of the last record that was compared
	trace []string

	path  string
	graph *compiled.Graph
	dir   *store.Dir
	blobs blob.Store // of what joins merge into blobs
	actor *actor.Actor
	stop  context.CancelFunc
}

// A quiet outbox: a story's tasks end as the story says.
type quiet struct{}

func (quiet) Dispatch(actor.Dispatch)                   {}
func (quiet) Withdraw(workflow.RunID, workflow.TokenID) {}
func (quiet) Committed(workflow.Outcome)                {}
func (quiet) Leave(*actor.Actor) bool                   { return false }
func (quiet) StartChild(actor.Child)                    {}
func (quiet) CancelChild(workflow.RunID)                {}

func (quiet) ChildEnded(workflow.RunID, workflow.Parent, state.ChildEnded) {}
func (quiet) ChildAsks(workflow.RunID, workflow.Parent)                    {}

func (s *duet) play(d *datadriven.TestData) {
	if d.Cmd == "define" {
		s.end()
		s.define(d.Input)
		return
	}
	if s.model == nil {
		return // the definition is refused
	}
	switch d.Cmd {
	case "advance":
		s.advance(d)
	case "sleep":
		s.sleep()
		<-time.After(s.reader().Duration(d))
	case "wake":
		s.live()
		s.fire()
		synctest.Wait()
		s.compare()
	default:
		if m := s.reader().Message(d); m != nil {
			s.send(m)
		}
	}
}

func (s *duet) define(yaml string) {
	def, err := workflow.ParseYAML([]byte(yaml))
	if err != nil {
		return
	}
	if s.graph, err = compiled.Compile(workflow.Bounds{}, def); err != nil {
		return
	}
	s.path, s.seq, s.trace = s.t.TempDir(), 0, nil
	files, err := blob.OpenFiles(s.t.TempDir(), blob.Options{})
	require.NoError(s.t, err)
	s.t.Cleanup(func() { require.NoError(s.t, files.Close()) })
	s.blobs = files
	s.model = state.NewState("r", s.graph)
	s.live()
}

// live brings the run to life, if it sleeps.
func (s *duet) live() {
	if s.actor != nil {
		return
	}
	var err error
	if s.dir == nil {
		s.dir, err = store.Open(s.path, store.Options{Durability: store.ProcessCrash})
		require.NoError(s.t, err)
	}
	s.model.Epoch = s.dir.Epoch()
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	runs := running.New(running.Options{
		Dir: s.dir, Roster: roster.New(roster.Options{}), Alive: ctx, Blobs: keeping.Of(s.blobs, s.dir), Stalls: (*dispatch.StallDetector)(nil), Readers: watching.NewHub(changeOf),
		Faults: faults.New(slog.Default(), nil), Logger: slog.Default(), Metrics: (*telemetry.Metrics)(nil), Tasks: dispatch.New(ctx, dispatch.Options{}), Messages: 1,
	})
	s.actor = actor.New("r", runs.StoreOf("r", &running.Birth{Graph: s.graph}), quiet{}, actor.Options{
		Epoch: s.dir.Epoch(), Mailbox: 4, Batch: 4, Idle: 1000 * time.Hour, FlushRecords: 3, FlushBytes: 1 << 20,
		Fault: func(_ actor.Place, err error) { s.t.Error(err) },
	})
	go func(a *actor.Actor) {
		if err := a.Run(ctx); err != nil {
			s.t.Error(err)
		}
	}(s.actor)
}

// sleep passivates the run and closes its directory.
func (s *duet) sleep() {
	if s.actor != nil {
		s.stop()
		<-s.actor.Done()
		s.actor = nil
	}
	if s.dir != nil {
		require.NoError(s.t, s.dir.Close())
		s.dir = nil
	}
}

func (s *duet) end() {
	s.sleep()
	s.model = nil
}

// send gives a message to both, and compares what they make of it.
func (s *duet) send(m state.Message) {
	simulated := s.simulate(m)
	want := s.step(m)
	require.Equal(s.t, s.trace, simulated, "%#v", m)
	got := s.actor.Ask(s.t.Context(), m)
	require.Equal(s.t, fmt.Sprint(want), fmt.Sprint(got), "%#v", m)
	s.compare()
	if s.reopen {
		s.sleep()
		s.live()
		synctest.Wait()
		s.compare()
	}
}

// simulate returns what a simulation of the stored run decides at a message, without what is
// due at that instant.
func (s *duet) simulate(m state.Message) []string {
	head, stored, err := s.dir.HeadAndState(s.t.Context(), "r")
	if errors.Is(err, store.ErrRunNotFound) {
		head, stored, err = store.Head{Run: "r"}, state.NewState("r", s.graph), nil
	}
	require.NoError(s.t, err)
	stored.Epoch = s.model.Epoch
	sim := simulating.Copy{Head: head, State: stored, Now: timeout.Instant(time.Now())}
	if err := sim.Plan(m); err != nil {
		return nil
	}
	var out []string
	for _, step := range sim.Steps {
		for _, d := range step.Record.Decisions {
			out = append(out, d.String())
		}
	}
	return out
}

// step is what the planner alone makes of a message.
func (s *duet) step(m state.Message) error {
	now := time.Now().UTC().Truncate(time.Millisecond)
	plan, err := planning.Step(s.model, m, now)
	s.steps++
	for _, d := range plan.Decisions {
		s.trace = append(s.trace, d.String())
		decision.Apply(s.model, d, &decision.Record{Seq: s.steps, At: now, Planner: planning.Version, Message: m})
	}
	return err
}

// fire lets the planner's alarm fire.
func (s *duet) fire() {
	require.NoError(s.t, s.step(state.AlarmFired{At: s.model.Alarm().UnixMilli()}))
}

// advance lets time go on for both: every alarm fires at its instant.
func (s *duet) advance(d *datadriven.TestData) {
	until := time.Now().Add(s.reader().Duration(d))
	for {
		at := s.model.Alarm()
		if at.IsZero() || at.After(until) {
			break
		}
		<-time.After(time.Until(at))
		synctest.Wait() // the actor's alarm
		s.fire()
		s.compare()
	}
	<-time.After(time.Until(until))
	synctest.Wait()
	s.compare()
}

// compare holds the records of the store against the trace of the planner, and
// what is stored against its state.
func (s *duet) compare() {
	var got []string
	for r, err := range s.dir.History("r") {
		if err != nil {
			require.ErrorIs(s.t, err, store.ErrRunNotFound)
			break
		}
		if r.Seq > s.seq {
			s.seq = r.Seq
			for _, d := range r.Decisions {
				got = append(got, d.String())
			}
		}
	}
	require.Equal(s.t, s.trace, got)
	s.trace = nil
	if s.seq > 0 {
		stored, err := s.dir.State("r")
		require.NoError(s.t, err)
		require.Equal(s.t, s.model.AllRows(), stored.AllRows())
	}
}

// reader makes messages of commands. A token that runs no attempt has a key of
// no epoch.
func (s *duet) reader() story.Reader {
	return story.Reader{T: s.t, Key: func(id workflow.TokenID) (int, state.Epoch) {
		if t := s.model.Token(id); t != nil && t.Attempt > 0 {
			return t.Attempt, t.Epoch
		}
		return 1, 0
	}}
}
