package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-run/pawl"
)

// A Pool performs the tasks of one life of the engine by workers outside of it, as the pools of packages natspool and worker do.
type Pool interface {
	pawl.Executor
	// Attach says which engine gets the results. The node calls it once.
	Attach(e *pawl.Engine)
	// Close ends what the pool does for the engine, and returns what keeps it from that.
	Close(ctx context.Context) error
}

// errPool says that the engine is open, and nobody performs its tasks.
var errPool = errors.New("make the pool")

// poolTime is how long Options.Pool may take.
const poolTime = 30 * time.Second

// A poolOfLife is the executor of one life of the engine, whose pool is made once the engine has the log: a pool that is there before
// would answer workers in place of that of the engine which has it.
//
// The engine gives it tasks from when it is opened. They wait until decided is closed, which is when the pool was made, or never will be.
type poolOfLife struct {
	decided chan struct{}
	pool    Pool // nil: there will be none; whoever reads it has waited for decided
}

// Execute implements pawl.Executor.
func (p *poolOfLife) Execute(ctx context.Context, t pawl.Task) (any, error) {
	select {
	case <-p.decided:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if p.pool == nil {
		return nil, pawl.ErrPending // the engine is closed, and the next one sends it again
	}
	return p.pool.Execute(ctx, t)
}

// Unwrap returns the pool, as pawl.Engine.Executor does; nil before it is made.
func (p *poolOfLife) Unwrap() pawl.Executor {
	select {
	case <-p.decided:
		if p.pool != nil {
			return p.pool
		}
	default:
	}
	return nil
}

// makePool makes the pool of an engine that was opened just now, attaches the engine, and lets its tasks go. Without a pool the engine is
// closed, as it could do nothing.
func (n *Node) makePool(tasks *poolOfLife, e *pawl.Engine) error {
	if tasks == nil {
		return nil
	}
	defer close(tasks.decided)
	ctx, cancel := context.WithTimeout(n.ctx, poolTime)
	defer cancel()
	pool, err := n.o.Pool(ctx)
	if err == nil && pool == nil {
		err = errors.New("cluster.Options.Pool has returned none")
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errPool, err)
	}
	pool.Attach(e)
	tasks.pool = pool
	return nil
}

// madePool returns the pool, nil if there is none.
func (p *poolOfLife) madePool() Pool {
	if p == nil {
		return nil
	}
	return p.pool
}

// closeLife closes a pool, if there is one, and then its engine, if there is one, so that workers are told as soon as may be that nobody answers here.
func closeLife(ctx context.Context, pool Pool, e *pawl.Engine) error {
	if e == nil {
		return nil
	}
	var err error
	if pool != nil {
		if err = pool.Close(ctx); err != nil {
			err = fmt.Errorf("close the pool: %w", err)
		}
	}
	return errors.Join(err, e.Close(ctx))
}
