package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
)

// An opening is an Open of the engine that is under way: it keeps the directory as the log has it, and takes the log when
// it is told to.
//
// It belongs to the loop of the node. Its goroutine writes engine and err, and closes done; nobody reads them before. Either take is
// closed and it becomes the engine, or stop ends it, and it has not taken the log.
type opening struct {
	take chan struct{} // closed by the holder of the lease
	stop context.CancelFunc
	done chan struct{} // closed when the fields below are set

	caughtUp chan struct{} // closed when the directory has been brought to the end of the log, or nothing is there to be got
	catches  sync.Once
	tasks    *poolOfLife // its executor; nil without Options.Pool

	engine *pawl.Engine
	err    error
}

// standBy begins an opening if none is under way. It returns why the last one has ended, if it has.
//
// keepLease calls it in each round without the lease: an opening that has failed, since the log could not be reached for example, is
// replaced by a new one there, once a round and not in a loop of its own.
func (n *Node) standBy() (err error) {
	if n.opening != nil {
		select {
		case <-n.opening.done: // it cannot have taken the log
			_, err = n.opening.end()
		default:
			return nil
		}
	}
	ctx, stop := context.WithCancel(n.ctx)
	o := &opening{take: make(chan struct{}), stop: stop, done: make(chan struct{}), caughtUp: make(chan struct{})}
	if n.o.Pool != nil {
		o.tasks = &poolOfLife{decided: make(chan struct{})}
	}
	n.opening = o
	go func() { // until end
		defer close(o.done)
		o.engine, o.err = n.openOnce(ctx, o)
	}()
	return err
}

// isBehind reports whether the directory of a node without the engine has to be brought to the end of its log, and why the last opening
// has ended, if it has: then nobody knows, and the node does not count as behind, since it may be the one that can mend the log.
func (n *Node) isBehind() (behind bool, ended error) {
	if n.engine != nil {
		return false, nil
	}
	if err := n.standBy(); err != nil {
		return false, err
	}
	select {
	case <-n.opening.caughtUp:
		return false, nil
	default:
		return true, nil
	}
}

// openEngine opens the engine, which takes the log. Meanwhile the lease is renewed.
//
// keepLease calls it when the lease is this node's and the engine is closed, and giveUp to repair a log. It blocks the loop as long as
// opening takes, which may be many terms for a large log, and Options.Pool and Options.Opened: hence the goroutine that renews in its place. If
// that finds that somebody else has the lease, the opening is cancelled, or its engine closed.
func (n *Node) openEngine() error {
	ctx, cancel := context.WithCancel(n.ctx)
	defer cancel()
	isLost := false                               // of the goroutine, until it has ended
	renewing := n.renewInTerms(ctx, func() bool { // until the engine is open, and the host has it
		owner, _, err := n.renewLease(false, true)
		if isLost = err == nil && owner.Node != n.o.Node; isLost { // somebody else has it
			cancel()
		}
		return !isLost
	})
	// The standby has the directory almost as the log has it: only what is missing is read before the log is taken.
	_ = n.standBy() // why the last opening has ended does not count any more
	close(n.opening.take)
	select {
	case <-n.opening.done:
	case <-ctx.Done():
	}
	// end waits until the opening has ended, and may return an engine although it was cancelled just now. The goroutine must be done
	// before the loop renews again, as both use the lease.
	e, err := n.opening.end()
	tasks := n.opening.tasks
	n.opening = nil
	if err == nil {
		if err = n.makePool(tasks, e); err != nil {
			_ = n.closeInTime(nil, e) // the first error counts
		}
	}
	// The pool is there before Opened, n.engine and n.serves: no request meets an engine without it.
	if err == nil && n.o.Opened != nil {
		n.o.Opened(e)
	}
	cancel()
	<-renewing
	if err == nil && isLost {
		err = errors.Join(errTaken, n.closeInTime(tasks.madePool(), e))
	}
	if err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.engine, n.serves = e, api.Handler(e, limitPassed(n.o.API))
	n.pool = tasks.madePool()
	n.loop.Go(func() { // until it has failed, or is closed
		if err := e.AwaitFailure(n.ctx); errors.Is(err, pawl.ErrFailed) {
			select {
			case n.failed <- failure{e, err}:
			case <-n.ctx.Done():
			}
		}
	})
	return nil
}

// openOnce opens the engine when take of an opening is closed.
//
// Until then pawl.Open follows the log with the directory, and does not return unless it fails. Each life of an engine has a log
// object of its own, as the one before may still be closing.
func (n *Node) openOnce(ctx context.Context, of *opening) (*pawl.Engine, error) {
	log, err := n.backend.NewLog(ctx)
	if err != nil {
		return nil, fmt.Errorf("open the log: %w", err)
	}
	o := n.o.Engine
	o.Blobs = n.backend.Blobs
	if of.tasks != nil {
		o.Executor = of.tasks
	}
	o.Remote.Log, o.Remote.Bases, o.Remote.StandBy = log, n.backend.Bases, of.take
	o.Remote.Report = func(r pawl.RemoteReport) {
		if r.Err == nil {
			of.catches.Do(func() { close(of.caughtUp) })
		}
		if n.o.Engine.Remote.Report != nil {
			n.o.Engine.Remote.Report(r)
		}
	}
	return pawl.Open(ctx, n.path, o)
}

// end ends an opening, and returns what came of it.
//
// It blocks until pawl.Open has returned, also when it stops that. When the opening is done, stop only frees the context: an open
// engine does not live by the context of its opening.
func (o *opening) end() (*pawl.Engine, error) {
	select {
	case <-o.done: // its context is that of nothing any more
	default:
		o.stop()
		<-o.done
	}
	o.stop()
	return o.engine, o.err
}

// endOpening ends the opening that is under way, if there is one. Its engine was never told to take the log.
//
// keepLease defers it: no goroutine of the node may be left, nor use the directory, when Close returns.
func (n *Node) endOpening() {
	if n.opening != nil {
		_, _ = n.opening.end() // nobody waits for it
		n.opening = nil
	}
}
