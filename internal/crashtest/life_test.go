package crashtest

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

// A life is one process, or as good as one, that works on the engine directory
// of a trial.
type life struct {
	work
	ledger *ledger
	engine *pawl.Engine
	later  chan answer   // results that come after their handlers have returned
	holds  chan struct{} // closed when a task holds
	opened chan struct{} // closed when engine is set
	once   sync.Once     // of that
}

// An answer is a result that comes later.
type answer struct {
	run    workflow.RunID
	key    pawl.Key
	output any
}

// live opens the engine in dir, starts what has not been started, waits for all
// outcomes and closes it. Everything it does may have been done before.
func live(ctx context.Context, dir string, w work, number int) (err error) {
	l := &life{work: w, later: make(chan answer, 64), holds: make(chan struct{}), opened: make(chan struct{})}
	if l.ledger, err = openLedger(filepath.Join(dir, "ledger"), number); err != nil {
		return err
	}
	defer l.ledger.file.Close()
	engine, err := pawl.Open(ctx, filepath.Join(dir, "engine"), pawl.Options{Executor: l, IdleAfter: w.idle})
	if err != nil {
		return err
	}
	l.engine = engine
	close(l.opened)
	stop := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() { l.answer(ctx, engine, stop) })
	err = l.do(ctx, engine)
	close(stop)
	group.Wait()
	if err := errors.Join(err, engine.Close(ctx)); err != nil {
		return err
	}
	l.ledger.write(entry{What: closed})
	return nil
}

// do starts the runs and waits for them.
func (l *life) do(ctx context.Context, engine *pawl.Engine) error {
	for _, file := range l.calls {
		def, err := definition(file)
		if err == nil {
			err = engine.Publish(def)
		}
		if err != nil {
			return fmt.Errorf("publish %s: %w", file, err)
		}
	}
	for _, j := range l.runs {
		if err := l.start(ctx, engine, j); err != nil {
			return err
		}
	}
	if l.closes {
		select {
		case <-l.holds:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	for _, j := range l.runs {
		out, err := engine.Wait(ctx, j.id)
		if err != nil {
			return fmt.Errorf("wait for %q: %w", string(j.id), err)
		}
		l.ledger.write(entry{What: ended, Run: j.id, Outcome: outcomeText(out)})
	}
	return nil
}

func (l *life) start(ctx context.Context, engine *pawl.Engine, j job) error {
	def, err := j.definition()
	if err == nil && !l.alone[j.id] {
		err = engine.Start(ctx, workflow.Run{ID: j.id, Definition: def}, j.input)
	}
	if err != nil {
		return fmt.Errorf("start %q: %w", string(j.id), err)
	}
	l.ledger.write(entry{What: started, Run: j.id})
	if !j.cancel {
		return nil
	}
	if err := engine.Cancel(ctx, j.id, "enough"); err != nil {
		return fmt.Errorf("cancel %q: %w", string(j.id), err)
	}
	l.ledger.write(entry{What: cancelled, Run: j.id})
	return nil
}

// answer completes the tasks whose results come later.
func (l *life) answer(ctx context.Context, engine *pawl.Engine, stop <-chan struct{}) {
	for {
		select {
		case a := <-l.later:
			l.ledger.write(entry{What: ends, Run: a.run, Key: a.key})
			if err := engine.Complete(ctx, a.key, a.output); err != nil {
				panic(fmt.Sprintf("complete %q: %v", string(a.key), err))
			}
			l.ledger.write(entry{What: answered, Run: a.run, Key: a.key})
		case <-stop:
			return
		}
	}
}
