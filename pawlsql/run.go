package pawlsql

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/workflow"
)

// An Engine is what *pawl.Engine has, as Run uses it.
type Engine interface {
	Start(ctx context.Context, run workflow.Run, input any) error
	Do(ctx context.Context, run workflow.RunID, a pawl.Act) error
}

// Run makes the calls of committed transactions, each run's in their order, and deletes their rows, until ctx is done; then it returns nil.
// Each process that has the engine, or may get it, calls it, as long as the engine is open; several at once share the
// calls. A call may reach the engine again after a death between call and deletion, which changes nothing, as its run is there.
//
// A call that the engine refuses stays: see [Outbox.Refused]. While the engine cannot take calls, or the database does not answer, Run tries
// again, and tells the logger: it waits 5 s for the answer to a statement or, behind a lease, as long as that if it is longer, and 5 min for one that
// reads a whole backlog. It fails with a *SchemaError, with an *ArgumentError, and when this engine will take no call any more: with pawl.ErrClosed,
// ErrFenced or ErrFailed.
func (b *Outbox) Run(ctx context.Context, engine Engine) error {
	switch {
	case ctx == nil:
		return &ArgumentError{What: "ctx", Fault: "it is nil"}
	case isNil(engine):
		return &ArgumentError{What: "engine", Fault: "it is nil"}
	}
	ctx, stop := context.WithCancel(ctx)
	var listener sync.WaitGroup
	defer listener.Wait()
	defer stop()
	if b.options.Listen != nil {
		listener.Go(func() { b.listenForCalls(ctx) })
	}
	d := &drain{outbox: b, engine: engine, hook: testhook.From(ctx)}
	pause, checked := firstPause, false
	for {
		idle, err := time.Duration(0), error(nil)
		if checked {
			idle, err = d.takeSome(ctx)
		} else if err = askInTime(ctx, answerTimeout, b.checkVersion); err == nil {
			checked = true
		}
		var schema *SchemaError
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.As(err, &schema), isOver(err):
			return err
		case err != nil:
			b.options.Logger.WarnContext(ctx, "pawlsql: calls of transactions wait", "error", err, "again", pause)
			pause = waitLonger(ctx, nil, pause)
			continue
		case idle > 0:
			b.waitForCalls(ctx, idle)
		}
		pause = firstPause
	}
}

// The pauses after an error of the database or of the engine.
const (
	firstPause = 50 * time.Millisecond
	lastPause  = 5 * time.Second
)

// waitLonger waits for a pause, or to be woken, and returns the next one.
func waitLonger(ctx context.Context, woken <-chan struct{}, pause time.Duration) time.Duration {
	t := time.NewTimer(pause/2 + rand.N(pause/2+1)) // processes that fail together do not come again together
	defer t.Stop()
	select {
	case <-t.C:
	case <-woken:
	case <-ctx.Done():
	}
	return min(2*pause, lastPause)
}

// waitForCalls waits until somebody says that there are calls, at most for a time.
func (b *Outbox) waitForCalls(ctx context.Context, most time.Duration) {
	t := time.NewTimer(most)
	defer t.Stop()
	select {
	case <-t.C:
	case <-b.woken:
	case <-ctx.Done():
	}
}

// listenForCalls is told of calls until ctx is done.
func (b *Outbox) listenForCalls(ctx context.Context) {
	for pause := firstPause; ctx.Err() == nil; {
		began := time.Now()
		err := b.options.Listen(ctx, b.nameChannel(), b.Wake)
		if ctx.Err() != nil {
			return
		}
		b.options.Logger.WarnContext(ctx, "pawlsql: notifications do not come, calls of transactions are polled for", "error", err, "again", pause)
		if time.Since(began) > lastPause {
			pause = firstPause
		}
		pause = waitLonger(ctx, nil, pause)
		b.Wake() // what was notified meanwhile
	}
}
