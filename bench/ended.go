package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"
)

// failing is how many of the ended runs have failed: the rare ones in a listing.
const failing = 10

const failingPrefix = "failing-"

func isFailing(run string) bool { return strings.HasPrefix(run, failingPrefix) }

// buildEnded makes the directory that measureEnded looks at: runs of one task that
// have ended, a few that have failed and some that wait.
func buildEnded(ctx context.Context, s *sample) error {
	n := s.Sizes.Ended
	r := newRecord()
	e, err := s.openEngine(ctx, Config{Perform: r.performTask})
	if err != nil {
		return err
	}
	took, err := s.measureSpan(func() error {
		err := eachAtATime(n-failing, "ended-", func(id string) error {
			err := completeRun(ctx, e, r, id, 1)
			r.forget(id)
			return err
		})
		if err != nil {
			return err
		}
		err = eachInTurn(failing, failingPrefix, func(id string) error {
			if completeRun(ctx, e, r, id, 1) == nil {
				return fmt.Errorf("%s has not failed", id)
			}
			return nil
		})
		return errors.Join(err, e.Close(ctx))
	})
	if err != nil {
		return err
	}
	bytes, files, err := usedDisk(s.Dir)
	if err != nil {
		return err
	}
	s.values["runs/s"] = float64(n) / took.seconds()
	s.values["KB/run"], s.values["files/run"] = bytes/float64(n)/1000, files/float64(n)
	if e, err = s.openEngine(ctx, Config{Perform: r.performTask}); err != nil {
		return err
	}
	return errors.Join(startWaiting(ctx, e, s.Sizes.EndedWait, "waiting-"), e.Close(ctx))
}

// forget drops what a run has executed.
func (r *record) forget(run string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.runs, run)
}

// blockSize is that of a file system: a file takes whole blocks.
const blockSize = 4096

// usedDisk returns how many bytes of the disk a folder takes, and how many files and
// folders are in it.
func usedDisk(dir string) (bytes, files float64, err error) {
	err = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		bytes += float64((info.Size() + blockSize - 1) / blockSize * blockSize)
		files++
		return nil
	})
	return bytes, files, err
}

// openUntilKilled is the life of the process that measureEnded kills.
func openUntilKilled(ctx context.Context, s *sample) error {
	r := newRecord()
	e, err := s.openEngine(ctx, Config{Perform: r.performTask})
	if err != nil {
		return err
	}
	if _, err := timeStarts(ctx, e, r, 10, fmt.Sprintf("life-%d-", time.Now().UnixNano())); err != nil {
		return err
	}
	return awaitKill()
}

// measureEnded opens the directory of ended runs after a kill and looks at what might
// grow with them.
func measureEnded(ctx context.Context, s *sample) error {
	if err := s.killVictim(ctx, "ended-life"); err != nil {
		return err
	}
	r := newRecord()
	e, err := s.timeOpen(ctx, r, "open killed")
	if err != nil {
		return err
	}
	awaitQuiet()
	s.values["MiB"] = heldBytes() / (1 << 20)
	list := func() error {
		ids, err := e.ListFailed(ctx)
		if err == nil && len(ids) != failing {
			err = fmt.Errorf("%d runs are listed as failed, not %d", len(ids), failing)
		}
		return err
	}
	var lists []float64
	_, err = s.measureSpan(func() error {
		return eachInTurn(20, "", func(string) error {
			begin := time.Now()
			err := list()
			lists = append(lists, milliseconds(time.Since(begin)))
			return err
		})
	})
	if err != nil {
		return err
	}
	s.values["list"] = medianOf(lists)
	if err := s.timeStartsBeside(ctx, e, r, list); err != nil {
		return err
	}
	if err := e.Close(ctx); err != nil {
		return err
	}
	if e, err = s.timeOpen(ctx, r, "open closed"); err != nil {
		return err
	}
	return e.Close(ctx)
}

func (s *sample) timeOpen(ctx context.Context, r *record, name string) (Engine, error) {
	var e Engine
	took, err := s.measureSpan(func() (err error) {
		e, err = s.openEngine(ctx, Config{Perform: r.performTask})
		return err
	})
	s.values[name] = took.seconds()
	return e, err
}

// timeStartsBeside takes the times of starts alone, and while another goroutine lists.
func (s *sample) timeStartsBeside(ctx context.Context, e Engine, r *record, list func() error) error {
	prefix := fmt.Sprintf("start-%d-", time.Now().UnixNano())
	if _, err := timeStarts(ctx, e, r, 20, prefix+"warm-"); err != nil {
		return err
	}
	var stop atomic.Bool
	listed := make(chan error, 1)
	var alone, beside []float64
	_, err := s.measureSpan(func() (err error) {
		if alone, err = timeStarts(ctx, e, r, 50, prefix+"alone-"); err != nil {
			return err
		}
		go func() { // until stop
			for !stop.Load() {
				if err := list(); err != nil {
					listed <- err
					return
				}
			}
			listed <- nil
		}()
		beside, err = timeStarts(ctx, e, r, 50, prefix+"beside-")
		stop.Store(true)
		return errors.Join(err, <-listed)
	})
	s.values["start p50"], s.values["start p99"] = medianOf(alone), quantileOf(alone, 0.99)
	s.values["start beside"] = medianOf(beside)
	return err
}

// awaitQuiet waits until this process has almost nothing to do, for 20 s at most.
func awaitQuiet() {
	for range 100 {
		before := ownTime()
		time.Sleep(200 * time.Millisecond)
		if ownTime()-before < 2*tick {
			return
		}
	}
}
