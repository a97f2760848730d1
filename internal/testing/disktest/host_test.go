package disktest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/internal/testing/harness/witness"
	"github.com/pawl-run/pawl/workflow"
)

// A host is a program that uses an engine as a careful one does: what fails is
// tried again, and when the engine says that it cannot go on, it is closed and
// the directory opened again. Each opening is a life.
type host struct {
	work
	dir    string // the engine directory is below
	ledger *witness.Ledger
	hook   testhook.Hook

	mu     sync.Mutex
	report report
	hit    chan struct{} // gets one when something is noted or logged, if there is room; nil is nobody who waits
}

// A report is what a host was told.
type report struct {
	Done   bool     // every run has ended and the engine was closed
	Life   int      // the last
	Told   []told   // errors of calls
	Logged []string // warnings and errors of the log
}

// told is an error of a call.
type told struct {
	Op, Text                         string
	NoSpace, Unknown, Failed, Busy   bool
	Locked, Corrupt, Version, Closed bool
}

func tell(op string, err error) told {
	is := func(target error) bool { return errors.Is(err, target) }
	return told{op, err.Error(), is(pawl.ErrNoSpace), is(pawl.ErrUnknown), is(pawl.ErrFailed), is(pawl.ErrBusy),
		is(pawl.ErrLocked), is(pawl.ErrCorrupt), is(pawl.ErrVersion), is(pawl.ErrClosed)}
}

func (r report) surfaced() int { return len(r.Told) + len(r.Logged) }

func (h *host) note(op string, err error) error {
	if err != nil {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.report.Told = append(h.report.Told, tell(op, err))
		h.tellHit()
	}
	return err
}

func (h *host) tellHit() {
	select {
	case h.hit <- struct{}{}:
	default:
	}
}

// Write takes a line of the log. That Close waits is no fault: a busy machine lets it.
func (h *host) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte(`msg="pawl: Close waits: `)) {
		return len(line), nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.report.Logged = append(h.report.Logged, string(line))
	h.tellHit()
	return len(line), nil
}

var _ io.Writer = (*host)(nil)

// maxLives is how often a host opens an engine before it gives up.
const maxLives = 40

// run does the work, in as many lives as it takes, from the one with this number.
func (h *host) run(ctx context.Context, life int) report {
	for last := life + maxLives; life < last && ctx.Err() == nil && !h.report.Done; life++ {
		h.report.Life = life
		if err := h.live(ctx, life); err == nil {
			h.report.Done = true
		} else if err := pause(ctx, 2*time.Millisecond); err != nil {
			break
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.report
}

// live opens the engine, starts the runs, waits for all outcomes and closes it.
// Everything it does may have been done before.
func (h *host) live(ctx context.Context, life int) error { return h.liveFor(ctx, life, patience) }

// liveFor is live for a host that does not wait for outcomes for longer than a time. Close takes as long as it needs, since its
// handlers write into the ledger.
func (h *host) liveFor(ctx context.Context, life int, most time.Duration) (err error) {
	if h.ledger, err = witness.OpenLedger(filepath.Join(h.dir, "ledger"), life); err != nil {
		return err
	}
	defer h.ledger.Close()
	engine, err := h.open(ctx, h)
	if err != nil {
		return err
	}
	soon, cancel := context.WithTimeout(ctx, most)
	err = h.do(soon, engine)
	cancel()
	closed := h.note("close", engine.Close(ctx))
	if err := errors.Join(err, closed); err != nil {
		return err
	}
	h.ledger.Write(witness.Entry{What: witness.Closed})
	return nil
}

// open opens the engine.
func (h *host) open(ctx context.Context, execute pawl.Executor) (*pawl.Engine, error) {
	if h.parts > 0 {
		h.hook.SetPartBytes(h.parts)
	}
	if h.frames > 0 {
		h.hook.SetLogFrames(h.frames)
		h.hook.SetRedoBytes(1) // no commit fits: all go into the log
	}
	h.hook.SetGatherRuns(4) // files are made while there is work
	engine, err := pawl.Open(testhook.With(ctx, &h.hook), filepath.Join(h.dir, "engine"), pawl.Options{
		Executor: execute, IdleAfter: h.idle, Logger: slog.New(slog.NewTextHandler(h, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	return engine, h.note("open", err)
}

func (h *host) do(ctx context.Context, engine *pawl.Engine) error {
	for _, file := range h.calls {
		def, err := witness.Definition(file)
		if err == nil {
			err = h.retry(ctx, "publish", func() error {
				_, err := engine.Publish(ctx, def)
				return err
			})
		}
		if err != nil {
			return fmt.Errorf("publish %s: %w", file, err)
		}
	}
	for _, j := range h.runs {
		def, err := witness.Definition(j.File)
		if err == nil {
			err = h.retry(ctx, "start", func() error {
				return engine.Start(ctx, workflow.Run{ID: j.ID, Definition: def}, j.Input)
			})
		}
		if err != nil {
			return fmt.Errorf("start %q: %w", string(j.ID), err)
		}
		h.ledger.Write(witness.Entry{What: witness.Started, Run: j.ID})
	}
	for _, j := range h.runs {
		var out workflow.Outcome
		err := h.retry(ctx, "wait", func() (err error) {
			out, err = engine.Wait(ctx, j.ID)
			return err
		})
		if err != nil {
			return fmt.Errorf("wait for %q: %w", string(j.ID), err)
		}
		h.ledger.Write(witness.Entry{What: witness.Ended, Run: j.ID, Outcome: witness.OutcomeText(out)})
	}
	return nil
}

// maxRetries is how often a call is repeated before the engine is opened again.
const maxRetries = 10

// retry calls an operation until it succeeds, or cannot any more.
func (h *host) retry(ctx context.Context, op string, call func() error) error {
	for n := 0; ; n++ {
		err := h.note(op, call())
		if err == nil || errors.Is(err, pawl.ErrFailed) || errors.Is(err, pawl.ErrClosed) || n == maxRetries {
			return err
		}
		if again := pause(ctx, time.Millisecond<<n); again != nil {
			return errors.Join(err, again)
		}
	}
}

// pause lets a time pass, as a host does before it tries again.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// newHost returns a host in dir, which is made.
func newHost(dir string, w work) (*host, error) {
	return &host{work: w, dir: dir}, os.MkdirAll(dir, 0o700)
}
