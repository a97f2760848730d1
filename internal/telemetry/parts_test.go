package telemetry_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/inspector"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/internal/testing/metertest"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/store/logtest"
	"github.com/pawl-run/pawl/worker"
	"github.com/pawl-run/pawl/workflow"
)

const overdue = "pawl.alarm.overdue{}"

// An alarm that is due and cannot be committed is told while it is late, and not only when it has fired.
func TestAnAlarmThatHangsIsOverdue(t *testing.T) {
	for _, idle := range []time.Duration{time.Second, time.Hour} { // the run sleeps, or is awake
		synctest.Test(t, func(t *testing.T) {
			var p metertest.Provider
			log, o := heldOptions(t)
			o.IdleAfter = idle
			e := open(t, filepath.Join(t.TempDir(), "data"), &p, o)
			start(t, e, "r", define(t, "name: naps\nstart: a\nnodes: [{id: a, wait: {for: 1m}}]\n"))
			<-time.After(30 * time.Second)
			requireSome(t, map[string]float64{overdue: 0}, p.Collect(t.Context()))
			log.held <- struct{}{}
			<-time.After(2 * time.Minute)
			requireSome(t, map[string]float64{overdue: 90}, p.Collect(t.Context()))
			<-log.held
			synctest.Wait()
			requireSome(t, map[string]float64{overdue: 0}, p.Collect(t.Context()))
		})
	}
}

// A run that cannot be loaded leaves its alarm overdue until it is gone.
func TestAnAlarmOfARunThatCannotBeLoadedIsOverdue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p metertest.Provider
		dir := t.TempDir()
		e := open(t, dir, &p, pawl.Options{IdleAfter: time.Second, Logger: slog.New(slog.DiscardHandler)})
		start(t, e, "r", define(t, "name: naps\nstart: a\nnodes: [{id: a, wait: {for: 1m}}]\n"))
		<-time.After(30 * time.Second)
		files, err := filepath.Glob(filepath.Join(dir, "runs", "*", "*"))
		require.NoError(t, err)
		require.Len(t, files, 1)
		require.NoError(t, os.Remove(files[0]))
		<-time.After(3 * time.Minute)
		requireSome(t, map[string]float64{overdue: 150}, p.Collect(t.Context()))
	})
}

// The oldest event that waits has an age, in the life of the directory that has committed it and in the next one.
func TestAgeOfEventsThatWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		var away atomic.Bool
		away.Store(true)
		o := pawl.Options{Logger: slog.New(slog.DiscardHandler), Executor: pawl.Handlers{}, Feed: pawl.FeedOptions{To: pawl.FeedFunc(func(context.Context, pawl.FeedMessage) error {
			if away.Load() {
				return errors.New("the broker is away")
			}
			return nil
		})}}
		age := "pawl.feed.waiting.age{}"
		var first metertest.Provider
		o.MeterProvider = &first
		e, err := pawl.Open(t.Context(), dir, o)
		require.NoError(t, err)
		requireSome(t, map[string]float64{age: 0}, first.Collect(t.Context()))
		for i := range 3 {
			start(t, e, fmt.Sprint("r", i), define(t, one("work")))
			<-time.After(time.Minute)
		}
		requireSome(t, map[string]float64{age: 180}, first.Collect(t.Context()))
		require.NoError(t, e.Close(t.Context()))

		var second metertest.Provider
		e = open(t, dir, &second, o)
		<-time.After(time.Minute)
		require.InDelta(t, 240, second.Collect(t.Context())[age], 0.01)
		start(t, e, "r3", define(t, one("work")))
		away.Store(false)
		<-time.After(10 * time.Minute)
		requireSome(t, map[string]float64{age: 0, "pawl.feed.waiting{}": 0}, second.Collect(t.Context()))
	})
}

// room names the series of a bound.
func room(bound, more string) string {
	return "pawl.bound.room{pawl.bound=" + bound + more + "}"
}

// Bounds of types and of tenants tell their room, of all tenants that of the fullest unless tenants are labels.
func TestRoomOfTypesAndTenants(t *testing.T) {
	for _, tenants := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var p metertest.Provider
			work := make(chan struct{})
			t.Cleanup(sync.OnceFunc(func() { close(work) }))
			e := open(t, t.TempDir(), &p, pawl.Options{
				MeterTenants: tenants, Executor: pawl.Handlers{"*": func(context.Context, pawl.Task) (any, error) { <-work; return nil, nil }},
				Types:   map[string]pawl.TypeLimit{"bank": {Concurrency: 4}, "mail": {Rate: 1, Burst: 2}},
				Tenants: map[string]pawl.TenantLimit{"*": {Concurrency: 8, Active: 8, Bytes: 1 << 20}},
			})
			more := ""
			if tenants {
				more = ",pawl.tenant=acme"
			}
			bank, mail := room("type.tasks", ",pawl.task.type=bank"), room("type.rate", ",pawl.task.type=mail")
			requireSome(t, map[string]float64{bank: 1, mail: 1}, p.Collect(t.Context()))
			start(t, e, "r1", define(t, one("bank")))
			start(t, e, "r2", define(t, one("mail")))
			synctest.Wait()
			seen := p.Collect(t.Context())
			requireSome(t, map[string]float64{bank: 0.75, mail: 0.5, room("tenant.tasks", more): 0.75, room("tenant.runs", more): 0.75}, seen)
			require.Greater(t, seen[room("tenant.bytes", more)], 0.9)
			require.Less(t, seen[room("tenant.bytes", more)], 1.0)
			<-time.After(time.Minute)
			requireSome(t, map[string]float64{mail: 1}, p.Collect(t.Context()))
			for range 2 {
				work <- struct{}{}
			}
			<-time.After(time.Minute)
			seen = p.Collect(t.Context())
			requireSome(t, map[string]float64{bank: 1, room("tenant.tasks", more): 1, room("tenant.runs", more): 1}, seen)
			require.Less(t, seen[room("redo", "")], 1.0)
			require.Positive(t, seen[room("redo", "")])
		})
	}
}

// A mailbox that fills up tells its room until it is empty again.
func TestRoomOfMailboxes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p metertest.Provider
		log, o := heldOptions(t)
		e := open(t, filepath.Join(t.TempDir(), "data"), &p, o)
		start(t, e, "r", define(t, "name: waits\nstart: a\nnodes: [{id: a, wait: {event: go}}]\n"))
		requireSome(t, map[string]float64{room("mailbox", ""): 1}, p.Collect(t.Context()))
		log.held <- struct{}{}
		for i := range 200 {
			go func() {
				_ = e.Signal(t.Context(), "r", workflow.Signal{Name: "other", Early: true, ID: fmt.Sprint(i)})
			}()
		}
		synctest.Wait()
		requireSome(t, map[string]float64{room("mailbox", ""): 0}, p.Collect(t.Context()))
		<-log.held
		synctest.Wait()
		requireSome(t, map[string]float64{room("mailbox", ""): 1}, p.Collect(t.Context()))
	})
}

// Pools tell the seats of their workers, and the leases that ran out since the engine was opened; a pool that is attached twice
// counts once.
func TestSeatsAndLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool, err := worker.New(worker.Options{NoToken: true})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, pool.Close(context.Background())) })
		post := func(path, body string) {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1/v1/"+path, strings.NewReader(body))
			r.RemoteAddr = "127.0.0.1:1"
			w := httptest.NewRecorder()
			pool.Handler().ServeHTTP(w, r)
			require.Equal(t, http.StatusOK, w.Code, w.Body)
		}
		held, free, expired := "pawl.worker.seats{pawl.worker.seat.state=held}", "pawl.worker.seats{pawl.worker.seat.state=free}", "pawl.worker.leases.expired{}"
		dir := t.TempDir()
		for life := range 2 {
			var p metertest.Provider
			e, err := pawl.Open(t.Context(), dir, pawl.Options{MeterProvider: &p, Executor: pawl.Handlers{"*": pool.Execute}})
			require.NoError(t, err)
			require.NotContains(t, p.Collect(t.Context()), held)
			pool.Attach(e)
			pool.Attach(e)
			requireSome(t, map[string]float64{expired: 0}, p.Collect(t.Context()))
			post("register", `{"worker": "ann", "types": ["*"], "capacity": 3}`)
			if life == 0 {
				start(t, e, "r", define(t, one("work")))
			}
			synctest.Wait()
			post("poll", `{"worker": "ann", "wait": "1s"}`)
			requireSome(t, map[string]float64{held: 1, free: 2, expired: 0}, p.Collect(t.Context()))
			<-time.After(2 * time.Minute)
			requireSome(t, map[string]float64{held: 0, free: 3, expired: 1}, p.Collect(t.Context()))
			require.NoError(t, e.Close(t.Context()))
		}
	})
}

// Each live page that somebody watches counts.
func TestViewersOfPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p metertest.Provider
		viewers := "pawl.page.viewers{}"
		e := open(t, t.TempDir(), &p, pawl.Options{})
		require.NotContains(t, p.Collect(t.Context()), viewers)
		pages := inspector.Handler(e, inspector.Options{Identify: func(*http.Request) (string, api.Rights, error) { return "ann", api.View, nil }})
		ctx, leave := context.WithCancel(t.Context())
		for range 2 {
			go pages.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodGet, "/live/runs", http.NoBody))
		}
		synctest.Wait()
		requireSome(t, map[string]float64{viewers: 2}, p.Collect(t.Context()))
		leave()
		synctest.Wait()
		requireSome(t, map[string]float64{viewers: 0}, p.Collect(t.Context()))
	})
}

// Only figures that are there can be observed, with or without metrics.
func TestOnlyKnownFiguresAreObserved(t *testing.T) {
	for _, o := range []pawl.Options{{}, {MeterProvider: &metertest.Provider{}}} {
		e, err := pawl.Open(t.Context(), t.TempDir(), o)
		require.NoError(t, err)
		zero := func() int64 { return 0 }
		require.ErrorIs(t, e.ObserveFigure("viewer", zero), pawl.ErrInvalid)
		require.ErrorIs(t, e.ObserveFigure("viewers", nil), pawl.ErrInvalid)
		for range 1000 {
			require.NoError(t, e.ObserveFigure("viewers", zero))
		}
		if err := e.ObserveFigure("viewers", zero); o.MeterProvider != nil {
			require.ErrorIs(t, err, pawl.ErrBusy)
		}
		require.NoError(t, e.Close(t.Context()))
		require.ErrorIs(t, e.ObserveFigure("viewers", zero), pawl.ErrClosed)
	}
}

// The sizes that metrics tell are those of the files, however they came there, and in the next life as well.
func TestSizesAreThoseOfTheFiles(t *testing.T) {
	harness.InTurn(t, 4)
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		sizeOf := func(pattern string) (bytes float64) {
			files, err := filepath.Glob(filepath.Join(dir, filepath.FromSlash(pattern)))
			require.NoError(t, err)
			for _, name := range files {
				info, err := os.Stat(name)
				require.NoError(t, err)
				bytes += float64(info.Size())
			}
			return bytes
		}
		part := func(name string) string { return "pawl.store.size{pawl.store.part=" + name + "}" }
		o := pawl.Options{IdleAfter: time.Second, Executor: pawl.Handlers{"work": func(context.Context, pawl.Task) (any, error) { return "done", nil }}}
		for life := range 3 {
			var p metertest.Provider
			o.MeterProvider = &p
			e, err := pawl.Open(t.Context(), dir, o)
			require.NoError(t, err)
			for i := range 260 {
				start(t, e, fmt.Sprint(life, "-", i), define(t, one("work")))
			}
			ref, err := e.PutBlob(t.Context(), strings.NewReader(fmt.Sprint("content of life ", life)), "")
			require.NoError(t, err)
			_, err = e.PutBlob(t.Context(), strings.NewReader(fmt.Sprint("content of life ", life)), "")
			require.NoError(t, err)
			<-time.After(time.Minute)
			seen := p.Collect(t.Context())
			if life > 0 {
				require.NotContains(t, seen, part("blobs"))
				require.NoError(t, e.Purge(t.Context(), workflow.RunID(fmt.Sprint(life-1, "-1"))))
				require.NoError(t, e.Purge(t.Context(), workflow.RunID(fmt.Sprint(life, "-7"))))
			} else {
				require.InDelta(t, ref.Size, seen[part("blobs")], 0)
			}
			_, err = e.CollectBlobs(t.Context(), 24*time.Hour)
			require.NoError(t, err)
			<-time.After(time.Minute)
			seen = p.Collect(t.Context())
			require.Positive(t, sizeOf("runs/*/*"))
			require.InDelta(t, sizeOf("runs/*/*"), seen[part("runs")], 0)
			require.InDelta(t, sizeOf("blobs/??/*"), seen[part("blobs")], 0)
			require.GreaterOrEqual(t, seen[part("index")], sizeOf("pawl.db"))
			require.LessOrEqual(t, seen[part("index")], sizeOf("pawl.db*"))
			_, err = e.CollectBlobs(t.Context(), time.Minute)
			require.NoError(t, err)
			requireSome(t, map[string]float64{part("blobs"): 0}, p.Collect(t.Context()))
			require.NoError(t, e.Close(t.Context()))
		}
	})
}

// A copy that cannot be written to is behind until it can.
func TestACopyThatIsBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p metertest.Provider
		e := open(t, t.TempDir(), &p, pawl.Options{Executor: pawl.Handlers{}})
		behind := "pawl.copy.behind{}"
		require.NotContains(t, p.Collect(t.Context()), behind)
		bases, err := blob.OpenFiles(t.TempDir(), blob.Options{})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, bases.Close()) })
		log := &failingLog{Log: (&logtest.Memory{}).Writer(nil)}
		ctx, end := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- e.Follow(ctx, pawl.FollowOptions{Log: log, Bases: bases}) }()
		start(t, e, "r1", define(t, one("work")))
		<-time.After(time.Minute)
		requireSome(t, map[string]float64{behind: 0}, p.Collect(t.Context()))
		log.fails.Store(true)
		start(t, e, "r2", define(t, one("work")))
		<-time.After(10 * time.Minute)
		require.InDelta(t, 600, p.Collect(t.Context())[behind], 65)
		log.fails.Store(false)
		<-time.After(time.Minute)
		requireSome(t, map[string]float64{behind: 0}, p.Collect(t.Context()))
		end()
		<-ended
		require.NotContains(t, p.Collect(t.Context()), behind)
	})
}

// A failingLog is a log that fails while it is told to.
type failingLog struct {
	store.Log
	fails atomic.Bool
}

func (l *failingLog) Append(ctx context.Context, entry []byte) (store.Position, error) {
	if l.fails.Load() {
		return store.Position{}, errors.New("the log is away")
	}
	return l.Log.Append(ctx, entry)
}
