package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/pawl-run/pawl/internal/sqlite"
)

// sizes say how much the programs do.
type sizes struct {
	Bare        time.Duration // how long the bare loop runs
	Chain       int           // tasks of a chain
	ChainCount  int           // chains, one after the other
	Fanout      int           // branches
	LargeFanout int
	Runs        int // runs of 5 tasks
	Starts      int
	Sleepers    int           // waiting runs
	IdleAfter   time.Duration // of them
	Killed      int           // waiting runs of a process that is killed
	Ended       int           // ended runs of a directory
	EndedWait   int           // waiting runs beside them
	SideBySide  int           // chains at a time
	SideLength  int           // tasks of each
	Window      time.Duration // for which runs that have ended are kept
}

var (
	fullSizes = sizes{
		Bare: 500 * time.Millisecond, Chain: 1000, ChainCount: 5, Fanout: 10_000, LargeFanout: 100_000, Runs: 1000, Starts: 1000,
		Sleepers: 3000, IdleAfter: 4 * time.Second, Killed: 1000, Ended: 150_000, EndedWait: 1000, SideBySide: 64, SideLength: 200, Window: time.Minute,
	}
	quickSizes = sizes{
		Bare: 150 * time.Millisecond, Chain: 1000, ChainCount: 1, Fanout: 3000, LargeFanout: 12_000, Runs: 300, Starts: 200,
		Sleepers: 300, IdleAfter: time.Second, Killed: 300, Ended: 2000, EndedWait: 100, SideBySide: 64, SideLength: 30, Window: 2 * time.Second,
	}
)

// programs are what a process of the bench can be ordered to do.
var programs = map[string]func(context.Context, *sample) error{
	"bare":         measureBare,
	"syncs":        measureSyncs,
	"chain":        measureChain,
	"fanout":       measureFanout,
	"large-fanout": measureLargeFanout,
	"runs":         measureRuns,
	"starts":       measureStarts,
	"sleepers":     measureSleepers,
	"killed":       measureKilled,
	"killed-life":  liveUntilKilled,
	"side-by-side": measureSideBySide,
	"retention":    measureRetention,
	"ended-build":  buildEnded,
	"ended-life":   openUntilKilled,
	"ended":        measureEnded,
}

// measureBare inserts 300 bytes a commit.
func measureBare(_ context.Context, s *sample) error {
	path := filepath.Join(s.Dir, "bare.db")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		return err
	}
	synchronous := "NORMAL"
	if s.PowerLoss {
		synchronous = "FULL"
	}
	db, err := sqlite.Open(path, "PRAGMA locking_mode=EXCLUSIVE; PRAGMA journal_mode=WAL; PRAGMA synchronous="+synchronous+
		"; CREATE TABLE bare (key INTEGER PRIMARY KEY, value BLOB)")
	if err != nil {
		return err
	}
	commits := 0
	value := make([]byte, 300)
	took, err := s.measureSpan(func() error {
		for end := time.Now().Add(s.Sizes.Bare); time.Now().Before(end); commits++ {
			if _, err := db.Exec(`INSERT INTO bare (value) VALUES (?)`, value); err != nil {
				return err
			}
		}
		return nil
	})
	s.values["commits/s"] = float64(commits) / took.seconds()
	return errors.Join(err, db.Close())
}

// measureSyncs writes 500 bytes at a time into a file of zeros, each durable before the next: the limit of a program that
// waits for each commit before the next one. The bare loop does not measure this limit, since its file grows.
func measureSyncs(_ context.Context, s *sample) error {
	f, err := os.Create(filepath.Join(s.Dir, "syncs"))
	if err != nil {
		return err
	}
	const size = 8 << 20
	if _, err = f.Write(make([]byte, size)); err == nil {
		err = f.Sync()
	}
	record, syncs := make([]byte, 500), int64(0)
	took, measured := s.measureSpan(func() error {
		for end := time.Now().Add(s.Sizes.Bare / 2); err == nil && time.Now().Before(end); syncs++ {
			if _, err = f.WriteAt(record, syncs*512%(size-512)); err == nil {
				err = syncData(f)
			}
		}
		return err
	})
	s.values["syncs/s"] = float64(syncs) / took.seconds()
	return errors.Join(measured, f.Close())
}

// completeRun runs a chain from its start to its end and checks it.
func completeRun(ctx context.Context, e Engine, r *record, id string, tasks int) error {
	if err := e.Start(ctx, id, Shape{Chain, tasks}); err != nil {
		return err
	}
	if _, err := e.Wait(ctx, id); err != nil {
		return err
	}
	return r.checkChain(id, 0, tasks)
}

// openWarm opens an engine and runs one chain on it.
func (s *sample) openWarm(ctx context.Context, idleAfter time.Duration) (Engine, *record, error) {
	r := newRecord()
	e, err := s.openEngine(ctx, Config{Perform: r.performTask, IdleAfter: idleAfter})
	if err != nil {
		return nil, nil, err
	}
	return e, r, completeRun(ctx, e, r, "warm", 100)
}

func measureChain(ctx context.Context, s *sample) error {
	e, r, err := s.openWarm(ctx, 0)
	if err != nil {
		return err
	}
	written := writtenBytes()
	took, err := s.measureSpan(func() error {
		return eachInTurn(s.Sizes.ChainCount, "chain-", func(id string) error { return completeRun(ctx, e, r, id, s.Sizes.Chain) })
	})
	if err != nil {
		return err
	}
	steps := float64(s.Sizes.Chain * s.Sizes.ChainCount)
	s.values["steps/s"] = steps / took.seconds()
	err = e.Close(ctx)
	s.values["KB/step"] = (writtenBytes() - written) / steps / 1000
	return err
}

// eachInTurn calls f with n ids, one after the other.
func eachInTurn(n int, prefix string, f func(id string) error) error {
	for i := range n {
		if err := f(fmt.Sprint(prefix, i)); err != nil {
			return err
		}
	}
	return nil
}

// eachAtATime calls f with n ids, up to 64 at a time, and returns the first error.
func eachAtATime(n int, prefix string, f func(id string) error) error {
	var group sync.WaitGroup
	ids, failed := make(chan string), make(chan error, n)
	for range min(n, 64) {
		group.Go(func() {
			for id := range ids {
				if err := f(id); err != nil {
					failed <- err
				}
			}
		})
	}
	for i := range n {
		ids <- fmt.Sprint(prefix, i)
	}
	close(ids)
	group.Wait()
	close(failed)
	return <-failed // nil if nothing failed
}

// timeFanout runs a fan-out of n branches and returns its branches per second.
func timeFanout(ctx context.Context, s *sample, e Engine, r *record, n int) (float64, error) {
	id := fmt.Sprint("fanout-", n)
	var results []int
	took, err := s.measureSpan(func() error {
		err := e.Start(ctx, id, Shape{Fanout, n})
		if err == nil {
			results, err = e.Wait(ctx, id)
		}
		return err
	})
	if err != nil {
		return 0, err
	}
	return float64(n) / took.seconds(), r.checkFanout(id, results, n)
}

func measureFanout(ctx context.Context, s *sample) error {
	e, r, err := s.openWarm(ctx, 0)
	if err != nil {
		return err
	}
	if s.values["branches/s"], err = timeFanout(ctx, s, e, r, s.Sizes.Fanout); err != nil {
		return err
	}
	return e.Close(ctx)
}

// measureLargeFanout compares a large fan-out with a small one of the same process.
func measureLargeFanout(ctx context.Context, s *sample) error {
	e, r, err := s.openWarm(ctx, 0)
	if err != nil {
		return err
	}
	small, err := timeFanout(ctx, s, e, r, s.Sizes.Fanout)
	if err != nil {
		return err
	}
	large, err := timeFanout(ctx, s, e, r, s.Sizes.LargeFanout)
	if err != nil {
		return err
	}
	s.values["branches/s"], s.values["growth"] = large, small/large
	return e.Close(ctx)
}

// measureRuns stops the clock when every run has ended and has its file.
func measureRuns(ctx context.Context, s *sample) error {
	r := newRecord()
	e, err := s.openEngine(ctx, Config{Perform: r.performTask})
	if err != nil {
		return err
	}
	took, err := s.measureSpan(func() error {
		err := eachAtATime(s.Sizes.Runs, "run-", func(id string) error { return completeRun(ctx, e, r, id, 5) })
		if err != nil {
			return err
		}
		return e.Close(ctx)
	})
	if err != nil {
		return err
	}
	s.values["runs/s"] = float64(s.Sizes.Runs) / took.seconds()
	filed, err := pawlSystem().CountFiled(s.Dir)
	if err == nil && filed != s.Sizes.Runs {
		err = fmt.Errorf("%d of %d runs were filed", filed, s.Sizes.Runs)
	}
	return err
}

// timeStarts starts runs of one task, one after the other, and returns how long each
// took from the call of Start to its task, in milliseconds.
func timeStarts(ctx context.Context, e Engine, r *record, n int, prefix string) ([]float64, error) {
	var times []float64
	err := eachInTurn(n, prefix, func(id string) error {
		begin := time.Now()
		if err := completeRun(ctx, e, r, id, 1); err != nil {
			return err
		}
		times = append(times, milliseconds(r.of(id)[0].at.Sub(begin)))
		return nil
	})
	return times, err
}

func milliseconds(d time.Duration) float64 { return d.Seconds() * 1000 }

func measureStarts(ctx context.Context, s *sample) error {
	r := newRecord()
	e, err := s.openEngine(ctx, Config{Perform: r.performTask})
	if err != nil {
		return err
	}
	if _, err := timeStarts(ctx, e, r, s.Sizes.Starts/5, "warm-"); err != nil {
		return err
	}
	var times []float64
	_, err = s.measureSpan(func() error {
		times, err = timeStarts(ctx, e, r, s.Sizes.Starts, "start-")
		return err
	})
	if err != nil {
		return err
	}
	s.values["p50"], s.values["p99"] = medianOf(times), quantileOf(times, 0.99)
	return e.Close(ctx)
}

func measureSideBySide(ctx context.Context, s *sample) error {
	e, r, err := s.openWarm(ctx, 0)
	if err != nil {
		return err
	}
	n := s.Sizes.SideBySide
	took, err := s.measureSpan(func() error {
		return eachAtATime(n, "chain-", func(id string) error { return completeRun(ctx, e, r, id, s.Sizes.SideLength) })
	})
	if err != nil {
		return err
	}
	s.values["steps/s"] = float64(n*s.Sizes.SideLength) / took.seconds()
	s.values["p99"] = quantileOf(r.stepTimes("chain-"), 0.99)
	return e.Close(ctx)
}

// stepTimes returns how long after one execution the next of the same run began, in
// milliseconds, of all runs whose ids begin so.
func (r *record) stepTimes(prefix string) []float64 {
	var times []float64
	for id, done := range r.runs {
		if !strings.HasPrefix(id, prefix) {
			continue
		}
		for i := 1; i < len(done); i++ {
			times = append(times, milliseconds(done[i].at.Sub(done[i-1].at)))
		}
	}
	return times
}
