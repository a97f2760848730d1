package crashtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/internal/testing/harness/witness"
	"github.com/pawl-run/pawl/workflow"
)

// A life is one process, or as good as one, that works on the engine directory
// of a trial.
type life struct {
	work
	dir    string // of the trial
	ledger *witness.Ledger
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
func live(ctx context.Context, hook *testhook.Hook, dir string, w work, number int) error {
	if w.first > 0 {
		before := w
		before.runs, before.first = w.runs[:w.first], 0
		if err := liveOnce(ctx, hook, dir, before, number); err != nil {
			return err
		}
	}
	return liveOnce(ctx, hook, dir, w, number)
}

func liveOnce(ctx context.Context, hook *testhook.Hook, dir string, w work, number int) (err error) {
	l := &life{work: w, dir: dir, later: make(chan answer, 64), holds: make(chan struct{}), opened: make(chan struct{})}
	if l.ledger, err = witness.OpenLedger(filepath.Join(dir, "ledger"), number); err != nil {
		return err
	}
	defer l.ledger.Close()
	hook.SetLogFrames(60)    // a few checkpoints in every life
	hook.SetRedoBytes(8_000) // the regions of the redo log take turns
	hook.SetGatherRuns(4)    // files are made while there is work
	if w.first > 0 {
		hook.SetLogFrames(4)                 // one behind a purge
		hook.SetEraseAfter(time.Millisecond) // what was purged
	}
	if w.parts > 0 {
		hook.SetPartBytes(w.parts)
		hook.SetTrimRecords(2)
	}
	feed, err := w.feed(dir)
	if err != nil {
		return err
	}
	o := pawl.Options{Executor: l, IdleAfter: w.idle, Codec: w.codec(), Feed: feed}
	closeStores, err := w.addRemote(dir, number, &o)
	if err != nil {
		return err
	}
	defer closeStores()
	engine, err := pawl.Open(testhook.With(ctx, hook), filepath.Join(dir, "engine"), o)
	if err != nil {
		return err
	}
	l.engine = engine
	close(l.opened)
	followed := l.follow(ctx)
	stop := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() { l.answer(ctx, engine, stop) })
	err = l.do(ctx, engine)
	if err == nil {
		err = awaitFeed(ctx, engine)
	}
	close(stop)
	group.Wait()
	followed.awaitCopy(ctx)
	if err := errors.Join(err, engine.Close(ctx), followed.wait()); err != nil {
		return err
	}
	l.ledger.Write(witness.Entry{What: witness.Closed})
	return nil
}

// do starts the runs and waits for them.
func (l *life) do(ctx context.Context, engine *pawl.Engine) error {
	for _, file := range l.calls {
		def, err := witness.Definition(file)
		if err == nil {
			_, err = engine.Publish(ctx, def)
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
	if l.first > 0 {
		if err := l.backUp(ctx, engine); err != nil {
			return err
		}
	}
	for _, j := range l.runs {
		out, err := engine.Wait(ctx, j.ID)
		if err != nil {
			return fmt.Errorf("wait for %q: %w", string(j.ID), err)
		}
		l.ledger.Write(witness.Entry{What: witness.Ended, Run: j.ID, Outcome: witness.OutcomeText(out)})
	}
	return l.fork(ctx, engine)
}

// fork makes the forks one after the other, and each of them ends.
func (l *life) fork(ctx context.Context, engine *pawl.Engine) error {
	for _, f := range l.forks {
		if err := engine.Fork(ctx, f.of, f.id, pawl.ForkOptions{At: f.at}); err != nil {
			return fmt.Errorf("fork %q: %w", string(f.of), err)
		}
		l.ledger.Write(witness.Entry{What: witness.Started, Run: f.id})
		out, err := engine.Wait(ctx, f.id)
		if err != nil {
			return fmt.Errorf("wait for %q: %w", string(f.id), err)
		}
		l.ledger.Write(witness.Entry{What: witness.Ended, Run: f.id, Outcome: witness.OutcomeText(out)})
	}
	return nil
}

// goneID is a run that is purged while a backup is made that has it.
const goneID = "gone"

// inBackup is what a child does while it makes a backup, and meanwhile, a hook of
// its failpoints, does it: so it happens every time.
var inBackup atomic.Pointer[func()]

func meanwhile(name string) {
	if f := inBackup.Load(); f != nil && name == "backup.index" {
		(*f)()
	}
}

// backUp makes a copy of the engine directory, into a folder of this life, while
// the runs go on.
func (l *life) backUp(ctx context.Context, engine *pawl.Engine) error {
	into := backupOf(l.dir, l.ledger.Life)
	if err := os.Mkdir(into, 0o700); err != nil { // it may be there, and empty
		return err
	}
	gone, err := witness.Definition("gone")
	if err != nil {
		return err
	}
	if _, err := engine.Run(ctx, workflow.Run{ID: goneID, Definition: gone}, nil); err != nil {
		return err
	}
	purge := func() {
		if err := engine.Purge(ctx, goneID); err != nil && !errors.Is(err, pawl.ErrRunNotFound) {
			panic(fmt.Sprintf("purge: %v", err))
		}
	}
	inBackup.Store(&purge)
	defer inBackup.Store(nil)
	l.ledger.Write(witness.Entry{What: witness.Copying})
	info, err := engine.Backup(ctx, into)
	if err == nil && len(info.Damaged) > 0 {
		err = errors.Join(info.Damaged...)
	}
	if err != nil {
		return fmt.Errorf("back up: %w", err)
	}
	l.ledger.Write(witness.Entry{What: witness.Copied})
	return nil
}

func (l *life) start(ctx context.Context, engine *pawl.Engine, j witness.Job) error {
	def, err := witness.Definition(j.File)
	if err == nil && !l.alone[j.ID] {
		err = engine.Start(ctx, workflow.Run{ID: j.ID, Definition: def, Labels: map[string]string{"job": string(j.ID)}}, j.Input)
	}
	if err != nil {
		return fmt.Errorf("start %q: %w", string(j.ID), err)
	}
	l.ledger.Write(witness.Entry{What: witness.Started, Run: j.ID})
	if j.ID != l.cancels {
		return nil
	}
	if err := engine.Cancel(ctx, j.ID, "enough"); err != nil {
		return fmt.Errorf("cancel %q: %w", string(j.ID), err)
	}
	l.ledger.Write(witness.Entry{What: witness.Cancelled, Run: j.ID})
	return nil
}

// answer completes the tasks whose results come later.
func (l *life) answer(ctx context.Context, engine *pawl.Engine, stop <-chan struct{}) {
	for {
		select {
		case a := <-l.later:
			l.ledger.Write(witness.Entry{What: witness.Ends, Run: a.run, Key: a.key})
			if err := engine.Complete(ctx, a.key, a.output); err != nil {
				panic(fmt.Sprintf("complete %q: %v", string(a.key), err))
			}
			l.ledger.Write(witness.Entry{What: witness.Answered, Run: a.run, Key: a.key})
		case <-stop:
			return
		}
	}
}
