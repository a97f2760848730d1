package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// starters is how many callers start runs at a time, each the next one when its run has ended.
const starters = 64

// purgesAWindow is how often the engine is asked to purge while runs of one window are started.
const purgesAWindow = 10

// measureRetention starts runs for a window of time, and then for another one while those that are older than a window are purged.
// In the end it purges the rest, with nobody beside.
func measureRetention(ctx context.Context, s *sample) error {
	e, r, err := s.openWarm(ctx, 0)
	if err != nil {
		return err
	}
	window := s.Sizes.Window
	var alone, beside, purged, rest int
	var took, tookBeside, tookRest span
	if took, err = s.measureSpan(func() (err error) { alone, err = startFor(ctx, e, r, window, "alone-"); return err }); err != nil {
		return err
	}
	tookBeside, err = s.measureSpan(func() error {
		stop := purgeUntilStopped(ctx, e, window)
		beside, err = startFor(ctx, e, r, window, "beside-")
		n, stopped := stop()
		purged = n
		return errors.Join(err, stopped)
	})
	if err != nil {
		return err
	}
	files, err := pawlSystem().CountFiled(s.Dir)
	if err != nil {
		return err
	}
	if _, err := startFor(ctx, e, r, window/4, "rest-"); err != nil { // a purge that has lasted for a window has left nothing
		return err
	}
	tookRest, err = s.measureSpan(func() (err error) { rest, err = e.Purge(ctx, time.Now()); return err })
	if err != nil {
		return err
	}
	s.values["runs/s"] = float64(beside) / tookBeside.seconds()
	s.values["to alone"] = s.values["runs/s"] / (float64(alone) / took.seconds())
	s.values["purges/s"] = float64(purged) / tookBeside.seconds()
	s.values["files"] = float64(files) / float64(beside)
	s.values["purges/s alone"] = float64(rest) / tookRest.seconds()
	if took.cpu > 0 {
		s.values["CPU"] = tookRest.cpu.Seconds() / float64(rest) / (took.cpu.Seconds() / float64(alone))
	}
	if err := e.Close(ctx); err != nil {
		return err
	}
	if left, err := pawlSystem().CountFiled(s.Dir); err != nil || left > 0 {
		return errors.Join(err, fmt.Errorf("%d files are left of runs that were purged", left))
	}
	return nil
}

// startFor starts runs of one task for so long, one of each starter at least, and returns how many have ended.
func startFor(ctx context.Context, e Engine, r *record, d time.Duration, prefix string) (int, error) {
	var group sync.WaitGroup
	var next atomic.Int64
	failed := make(chan error, starters)
	end := time.Now().Add(d)
	for range starters {
		group.Go(func() {
			for first := true; first || time.Now().Before(end); first = false {
				id := fmt.Sprint(prefix, next.Add(1))
				if err := completeRun(ctx, e, r, id, 1); err != nil {
					failed <- err
					return
				}
				r.forget(id)
			}
		})
	}
	group.Wait()
	close(failed)
	return int(next.Load()), <-failed // nil if nothing failed
}

// purgeUntilStopped purges runs that ended longer ago than age, again and again. stop ends that, and returns how many were
// purged; if there were none, it purges once more itself, so that a slow machine has purged as well.
func purgeUntilStopped(ctx context.Context, e Engine, age time.Duration) (stop func() (int, error)) {
	n, err := 0, error(nil)
	quit, ended := make(chan struct{}), make(chan struct{})
	go func() { // until stop
		defer close(ended)
		ticker := time.NewTicker(age / purgesAWindow)
		defer ticker.Stop()
		for err == nil {
			select {
			case <-quit:
				return
			case <-ticker.C:
			}
			select {
			case <-quit:
				return
			default:
			}
			more := 0
			more, err = e.Purge(ctx, time.Now().Add(-age))
			n += more
		}
	}()
	return func() (int, error) {
		close(quit)
		<-ended
		if n == 0 && err == nil {
			n, err = e.Purge(ctx, time.Now().Add(-age))
		}
		return n, err
	}
}
