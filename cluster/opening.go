package cluster

import (
	"context"
	"fmt"

	"github.com/pawl-run/pawl"
)

// An opening is an Open of the engine that is under way: it keeps the directory as the log has it, and takes the log when
// it is told to.
type opening struct {
	take chan struct{} // closed by who has the lease
	stop context.CancelFunc
	done chan struct{} // closed when the fields below are set

	engine *pawl.Engine
	err    error
}

// standBy begins an opening if none is under way. It returns why the last one has ended, if it has.
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
func (n *Node) endOpening() {
	if n.opening != nil {
		_, _ = n.opening.end() // nobody waits for it
		n.opening = nil
	}
}
