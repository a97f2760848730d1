package pawl

import (
	"context"

	"github.com/pawl-run/pawl/workflow"
)

// concerns reports whether an errand, waiting or under way, is of one of some runs,
// as the child or as the parent. If so, moved is closed when one has ended or failed.
func (c *courier) concerns(runs map[workflow.RunID]bool) (moved <-chan struct{}, yes bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, false
	}
	for child, q := range c.queues {
		yes = yes || runs[child]
		for _, x := range q.list {
			yes = yes || runs[x.parent.Run] || x.want != nil && runs[x.want.Parent.Run]
		}
	}
	if yes && c.moved == nil {
		c.moved = make(chan struct{})
	}
	return c.moved, yes
}

// signal tells those who wait that an errand has ended or failed. The lock is held.
func (c *courier) signal() {
	if c.moved != nil {
		close(c.moved)
		c.moved = nil
	}
}

// reserveFamily returns an ended run with all below it, and keeps them from getting
// actors. That is once no errand is left that one of them is to hear of or that is
// to start it: it would hit the run that has the id next.
func (e *Engine) reserveFamily(ctx context.Context, root workflow.RunID) (family []workflow.RunID, release func(), err error) {
	for {
		if family, err = e.family(ctx, root); err != nil {
			return nil, nil, err
		}
		if release, err = e.reserveAll(ctx, family); err != nil {
			return nil, nil, err
		}
		runs := map[workflow.RunID]bool{}
		for _, id := range family {
			runs[id] = true
		}
		moved, yes := e.courier.concerns(runs)
		if !yes {
			now, err := e.family(ctx, root)
			if err == nil && len(now) == len(family) {
				return family, release, nil
			}
			release() // an errand has started one more
			continue
		}
		release()
		select {
		case <-moved:
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		}
	}
}

func (e *Engine) reserveAll(ctx context.Context, runs []workflow.RunID) (release func(), err error) {
	var held []func()
	release = func() {
		for _, r := range held {
			r()
		}
	}
	for i := len(runs) - 1; i >= 0; i-- { // the root first: nobody else reserves the others
		r, err := e.registry.reserve(ctx, runs[i])
		if err != nil {
			release()
			return nil, err
		}
		held = append(held, r)
	}
	return release, nil
}
