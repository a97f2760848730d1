package outbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/workflow"
)

// A broker takes events, each in its time, except those of runs that are refused.
type broker struct {
	mu     sync.Mutex
	takes  time.Duration
	refuse func(run workflow.RunID) error // nil takes all
	hang   workflow.RunID                 // has calls that last until their contexts end
	calls  int
	got    map[workflow.RunID][]int64 // the numbers of events, in the order in which they came
	at     map[workflow.RunID]time.Time
}

func (b *broker) publish(ctx context.Context, row *store.OutboxRow, e *decision.Event) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls++
	if row.Run == b.hang {
		b.mu.Unlock()
		<-ctx.Done()
		b.mu.Lock()
		return context.Cause(ctx)
	}
	if b.refuse != nil {
		if err := b.refuse(row.Run); err != nil {
			return err
		}
	}
	if b.takes > 0 {
		b.mu.Unlock()
		<-time.After(b.takes)
		b.mu.Lock()
	}
	b.got[row.Run] = append(b.got[row.Run], e.Seq)
	b.at[row.Run] = time.Now()
	return nil
}

func (b *broker) setRefuse(f func(run workflow.RunID) error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refuse = f
}

// countCalls returns how many calls there were since it was called last.
func (b *broker) countCalls() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := b.calls
	b.calls = 0
	return n
}

// requireInOrder expects the events of a run from the first on, each once.
func (b *broker) requireInOrder(t *testing.T, run workflow.RunID, n int) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	require.Len(t, b.got[run], n, run)
	for i, seq := range b.got[run] {
		require.EqualValues(t, i+1, seq, run)
	}
}

func refuseBad(run workflow.RunID) error {
	if strings.HasPrefix(string(run), "bad") {
		return errors.New("refused for ever")
	}
	return nil
}

func refuseAll(workflow.RunID) error { return errors.New("away") }

// A fed directory is one with a feeder. It notes whether that has kept events of rows that it drops, and how many runs it held
// at its last attempt.
type fed struct {
	*Feeder
	large  atomic.Bool
	held   atomic.Int64
	dir    *store.Dir
	broker *broker
	seq    map[workflow.RunID]int64
}

// put puts rows into the outbox, each with one event of a run.
func (f *fed) put(t *testing.T, run workflow.RunID, rows int) {
	t.Helper()
	f.putAll(t, func(yield func(workflow.RunID)) {
		for range rows {
			yield(run)
		}
	})
}

func (f *fed) putAll(t *testing.T, each func(yield func(workflow.RunID))) {
	t.Helper()
	var all []store.OutboxRow
	each(func(run workflow.RunID) {
		f.seq[run]++
		all = append(all, store.OutboxRow{
			Run: run, Workflow: "w", Version: 1, At: time.Now(),
			Events: []decision.Event{{Seq: f.seq[run], Record: f.seq[run], At: time.Now(), Type: workflow.EventTaskCompleted, Data: map[string]any{"x": "y"}}},
		})
	})
	require.NoError(t, f.dir.KeepOutboxRows(all))
}

// countWaiting returns how many events are in the outbox.
func (f *fed) countWaiting() int {
	n, _ := f.dir.OutboxSize()
	return int(n)
}

// A dropping directory looks at the rows that its feeder drops.
type dropping struct {
	*store.Dir
	fed *fed
}

func (d dropping) DropOutbox(rows []store.OutboxRow) error {
	if slices.ContainsFunc(rows, func(r store.OutboxRow) bool { return r.Events != nil }) {
		d.fed.large.Store(true)
	}
	return d.Dir.DropOutbox(rows)
}

// testFed calls do with a directory whose feeder has not begun, in virtual time.
func testFed(t *testing.T, do func(t *testing.T, f *fed)) {
	synctest.Test(t, func(t *testing.T) {
		dir, err := store.Open(t.TempDir(), store.Options{Outbox: 1 << 30})
		require.NoError(t, err)
		b := &broker{got: map[workflow.RunID][]int64{}, at: map[workflow.RunID]time.Time{}}
		f := &fed{dir: dir, broker: b, seq: map[workflow.RunID]int64{}}
		f.Feeder = New(Options{Dir: dropping{dir, f}, MaxBytes: 1 << 30, Lanes: 16, Logger: slog.New(slog.DiscardHandler), Publish: func(ctx context.Context, row *store.OutboxRow, e *decision.Event) error {
			f.held.Store(int64(len(f.Feeder.held)))
			return b.publish(ctx, row, e)
		}})
		defer func() {
			f.Stop(context.Background())
			require.NoError(t, dir.Close())
		}()
		do(t, f)
	})
}

// Runs that are refused for ever hold up no other, though they come first and each has more than is read at once.
// They are tried again after pauses, and lose nothing.
func TestRefusedRunsStopNobody(t *testing.T) {
	testFed(t, func(t *testing.T, f *fed) {
		const bad, rows = 3*feedProbes + 1, 70
		for i := range bad {
			f.put(t, workflow.RunID(fmt.Sprint("bad", i)), rows)
		}
		f.put(t, "good", rows)
		f.broker.refuse = refuseBad
		f.Start()
		<-time.After(time.Minute)
		f.broker.requireInOrder(t, "good", rows)
		f.broker.countCalls()
		for i := range 20 {
			<-time.After(17 * time.Second) // at any time of a pause
			run := workflow.RunID(fmt.Sprint("good", i))
			f.put(t, run, 3)
			<-time.After(100 * time.Millisecond)
			f.broker.requireInOrder(t, run, 3)
			require.NotZero(t, f.Stats().Failing)
		}
		calls := f.broker.countCalls()
		require.Greater(t, calls, bad)
		require.Less(t, calls, 1000, "it backs off")
		<-time.After(feedKeep)
		require.Equal(t, bad*rows, f.countWaiting())
		f.broker.setRefuse(nil)
		<-time.After(time.Minute)
		for i := range bad {
			f.broker.requireInOrder(t, workflow.RunID(fmt.Sprint("bad", i)), rows)
		}
		require.Zero(t, f.countWaiting())
		require.Zero(t, f.Stats().Failing)
	})
}

// A run that shares a page with many that are refused gets its turn among the next pages.
func TestRefusedRunsOfAPageStopNobody(t *testing.T) {
	testFed(t, func(t *testing.T, f *fed) {
		f.putAll(t, func(yield func(workflow.RunID)) {
			for i := range 63 {
				yield(workflow.RunID(fmt.Sprint("bad", i)))
			}
			yield("good")
		})
		f.broker.refuse = refuseBad
		f.Start()
		<-time.After(5 * time.Second)
		f.broker.requireInOrder(t, "good", 1)
	})
}

// While nobody answers the feeder makes few attempts, with few runs and with more than it holds. When the
// broker is back all comes in its order, soon.
func TestABrokerThatIsAway(t *testing.T) {
	for _, runs := range []int{5, 100, feedHeld + 300} {
		t.Run(fmt.Sprint(runs), func(t *testing.T) {
			testFed(t, func(t *testing.T, f *fed) {
				f.broker.refuse = refuseAll
				rows := 1 + 1000/runs
				for range rows {
					f.putAll(t, func(yield func(workflow.RunID)) {
						for i := range runs {
							yield(workflow.RunID(fmt.Sprint("r", i)))
						}
					})
				}
				f.Start()
				<-time.After(15 * time.Minute)
				require.LessOrEqual(t, f.held.Load(), int64(min(runs, feedHeld+rowsOfAPage)))
				f.broker.countCalls()
				for range 10 {
					<-time.After(time.Minute)
					f.put(t, "more", 1) // which is no reason to try
				}
				calls := f.broker.countCalls()
				t.Logf("%d attempts in ten minutes", calls)
				require.Less(t, calls, 2*21*feedProbes*16)
				require.NotZero(t, f.Stats().Failing)
				f.broker.setRefuse(nil)
				<-time.After(40 * time.Second)
				require.Zero(t, f.countWaiting())
				for i := range runs {
					f.broker.requireInOrder(t, workflow.RunID(fmt.Sprint("r", i)), rows)
				}
				require.Zero(t, f.Stats().Failing)
			})
		})
	}
}

// rowsOfAPage are read at once.
const rowsOfAPage = 64

// While there is always more to publish, a run that was refused is tried again all the same.
func TestABusyFeedTriesAgain(t *testing.T) {
	testFed(t, func(t *testing.T, f *fed) {
		refused := 0
		f.broker.takes = 20 * time.Millisecond
		f.broker.refuse = func(run workflow.RunID) error {
			if refused++; run == "bad" && refused == 1 {
				return errors.New("not yet")
			}
			return nil
		}
		f.put(t, "bad", 2)
		f.put(t, "good", 1000)
		f.Start()
		<-time.After(15 * time.Second)
		f.broker.requireInOrder(t, "bad", 2)
		require.Positive(t, f.countWaiting())
	})
}

// After an outage all runs that were held are published while there is always more to publish, also those that came to be held
// while others were tried again. Then nothing is said to fail any more.
func TestABusyFeedReleasesAllRuns(t *testing.T) {
	testFed(t, func(t *testing.T, f *fed) {
		const runs = 3 * feedProbes * rowsOfAPage
		f.broker.refuse = refuseAll
		f.putAll(t, func(yield func(workflow.RunID)) {
			for i := range runs {
				yield(workflow.RunID(fmt.Sprint("r", i)))
			}
		})
		f.Start()
		<-time.After(5 * time.Second)
		f.put(t, "good", 5000)
		f.broker.mu.Lock()
		f.broker.takes, f.broker.refuse = 20*time.Millisecond, nil
		f.broker.mu.Unlock()
		require.NotZero(t, f.Stats().Failing)
		<-time.After(90 * time.Second)
		for i := range runs {
			f.broker.requireInOrder(t, workflow.RunID(fmt.Sprint("r", i)), 1)
		}
		require.Greater(t, f.countWaiting(), rowsOfAPage, "it is busy")
		require.Zero(t, f.Stats().Failing)
	})
}

// Published events are in the outbox for half a second, and then dropped: while one walk goes on for long, and while a message
// is not answered. So a kill repeats no more. Rows that wait to be dropped take no memory for their events.
func TestPublishedEventsAreDropped(t *testing.T) {
	testFed(t, func(t *testing.T, f *fed) {
		const takes = 20 * time.Millisecond
		f.broker.takes = takes
		f.put(t, "r", 1000)
		f.Start()
		for f.countWaiting() > 0 {
			<-time.After(takes)
			synctest.Wait()
			published := int(f.Stats().Published) - (1000 - f.countWaiting())
			require.LessOrEqual(t, published, int(feedKeep/takes)+1)
		}
		f.broker.requireInOrder(t, "r", 1000)
		require.False(t, f.large.Load())

		f.broker.takes, f.broker.hang = 0, "hangs"
		f.putAll(t, func(yield func(workflow.RunID)) {
			yield("hangs")
			for range 10 {
				yield("quick")
			}
		})
		<-time.After(feedKeep + feedLinger + time.Millisecond)
		synctest.Wait()
		f.broker.requireInOrder(t, "quick", 10)
		require.Equal(t, 1, f.countWaiting())
	})
}
