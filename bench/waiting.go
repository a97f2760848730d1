package main

import (
	"context"
	"errors"
	"runtime"
	"runtime/debug"
	"time"
)

// startWaiting starts n runs and returns when all of them wait for their signal.
func startWaiting(ctx context.Context, e Engine, n int, prefix string) error {
	err := eachAtATime(n, prefix, func(id string) error { return e.Start(ctx, id, Shape{Kind: Waiting}) })
	if err != nil {
		return err
	}
	return eachInTurn(n, prefix, func(id string) error {
		return poll(id+" waits", func() (bool, error) {
			info, err := e.Info(ctx, id)
			return info.Steps >= 2, err
		})
	})
}

// signalAll signals n waiting runs and returns when all have ended.
func signalAll(ctx context.Context, e Engine, n int, prefix string) error {
	return errors.Join(
		eachAtATime(n, prefix, func(id string) error { return e.Signal(ctx, id) }),
		eachAtATime(n, prefix, func(id string) error { _, err := e.Wait(ctx, id); return err }),
	)
}

// heldBytes returns the memory of this process without what is garbage.
func heldBytes() float64 {
	debug.FreeOSMemory()
	return residentBytes()
}

// measureSleepers looks at runs that wait: awake, when IdleAfter has passed one and a
// half times, and while all are signalled.
func measureSleepers(ctx context.Context, s *sample) error {
	e, r, err := s.openWarm(ctx, s.Sizes.IdleAfter)
	if err != nil {
		return err
	}
	n := s.Sizes.Sleepers
	base, goroutines := heldBytes(), runtime.NumGoroutine()
	if err := startWaiting(ctx, e, n, "sleeper-"); err != nil {
		return err
	}
	s.values["goroutines"] = float64(runtime.NumGoroutine()-goroutines) / float64(n)
	if base > 0 {
		s.values["KiB awake"] = (heldBytes() - base) / float64(n) / 1024
	}
	time.Sleep(s.Sizes.IdleAfter * 3 / 2)
	if base > 0 {
		s.values["KiB asleep"] = (heldBytes() - base) / float64(n) / 1024
	}
	err = poll("the runs leave memory", func() (bool, error) { return runtime.NumGoroutine() <= goroutines+n/100+8, nil })
	if err != nil {
		return err
	}
	took, err := s.measureSpan(func() error {
		if err := signalAll(ctx, e, n, "sleeper-"); err != nil {
			return err
		}
		return e.Close(ctx)
	})
	if err != nil {
		return err
	}
	s.values["s"] = took.seconds() * 100_000 / float64(n)
	if took.cpu > 0 {
		s.values["ms CPU"] = milliseconds(took.cpu) / float64(n)
	}
	return eachInTurn(n, "sleeper-", func(id string) error { return r.checkChain(id, 0, 2) })
}

// liveUntilKilled is the life of the process that measureKilled kills.
func liveUntilKilled(ctx context.Context, s *sample) error {
	e, err := s.openEngine(ctx, Config{Perform: newRecord().performTask})
	if err != nil {
		return err
	}
	if err := startWaiting(ctx, e, s.Sizes.Killed, "killed-"); err != nil {
		return err
	}
	return awaitKill()
}

// measureKilled takes the time from the opening of a directory whose process was
// killed until all runs, which waited, are done.
func measureKilled(ctx context.Context, s *sample) error {
	if err := s.killVictim(ctx, "killed-life"); err != nil {
		return err
	}
	r := newRecord()
	n := s.Sizes.Killed
	var e Engine
	took, err := s.measureSpan(func() (err error) {
		if e, err = s.openEngine(ctx, Config{Perform: r.performTask}); err != nil {
			return err
		}
		if err := eachInTurn(n, "killed-", func(id string) error { return e.Attach(ctx, id) }); err != nil {
			return err
		}
		return signalAll(ctx, e, n, "killed-")
	})
	if err != nil {
		return err
	}
	s.values["s"] = took.seconds()
	// Task 0 was recorded before the kill, so that it is not executed again.
	if err := eachInTurn(n, "killed-", func(id string) error { return r.checkChain(id, 1, 2) }); err != nil {
		return err
	}
	return e.Close(ctx)
}
