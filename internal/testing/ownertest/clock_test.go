package ownertest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/acts"
	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/internal/testing/harness/witness"
	"github.com/pawl-run/pawl/timeout"
	"github.com/pawl-run/pawl/workflow"
)

// timed are definitions whose ends depend on timers and on nothing else: what a
// lost, a repeated or an early one would change.
var timed = []string{
	`name: chain
start: a
nodes: [{id: a, wait: {for: 3s}}, {id: b, task: t}, {id: c, wait: {for: 2h}}, {id: d, task: t}, {id: e, wait: {for: 40ms}}]
transitions: [{from: a, to: b}, {from: b, to: c}, {from: c, to: d}, {from: d, to: e}]`,
	`name: retry
start: a
nodes: [{id: a, task: fails, retry: {maxAttempts: 4, initialInterval: 7s, backoffCoefficient: 9}}]`,
	`name: limit
start: a
nodes: [{id: a, task: never, timeout: 90s, retry: {maxAttempts: 3, initialInterval: 1s}}]`,
	`name: join
start: split
nodes: [{id: split}, {id: w, wait: {for: 24h}}, {id: j, task: t}]
transitions: [{from: split, to: w, spawnCount: 3, siblingGroup: g}, {from: w, to: j, synchronization: {siblingGroup: g, strategy: {mOfN: 2}}}]`,
	`name: event
start: a
nodes: [{id: a, wait: {event: e}, timeout: 5m, retry: {maxAttempts: 2, initialInterval: 30s}}]`,
	`name: whole
timeout: 3h
start: a
nodes: [{id: a, task: never}]`,
}

// A hands is a wall clock beside the monotonic one: it jumps, runs fast or slow,
// and tells the time in some zone.
type hands struct {
	mu     sync.Mutex
	set    time.Time // by the monotonic clock
	at     time.Time // what it said then
	ppm    int64     // how much too fast it runs
	zone   *time.Location
	after  int           // readings before it jumps by itself; 0: it does not
	by     time.Duration // then
	latest time.Time     // reading since the last step
	jumps  int
	inside int // jumps between two readings of one piece of code
}

func (h *hands) now() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.after > 0 {
		if h.after--; h.after == 0 {
			h.move(h.read().Add(h.by))
			h.inside++
		}
	}
	now := h.read()
	if now.After(h.latest) {
		h.latest = now
	}
	return now.In(h.zone)
}

func (h *hands) read() time.Time {
	passed := time.Since(h.set)
	return h.at.Add(passed + time.Duration(float64(passed)*float64(h.ppm)/1e6)).Round(0)
}

// move has the clock say at from now on.
func (h *hands) move(at time.Time) {
	h.at, h.set = at, time.Now()
	h.jumps++
}

// step begins a step and returns the latest reading of the one before.
func (h *hands) step() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	was := h.latest
	h.latest = h.read()
	return was
}

// zones are those in which clocks are set twice a year, by an hour or half one.
var zones = []string{"UTC", "Europe/Berlin", "Australia/Lord_Howe", "America/St_Johns"}

// jump sets the clock as drawn.
func (h *hands) jump(r *rand.Rand) (kind string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now, year := h.read(), 365*24*time.Hour
	far := func(y int) time.Time {
		return time.Date(y, time.Month(1+r.IntN(12)), 1+r.IntN(28), r.IntN(24), r.IntN(60), 0, r.IntN(1e9), time.UTC)
	}
	switch r.IntN(11) {
	case 0:
		kind, now = "+1h", now.Add(time.Hour)
	case 1:
		kind, now = "-1h", now.Add(-time.Hour)
	case 2:
		kind, now = "+10y", now.Add(10*year)
	case 3:
		kind, now = "-10y", now.Add(-10*year)
	case 4:
		kind, now = "1970", time.Unix(r.Int64N(100)-50, r.Int64N(1e9))
	case 5:
		kind, now = "2262", time.Date(2262, 4, 11, 23, 47, 10+r.IntN(12), r.IntN(1e9), time.UTC)
	case 6:
		kind, now = "beyond 2262", far(2263+r.IntN(5000))
	case 7:
		kind, now = "DST", time.Date(2026, 3, 29, 0, 59, 58, 0, time.UTC)
		h.zone = location(zones[r.IntN(len(zones))])
	case 8:
		kind, h.ppm = "slew", r.Int64N(200_001)-100_000
	case 9:
		kind, now = "step", now.Add(time.Duration(r.Int64N(4e9)-2e9))
	case 10:
		kind, now = "true", time.Now()
		h.ppm = 0
	}
	h.move(now)
	if h.after = r.IntN(3) * r.IntN(40); h.after > 0 { // and once more, where code reads it twice
		h.by = time.Duration(r.Int64N(int64(20*year)) - int64(10*year))
	}
	return kind
}

func location(name string) *time.Location {
	l, err := time.LoadLocation(name)
	if err != nil {
		return time.UTC
	}
	return l
}

// A timeline is one engine directory under a clock that jumps, and what is known
// of the runs in it.
type timeline struct {
	t       *testing.T
	r       *rand.Rand
	hook    testhook.Hook
	hands   *hands
	dir     string
	engine  *pawl.Engine
	options pawl.Options
	runs    []*timedRun
	jumps   map[string]int
	alarms  int // that fired
	opens   int

	mu       sync.Mutex
	executed map[pawl.Key]int // in this life
}

func (l *timeline) execute(ctx context.Context, task pawl.Task) (any, error) {
	l.mu.Lock()
	l.executed[task.Key]++
	l.mu.Unlock()
	switch task.Type {
	case "fails":
		return nil, errors.New("busy")
	case "never":
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return nil, nil
}

func (l *timeline) open() {
	l.executed = map[pawl.Key]int{}
	e, err := pawl.Open(testhook.With(l.t.Context(), &l.hook), l.dir, l.options)
	require.NoError(l.t, err)
	l.engine = e
	l.opens++
}

func (l *timeline) close() { require.NoError(l.t, l.engine.Close(context.Background())) }

// reopen ends this life, with Close or as a crash does, and begins another.
func (l *timeline) reopen(jump func()) {
	if l.r.IntN(2) == 0 {
		l.close()
	} else {
		l.crash()
	}
	jump()
	l.open()
}

// crash leaves of an engine what its files hold.
func (l *timeline) crash() {
	l.hook.Fence()
	synctest.Wait()
	next := filepath.Join(harness.Workspace(l.t), "engine")
	require.NoError(l.t, os.CopyFS(next, os.DirFS(l.dir)))
	l.close()
	require.NoError(l.t, os.RemoveAll(l.dir))
	l.dir = next
}

// pass lets d pass, and checks what has happened since it was called last.
func (l *timeline) pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
	latest := l.hands.step()
	seqs := map[workflow.RunID]int64{}
	for sum, err := range l.engine.Runs(l.t.Context(), pawl.RunFilter{}) {
		require.NoError(l.t, err)
		seqs[sum.Run] = sum.Seq
	}
	for _, run := range l.runs {
		if seqs[run.id] == run.seq {
			l.notLate(run)
			continue
		}
		for record, err := range acts.Records(l.engine.Journal(l.t.Context(), run.id, pawl.EventsOptions{})) {
			require.NoError(l.t, err)
			if record.Seq > run.seq {
				l.follow(run, record, latest)
			}
		}
		l.notLate(run)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, n := range l.executed {
		require.Equal(l.t, 1, n, "%s was executed again", key)
	}
}

// follow applies a record to what is known of its run. No alarm fires before the
// clock has said so.
func (l *timeline) follow(run *timedRun, record decision.Record, latest time.Time) {
	require.Equal(l.t, run.seq+1, record.Seq)
	run.seq = record.Seq
	if _, ok := record.Message.(state.AlarmFired); ok {
		l.alarms++
		due := run.state.Alarm()
		require.False(l.t, due.IsZero(), "%s: an alarm that nobody has set", run.id)
		require.False(l.t, due.After(latest), "%s: due at %v, the clock said at most %v", run.id, due, latest)
	}
	for _, d := range record.Decisions {
		for _, e := range decision.Apply(run.state, d, &record) {
			run.events[e.Type]++
		}
	}
}

// nap is how long an actor, or the engine, may sleep before it reads the clock
// again.
const nap = time.Minute

// notLate checks that what was due a nap ago has happened, if the clock did not
// jump since.
func (l *timeline) notLate(run *timedRun) {
	l.hands.mu.Lock()
	defer l.hands.mu.Unlock()
	due := run.state.Alarm()
	if due.IsZero() || time.Since(l.hands.set) <= nap {
		return
	}
	then := l.hands.read().Add(-nap * 12 / 10) // as slow and fast as it may run
	require.True(l.t, due.After(then), "%s: due at %v, it is %v after %v", run.id, due, l.hands.read(), time.Since(l.hands.set))
}

// play starts the runs, lets the clock jump n times, and then sets it to when
// something is due until all have ended.
func (l *timeline) play(n int) {
	l.open()
	for i, text := range timed {
		g, err := compiled.Compile(workflow.Bounds{}, witness.MustParse(text))
		require.NoError(l.t, err)
		id := workflow.RunID(fmt.Sprint(g.Definition.Name, "-", i))
		l.runs = append(l.runs, &timedRun{id: id, state: state.NewState(id, g), events: map[workflow.EventType]int{}})
		require.NoError(l.t, l.engine.Start(l.t.Context(), workflow.Run{ID: id, Definition: g.Definition}, nil))
	}
	for range n {
		jump := func() { l.jumps[l.hands.jump(l.r)]++ }
		if l.r.IntN(8) == 0 {
			l.reopen(jump)
		} else {
			jump()
		}
		l.pass(time.Duration(l.r.Int64N(int64(4 * time.Second))))
		if l.r.IntN(2) == 0 {
			l.pass(nap + time.Duration(l.r.Int64N(int64(2*nap))))
		}
	}
	l.pass(nap)
	for steps := 0; l.due(); steps++ {
		require.Less(l.t, steps, 100, "the runs do not end")
		l.pass(nap + time.Second)
	}
	l.close()
}

// due sets the clock to the first alarm of all, and reports whether there was one.
func (l *timeline) due() bool {
	var at []time.Time
	for _, run := range l.runs {
		at = append(at, run.state.Alarm())
	}
	next := timeout.Earliest(at...)
	if next.IsZero() {
		return false
	}
	l.hands.mu.Lock()
	defer l.hands.mu.Unlock()
	l.hands.after = 0
	if l.hands.read().Before(next) {
		l.hands.move(next)
	}
	return true
}

// A timedRun is a run as its journal says that it is.
type timedRun struct {
	id     workflow.RunID
	seq    int64
	state  *state.State
	events map[workflow.EventType]int
}

// TestClockJumps lets the wall clock jump while engines run, between two of its
// readings, and while they are down. No timer fires before the clock has said so,
// later than a nap after it, or twice; and every run comes to the same end, by the
// same events, as under a clock that does not jump.
func TestClockJumps(t *testing.T) {
	const perLife = 20
	want := oneTimeline(t, 0, 0)
	rounds := harness.Figure(60, 1000, 50_000) / perLife
	jumps, alarms, opens, inside := map[string]int{}, 0, 0, 0
	for i := range rounds {
		got := oneTimeline(t, *seed+uint64(i), perLife)
		for kind, n := range got.jumps {
			jumps[kind] += n
		}
		alarms, opens, inside = alarms+got.alarms, opens+got.opens, inside+got.hands.inside
		for k, run := range got.runs {
			require.Equal(t, want.runs[k].state.Status, run.state.Status, "seed %d, %s", *seed+uint64(i), run.id)
			require.Equal(t, want.runs[k].events, run.events, "seed %d, %s", *seed+uint64(i), run.id)
		}
		if t.Failed() {
			return
		}
	}
	require.Len(t, jumps, 11, "a kind of jump was never drawn")
	require.Positive(t, inside)
	t.Logf("%d jumps and %d between two readings, in %d engines with %d runs: %d alarms fired; violations: 0; %v",
		rounds*perLife, inside, opens, rounds*len(timed), alarms, jumps)
}

// oneTimeline plays runs under a clock that jumps n times.
func oneTimeline(t *testing.T, seed uint64, n int) *timeline {
	t.Helper()
	var l *timeline
	synctest.Test(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(seed, 13))
		idle := []time.Duration{0, 200 * time.Millisecond, time.Hour}[r.IntN(3)]
		l = &timeline{
			t: t, r: r, hands: &hands{set: time.Now(), at: time.Now().Round(0), zone: time.UTC}, dir: filepath.Join(harness.Workspace(t), "engine"),
			options: pawl.Options{IdleAfter: idle, Durability: pawl.ProcessCrash}, jumps: map[string]int{},
		}
		l.options.Executor = pawl.Handlers{"*": l.execute}
		l.hook.OnNow(l.hands.now)
		l.play(n)
	})
	return l
}
