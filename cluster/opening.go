package cluster

import (
	"context"
	"fmt"

	"github.com/pawl-run/pawl"
)

// An opening is an Open of the engine that is under way: it keeps the directory as the log has it, and takes the log when
// it is told to.
//
// It belongs to the loop of the node. Its goroutine writes engine and err, and closes done; nobody reads them before. Either take is
// closed and it becomes the engine, or stop ends it, and it has not taken the log.
type opening struct {
	take chan struct{} // closed by who has the lease
	stop context.CancelFunc
	done chan struct{} // closed when the fields below are set

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
	o := &opening{take: make(chan struct{}), stop: stop, done: make(chan struct{})}
	n.opening = o
	go func() { // until end
		defer close(o.done)
		o.engine, o.err = n.openOnce(ctx, o.take)
	}()
	return err
}

// openOnce opens the engine when take is closed.
//
// Until then pawl.Open follows the log with the directory, and does not return unless it fails. Each life of an engine has a log
// object of its own, as the one before may still be closing.
func (n *Node) openOnce(ctx context.Context, take <-chan struct{}) (*pawl.Engine, error) {
	log, err := n.backend.NewLog(ctx)
	if err != nil {
		return nil, fmt.Errorf("open the log: %w", err)
	}
	o := n.o.Engine
	o.Blobs = n.backend.Blobs
	o.Remote.Log, o.Remote.Bases, o.Remote.StandBy = log, n.backend.Bases, take
	return pawl.Open(ctx, n.path, o)
}

// end ends an opening, and returns what came of it.
//
// It blocks until pawl.Open has returned, also when it stops that. Of an opening that is done stop only frees the context: an engine
// that is open does not live by the context of its opening.
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
