package pawl_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/history"
	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/rescue"
	"github.com/pawl-run/pawl/workflow"
)

// A listener is a Feed that keeps what it is given. fail, if it is set, says what becomes of a message:
// taken, and what Publish answers.
type listener struct {
	mu    sync.Mutex
	got   []pawl.FeedMessage
	calls int
	fail  func(m pawl.FeedMessage) (taken bool, err error)
}

func (l *listener) Publish(_ context.Context, m pawl.FeedMessage) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls++
	taken, err := true, error(nil)
	if l.fail != nil {
		taken, err = l.fail(m)
	}
	if taken {
		l.got = append(l.got, m)
	}
	return err
}

func (l *listener) setFail(f func(m pawl.FeedMessage) (taken bool, err error)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fail = f
}

func (l *listener) countCalls() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.calls
}

// eventsOf returns the events of a run as they came for the first time. Repetitions must be equal, and
// go back to an event that was there.
func (l *listener) eventsOf(t testing.TB, id workflow.RunID) (out []history.Event) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	seen := map[string]pawl.FeedMessage{}
	for _, m := range l.got {
		if m.Run != id {
			continue
		}
		if was, ok := seen[m.ID]; ok {
			require.Equal(t, was, m)
			continue
		}
		seen[m.ID] = m
		out = append(out, m.Event)
	}
	return out
}

// listEvents returns events as they are published: without the keys of tasks.
func listEvents(t testing.TB, all iter.Seq2[history.Event, error]) (out []history.Event) {
	t.Helper()
	for ev, err := range all {
		require.NoError(t, err)
		delete(ev.Data, "key")
		out = append(out, ev)
	}
	return out
}

// drained waits until nothing waits to be published.
func drained(t testing.TB, e *pawl.Engine) {
	t.Helper()
	for range 10_000 {
		s, err := e.Stats(t.Context())
		require.NoError(t, err)
		if s.Feed.Waiting == 0 {
			require.Zero(t, s.Feed.Bytes)
			return
		}
		<-time.After(10 * time.Millisecond)
	}
	require.Fail(t, "events wait for ever")
}

const fedSteps = `
name: fed
start: a
nodes:
  - {id: a, task: t, retry: {maxAttempts: 3}}
  - {id: ask, wait: {event: go}}
  - {id: b, task: t}
transitions: [{from: a, to: ask}, {from: ask, to: b}]
`

// twice fails each first attempt.
var twice = pawl.Handlers{"t": func(_ context.Context, t pawl.Task) (any, error) {
	if t.Attempt == 1 && t.Node == "a" {
		return nil, errors.New("not yet")
	}
	return map[string]any{"n": 1.5}, nil
}}

// runFed starts runs, lets them end and returns them.
func runFed(t testing.TB, e *pawl.Engine, prefix string, n int) (ids []workflow.RunID) {
	t.Helper()
	for i := range n {
		id := workflow.RunID(fmt.Sprint(prefix, i))
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: id, Definition: define(t, fedSteps), Tenant: "me"}, nil))
		require.NoError(t, e.Signal(t.Context(), id, workflow.Signal{Name: "go", Payload: map[string]any{"by": "me"}}))
		ids = append(ids, id)
	}
	for _, id := range ids {
		_, err := e.Wait(t.Context(), id)
		require.NoError(t, err)
	}
	return ids
}

// Every event of every run is published, as Events lists it and in that order, and of the types that are
// wanted.
func TestFeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, some := &listener{}, &listener{}
		e := open(t, t.TempDir(), pawl.Options{Executor: twice, Feed: pawl.FeedOptions{To: l}})
		few := open(t, t.TempDir(), pawl.Options{Executor: twice, Feed: pawl.FeedOptions{To: some, Types: []workflow.EventType{workflow.EventWorkflowCompleted}}})
		for _, id := range runFed(t, e, "r", 20) {
			drained(t, e)
			require.Equal(t, listEvents(t, e.Events(t.Context(), id, pawl.EventsOptions{})), l.eventsOf(t, id))
		}
		s, err := e.Stats(t.Context())
		require.NoError(t, err)
		require.Equal(t, &pawl.FeedStats{Published: int64(len(l.got))}, s.Feed)
		ids := map[string]bool{}
		for _, m := range l.got {
			require.False(t, ids[m.ID], "%s", m.ID)
			ids[m.ID] = true
			require.Equal(t, []any{"fed", 1, "me"}, []any{m.Workflow, m.Version, m.Tenant})
		}
		runFed(t, few, "r", 3)
		drained(t, few)
		require.Len(t, some.got, 3)
		for _, m := range some.got {
			require.Equal(t, workflow.EventWorkflowCompleted, m.Event.Type)
		}
	})
}

// Messages that get lost, and acknowledgements that do, come again under their ids; the order of each run holds.
func TestFeedThatLosesThings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		random := rand.New(rand.NewPCG(seed, 0))
		l := &listener{fail: func(m pawl.FeedMessage) (bool, error) {
			switch random.IntN(12) {
			case 0:
				return false, errors.New("lost")
			case 1:
				return true, errors.New("the answer is lost")
			case 2:
				panic("out of its mind")
			}
			return true, nil
		}}
		e := open(t, t.TempDir(), pawl.Options{Executor: twice, Feed: pawl.FeedOptions{To: l}})
		ids := runFed(t, e, "r", 30)
		drained(t, e)
		for _, id := range ids {
			require.Equal(t, listEvents(t, e.Events(t.Context(), id, pawl.EventsOptions{})), l.eventsOf(t, id))
		}
		require.Greater(t, l.calls, len(l.got))
	})
}

var errAway = errors.New("the broker is away")

func away(pawl.FeedMessage) (bool, error) { return false, errAway }

// While the broker is away the runs go on, the outbox grows, and few attempts are made. When it is back everything is
// published.
func TestFeedWhileTheBrokerIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &listener{fail: away}
		e := open(t, t.TempDir(), pawl.Options{Executor: twice, Feed: pawl.FeedOptions{To: l}})
		ids := runFed(t, e, "r", 40)
		<-time.After(time.Hour)
		s, err := e.Stats(t.Context())
		require.NoError(t, err)
		require.Contains(t, s.Feed.Error, errAway.Error())
		require.InDelta(t, time.Hour, time.Since(s.Feed.Failing), float64(time.Minute))
		require.Positive(t, s.Feed.Bytes)
		t.Logf("%d events of %d bytes wait, %d attempts in an hour", s.Feed.Waiting, s.Feed.Bytes, l.countCalls())
		require.Zero(t, s.Feed.Published)
		require.Less(t, l.countCalls(), 10_000, "it backs off")
		l.setFail(nil)
		drained(t, e)
		for _, id := range ids {
			require.Equal(t, listEvents(t, e.Events(t.Context(), id, pawl.EventsOptions{})), l.eventsOf(t, id))
		}
		<-time.After(time.Minute)
		s, err = e.Stats(t.Context())
		require.NoError(t, err)
		require.Equal(t, &pawl.FeedStats{Published: int64(len(l.got))}, s.Feed)
	})
}

// One run whose messages are refused for ever holds nobody else up, though it has more than is read at once.
func TestFeedThatRefusesARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &listener{fail: func(m pawl.FeedMessage) (bool, error) {
			if strings.HasPrefix(string(m.Run), "bad") {
				return false, errors.New("no")
			}
			return true, nil
		}}
		e := open(t, t.TempDir(), pawl.Options{Executor: twice, Feed: pawl.FeedOptions{To: l}})
		runFed(t, e, "bad", 50)
		for i := range 5 {
			<-time.After(time.Minute)
			for _, id := range runFed(t, e, fmt.Sprint("good", i, "-"), 2) {
				<-time.After(time.Second)
				require.Equal(t, listEvents(t, e.Events(t.Context(), id, pawl.EventsOptions{})), l.eventsOf(t, id))
			}
		}
		require.Less(t, l.countCalls(), 50*100)
		l.setFail(nil)
		drained(t, e)
		require.Equal(t, listEvents(t, e.Events(t.Context(), "bad7", pawl.EventsOptions{})), l.eventsOf(t, "bad7"))
	})
}

// A Feed that is slow, or never answers, keeps no run waiting; a call that hangs ends after its time, and Close ends it at once.
func TestFeedThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &listener{}
		hang := pawl.FeedFunc(func(ctx context.Context, m pawl.FeedMessage) error {
			if m.Event.Seq == 3 {
				<-ctx.Done()
				return context.Cause(ctx)
			}
			return l.Publish(ctx, m)
		})
		dir := t.TempDir()
		e := open(t, dir, pawl.Options{Executor: twice, Feed: pawl.FeedOptions{To: hang}})
		begun := time.Now()
		runFed(t, e, "r", 5)
		require.Less(t, time.Since(begun), 10*time.Second)
		<-time.After(10 * time.Minute)
		s, err := e.Stats(t.Context())
		require.NoError(t, err)
		require.Contains(t, s.Feed.Error, "deadline")
		begun = time.Now()
		require.NoError(t, e.Close(t.Context()))
		require.LessOrEqual(t, time.Since(begun), 3*time.Second)
		e = open(t, dir, pawl.Options{Executor: twice, Feed: pawl.FeedOptions{To: l}})
		drained(t, e)
		require.Equal(t, listEvents(t, e.Events(t.Context(), "r4", pawl.EventsOptions{})), l.eventsOf(t, "r4"))
	})
}

// Where too many bytes wait, commits that bring events wait as well, and go on when there is room. Close waits for none
// of them, and what a later engine finds is published.
func TestFeedThatIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &listener{fail: away}
		dir := t.TempDir()
		options := pawl.Options{Executor: twice, Feed: pawl.FeedOptions{To: l, MaxBytes: 2000}}
		e := open(t, dir, options)
		run := func(id workflow.RunID) workflow.Run { return workflow.Run{ID: id, Definition: define(t, fedSteps)} }
		full := func() bool {
			s, err := e.Stats(t.Context())
			require.NoError(t, err)
			return s.Feed.Full
		}
		n := 0
		for ; !full(); n++ {
			require.NoError(t, e.Start(t.Context(), run(workflow.RunID(fmt.Sprint("r", n))), nil))
			synctest.Wait()
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		require.ErrorIs(t, e.Start(ctx, run("waits"), nil), context.DeadlineExceeded)
		cancel()
		s, err := e.Stats(t.Context())
		require.NoError(t, err)
		require.Less(t, s.Feed.Bytes, int64(2*2000))
		l.setFail(nil)
		drained(t, e)
		require.NoError(t, e.Start(t.Context(), run("waits"), nil), "it had taken effect, or does now")
		l.setFail(away)
		for !full() {
			n++
			require.NoError(t, e.Start(t.Context(), run(workflow.RunID(fmt.Sprint("r", n))), nil))
			synctest.Wait()
		}
		answered := make(chan error)
		go func() { answered <- e.Start(context.Background(), run("late"), nil) }()
		synctest.Wait()
		require.NoError(t, e.Close(t.Context()))
		require.NoError(t, <-answered, "it is committed when the engine closes")
		l.setFail(nil)
		e = open(t, dir, options)
		drained(t, e)
		require.NotEmpty(t, l.eventsOf(t, "late"))
		require.Equal(t, listEvents(t, e.Events(t.Context(), "waits", pawl.EventsOptions{})), l.eventsOf(t, "waits"))
	})
}

// hasOutbox reports whether the pawl.db of a closed engine has the table of events.
func hasOutbox(t testing.TB, dir string) (has bool) {
	t.Helper()
	c, err := sqlite.OpenReadOnly(filepath.Join(dir, "pawl.db"), ``)
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	has, err = c.One(`SELECT 1 FROM sqlite_schema WHERE name = 'outbox'`, func(*sqlite.Row) error { return nil })
	require.NoError(t, err)
	return has
}

// Events that are not published wait in the directory, through engines without a feed and through purges, and in backups, copies
// that follow and directories that Repair restores.
func TestFeedOutlivesItsEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, l := filepath.Join(t.TempDir(), "data"), &listener{fail: away}
		place := newCopyPlace(t)
		e := open(t, dir, pawl.Options{Executor: twice})
		none, err := e.Stats(t.Context())
		require.NoError(t, err)
		require.Nil(t, none.Feed)
		require.NoError(t, e.Close(t.Context()))
		require.False(t, hasOutbox(t, dir), "a directory without a feed is as it was")

		e = open(t, dir, pawl.Options{Executor: twice, Feed: pawl.FeedOptions{To: l}})
		ended := place.follow(t, e)
		runFed(t, e, "r", 3)
		want := map[workflow.RunID][]history.Event{}
		for _, id := range []workflow.RunID{"r0", "r1", "r2"} {
			want[id] = listEvents(t, e.Events(t.Context(), id, pawl.EventsOptions{}))
		}
		require.NoError(t, e.Purge(t.Context(), "r1"))
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "r1", Definition: define(t, fedSteps)}, nil), "another one")
		backup := filepath.Join(t.TempDir(), "backup")
		_, err = e.Backup(t.Context(), backup)
		require.NoError(t, err)
		require.NoError(t, e.Close(t.Context()))
		require.NoError(t, <-ended)
		require.True(t, hasOutbox(t, dir))
		restored := filepath.Join(t.TempDir(), "restored")
		_, err = pawl.Restore(t.Context(), restored, pawl.RestoreOptions{Log: place.log, Bases: place.bases})
		require.NoError(t, err)
		repaired := filepath.Join(t.TempDir(), "repaired")
		report, err := rescue.Repair(t.Context(), dir, repaired, rescue.Options{})
		require.NoError(t, err)
		require.Zero(t, report.Damage, "%v", report.Findings)

		e = open(t, dir, pawl.Options{Executor: twice})
		require.NoError(t, e.Signal(t.Context(), "r1", workflow.Signal{Name: "go"}))
		require.NoError(t, e.Close(t.Context()))
		for _, path := range []string{backup, restored, repaired, dir} {
			report, err := rescue.Verify(t.Context(), path, rescue.Options{})
			require.NoError(t, err)
			require.Zero(t, report.Damage, "%v", report.Findings)
			l := &listener{}
			e := open(t, path, pawl.Options{Executor: twice, Maintenance: true, Feed: pawl.FeedOptions{To: l}})
			s, err := e.Stats(t.Context())
			require.NoError(t, err)
			require.Positive(t, s.Feed.Waiting)
			require.Zero(t, l.countCalls(), "nothing goes on of itself")
			require.NoError(t, e.Close(t.Context()))
			e = open(t, path, pawl.Options{Executor: twice, Feed: pawl.FeedOptions{To: l}})
			drained(t, e)
			require.Equal(t, want["r0"], l.eventsOf(t, "r0"), path)
			require.Equal(t, want["r2"], l.eventsOf(t, "r2"), path)
			got := l.eventsOf(t, "r1")
			require.Equal(t, want["r1"], got[:len(want["r1"])], "those of the run that was purged come first")
			require.EqualValues(t, 1, got[len(want["r1"])].Seq, "then those of the run that has its id now")
		}
	})
}

// The log of an engine without a feed says that events wait and nobody publishes them. One for maintenance, as the command pawl opens it,
// publishes nothing anyway, and says nothing.
func TestEventsThatNobodyPublishes(t *testing.T) {
	dir, l := filepath.Join(t.TempDir(), "data"), &listener{fail: away}
	synctest.Test(t, func(t *testing.T) {
		e := open(t, dir, pawl.Options{Executor: twice, Feed: pawl.FeedOptions{To: l}})
		runFed(t, e, "r", 1)
		require.NoError(t, e.Close(t.Context()))
		for maintenance, want := range map[bool]int{false: 1, true: 0} {
			var log strings.Builder
			e = open(t, dir, pawl.Options{Executor: twice, Maintenance: maintenance, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			require.NoError(t, e.Close(t.Context()))
			require.Equal(t, want, strings.Count(log.String(), "nobody publishes them"), "maintenance %v: %s", maintenance, &log)
		}
	})
}

// A fork tells what happens in it, and not what it has from its original.
func TestFeedOfForks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &listener{}
		e := open(t, t.TempDir(), pawl.Options{Executor: twice, Feed: pawl.FeedOptions{To: l}})
		runFed(t, e, "r", 1)
		require.NoError(t, e.Fork(t.Context(), "r0", "fork", pawl.ForkOptions{At: 3}))
		_, err := e.Wait(t.Context(), "fork")
		require.NoError(t, err)
		drained(t, e)
		all := listEvents(t, e.Events(t.Context(), "fork", pawl.EventsOptions{}))
		got := l.eventsOf(t, "fork")
		require.Equal(t, workflow.EventWorkflowForked, got[0].Type)
		require.Equal(t, all[len(all)-len(got):], got)
		require.EqualValues(t, 3, all[len(all)-len(got)-1].Record)
	})
}

// With a codec no file has the text of an event, and without its key nothing is published.
func TestFeedIsSealed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, l := t.TempDir(), &listener{fail: away}
		fails := pawl.Handlers{"t": func(context.Context, pawl.Task) (any, error) {
			return nil, &pawl.TaskError{Code: "no", Message: secret("message")}
		}}
		e := open(t, dir, pawl.Options{Executor: fails, Codec: testCodec(t, "k1"), Feed: pawl.FeedOptions{To: l}})
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "r", Definition: define(t, fedSteps)}, nil))
		_, err := e.Wait(t.Context(), "r")
		require.NoError(t, err)
		want := listEvents(t, e.Events(t.Context(), "r", pawl.EventsOptions{}))
		require.Contains(t, fmt.Sprint(want), classified)
		require.NoError(t, e.Close(t.Context()))
		for _, name := range []string{"pawl.db", "pawl.db-wal"} {
			data, err := os.ReadFile(filepath.Join(dir, name))
			if !errors.Is(err, fs.ErrNotExist) {
				require.NoError(t, err)
				require.NotContains(t, string(data), classified)
			}
		}
		repaired := filepath.Join(t.TempDir(), "repaired")
		_, err = rescue.Repair(t.Context(), dir, filepath.Join(t.TempDir(), "no"), rescue.Options{})
		require.ErrorIs(t, err, pawl.ErrSealed)
		_, err = rescue.Repair(t.Context(), dir, repaired, rescue.Options{Codec: testCodec(t, "k2", "k1")})
		require.NoError(t, err)
		l.setFail(nil)
		e = open(t, repaired, pawl.Options{Executor: fails, Codec: testCodec(t, "k2"), Feed: pawl.FeedOptions{To: l}})
		drained(t, e)
		require.Equal(t, want, l.eventsOf(t, "r"))
	})
}

// Damage of a row is found by Verify and named by Repair, which keeps the other rows.
func TestFeedWithADamagedRow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, l := filepath.Join(t.TempDir(), "data"), &listener{fail: away}
		e := open(t, dir, pawl.Options{Executor: twice, Feed: pawl.FeedOptions{To: l}})
		runFed(t, e, "r", 3)
		want := listEvents(t, e.Events(t.Context(), "r1", pawl.EventsOptions{}))
		require.NoError(t, e.Close(t.Context()))
		c, err := sqlite.Open(filepath.Join(dir, "pawl.db"), ``)
		require.NoError(t, err)
		n, err := c.Exec(`UPDATE outbox SET events = replace(events, 'task', 'tusk') WHERE id = (SELECT min(id) FROM outbox WHERE run = 'r0')`)
		require.NoError(t, err)
		require.EqualValues(t, 1, n)
		require.NoError(t, c.Close())
		report, err := rescue.Verify(t.Context(), dir, rescue.Options{})
		require.NoError(t, err)
		require.Contains(t, fmt.Sprint(report.Findings), "a row of its table outbox has changed")
		repaired := filepath.Join(t.TempDir(), "repaired")
		report, err = rescue.Repair(t.Context(), dir, repaired, rescue.Options{})
		require.NoError(t, err)
		require.Contains(t, fmt.Sprint(report.Findings), "read them again")
		l.setFail(nil)
		e = open(t, repaired, pawl.Options{Executor: twice, Feed: pawl.FeedOptions{To: l}})
		drained(t, e)
		require.Equal(t, want, l.eventsOf(t, "r1"))
		require.NotEmpty(t, l.eventsOf(t, "r0"), "what is left of it")
	})
}

func TestFeedOptions(t *testing.T) {
	_, err := pawl.Open(t.Context(), t.TempDir(), pawl.Options{Feed: pawl.FeedOptions{MaxBytes: -1}})
	require.ErrorIs(t, err, pawl.ErrInvalid)
}

// A run that stands still because the outbox is full has not stalled: neither while it waits, nor when
// there is room again and its next task is at work. A run that waits for a task that never answers
// fails when there is room.
func TestStallsWhileTheFeedIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &listener{fail: away}
		slow := pawl.Handlers{
			"slow": func(context.Context, pawl.Task) (any, error) { <-time.After(40 * time.Second); return nil, nil },
			"lost": func(context.Context, pawl.Task) (any, error) { return nil, pawl.ErrPending },
		}
		e := open(t, t.TempDir(), pawl.Options{Executor: slow, StallAfter: time.Minute, Feed: pawl.FeedOptions{To: l, MaxBytes: 4000}})
		start := func(id, task string) {
			d := define(t, "name: w\nstart: a\nnodes: [{id: a, task: "+task+"}, {id: b, task: "+task+"}]\ntransitions: [{from: a, to: b}]\n")
			require.NoError(t, e.Start(t.Context(), workflow.Run{ID: workflow.RunID(id), Definition: d}, nil))
		}
		start("lost", "lost")
		n := 0
		for ; ; n++ {
			s, err := e.Stats(t.Context())
			require.NoError(t, err)
			if s.Feed.Full {
				break
			}
			start(fmt.Sprint("r", n), "slow")
			synctest.Wait()
		}
		require.Greater(t, n, 2)
		<-time.After(10 * time.Minute)
		for id := range e.Runs(t.Context(), pawl.RunFilter{}) {
			require.Equal(t, workflow.RunRunning, id.Status, "nothing is committed: %s", id.Run)
		}
		l.setFail(nil)
		for i := range n {
			out, err := e.Wait(t.Context(), workflow.RunID(fmt.Sprint("r", i)))
			require.NoError(t, err)
			require.NoError(t, out.Err())
		}
		out, err := e.Wait(t.Context(), "lost")
		require.NoError(t, err)
		require.Equal(t, workflow.CodeStalled, out.Failure.Code)
	})
}

// The runs of TestMaintenance wait for time, a task, an operator, a signal and a child.
var maintained = map[workflow.RunID]string{
	"timer":    "name: timer\nstart: nap\nnodes: [{id: nap, wait: {for: 1h}}, {id: b, task: hold}]\ntransitions: [{from: nap, to: b}]\n",
	"task":     "name: task\nstart: a\nnodes: [{id: a, task: hold}]\n",
	"parked":   "name: parked\nstart: a\nnodes: [{id: a, task: fail, retry: {maxAttempts: 1, exhausted: park}}]\n",
	"signal":   "name: signal\nstart: w\nnodes: [{id: w, wait: {event: go}, timeout: 1h}, {id: b, task: after}]\ntransitions: [{from: w, to: b}]\n",
	"parent":   "name: family\nstart: s\nnodes: [{id: s, subworkflow: {name: child}}]\n",
	"finished": "name: finished\nstart: a\nnodes: [{id: a}]\n",
}

func startMaintained(t *testing.T, dir string) {
	e, err := pawl.Open(t.Context(), dir, pawl.Options{Executor: pawl.Handlers{
		"hold": hold, "keep": hold,
		"fail": func(context.Context, pawl.Task) (any, error) {
			return nil, pawl.TaskError{Code: "no", Message: "not yet"}
		},
	}})
	require.NoError(t, err)
	publish(t, e, define(t, "name: child\nstart: c\nnodes: [{id: c, task: keep}]\n"))
	for id, text := range maintained {
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: id, Definition: define(t, text)}, nil))
	}
	synctest.Wait()
	require.NoError(t, e.Close(context.Background()))
}

func inspectAll(t *testing.T, e *pawl.Engine) map[workflow.RunID]pawl.Snapshot {
	out := map[workflow.RunID]pawl.Snapshot{}
	for r, err := range e.Runs(t.Context(), pawl.RunFilter{}) {
		require.NoError(t, err)
		out[r.Run] = mustInspect(t, e, r.Run)
	}
	return out
}

// With Options.Maintenance no time, task or child changes a run, whatever is done to others. An act is
// committed, and its consequences happen at the next Open, with all that waited.
func TestMaintenance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		startMaintained(t, dir)
		<-time.After(2 * time.Hour)

		var performed []string
		note := func(_ context.Context, task pawl.Task) (any, error) {
			performed = append(performed, string(task.Run))
			return "done", nil
		}
		e, err := pawl.Open(t.Context(), dir, pawl.Options{Maintenance: true, StallAfter: time.Minute, Executor: pawl.Handlers{"*": note}})
		require.NoError(t, err)
		before := inspectAll(t, e)
		require.Len(t, before, len(maintained)+1, "with the child")
		<-time.After(2 * time.Hour)
		require.Equal(t, before, inspectAll(t, e))

		require.NoError(t, e.Pause(t.Context(), "timer")) // its actor is up, and its time over
		require.NoError(t, e.Resume(t.Context(), "timer"))
		require.NoError(t, e.Signal(t.Context(), "signal", workflow.Signal{Name: "go"})) // which has timed out, and nobody has said so
		require.NoError(t, e.Retry(t.Context(), pawl.Target{Run: "parked", Node: "a"}, pawl.RetryOptions{}))
		require.NoError(t, e.Cancel(t.Context(), "parent", "enough"))
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "new", Definition: define(t, maintained["task"])}, nil))
		<-time.After(2 * time.Hour)
		after := inspectAll(t, e)
		require.Equal(t, before["task"], after["task"])
		require.Equal(t, before["timer"].Tokens, after["timer"].Tokens)
		child := onlyChild(t, after)
		require.Equal(t, before[child], after[child])
		require.Empty(t, performed)

		_, err = e.Wait(t.Context(), "task")
		require.ErrorIs(t, err, pawl.ErrMaintenance)
		_, err = e.Run(t.Context(), workflow.Run{ID: "never", Definition: define(t, maintained["task"])}, nil)
		require.ErrorIs(t, err, pawl.ErrMaintenance)
		_, err = e.Summary(t.Context(), "never")
		require.ErrorIs(t, err, pawl.ErrRunNotFound)
		require.Equal(t, workflow.RunCompleted, outcomeOf(t, e, "finished").Status)
		require.NoError(t, e.Purge(t.Context(), "finished"))
		require.NoError(t, e.Close(context.Background()))

		expectAfterMaintenance(t, dir, child)
	})
}

func onlyChild(t *testing.T, all map[workflow.RunID]pawl.Snapshot) workflow.RunID {
	for id, s := range all {
		if s.Workflow == "child" {
			return id
		}
	}
	t.Fatal("there is no child")
	return ""
}

// expectAfterMaintenance opens the directory to go on, and expects that nothing was lost.
func expectAfterMaintenance(t *testing.T, dir string, child workflow.RunID) {
	attempts := make(chan string, 100)
	e := open(t, dir, pawl.Options{Executor: pawl.Handlers{"keep": hold, "*": func(_ context.Context, task pawl.Task) (any, error) {
		attempts <- string(task.Run)
		return "done", nil
	}}})
	for _, id := range []workflow.RunID{"timer", "task", "signal", "parked", "new"} {
		require.Equal(t, workflow.RunCompleted, outcomeOf(t, e, id).Status, id)
	}
	require.Equal(t, workflow.RunCancelled, outcomeOf(t, e, "parent").Status)
	require.Equal(t, workflow.RunCancelled, outcomeOf(t, e, child).Status)
	close(attempts)
	count := map[string]int{}
	for run := range attempts {
		count[run]++
	}
	for _, id := range []string{"timer", "task", "signal", "parked", "new"} {
		require.Equal(t, 1, count[id], id)
	}
	_, err := e.Summary(t.Context(), "finished")
	require.ErrorIs(t, err, pawl.ErrRunNotFound)
}
