package pawl

import "context"

// Stats are numbers of an engine that is open, as Engine.Stats returns them.
//
// They are read under the locks of their owners, one after the other, and so need not agree to
// the last task.
type Stats struct {
	Active  int   `json:"active"`  // runs in memory
	Queued  int   `json:"queued"`  // tasks that wait for a slot, or for the limit of their type or tenant
	Running int   `json:"running"` // tasks that the executor has
	Pending int   `json:"pending"` // tasks whose results come later, through Complete
	Waiting int   `json:"waiting"` // results that wait to be committed
	Commits int64 `json:"commits"` // since Open: transactions, each of one message or of many

	Feed *FeedStats `json:"feed,omitzero"` // nil without Options.Feed
}

// Executor returns the one of Options, or what its method Unwrap returns, if it has one; nil if Options has none. Callers may ask it how
// it stands; only the engine gives it tasks. Error: ErrClosed.
func (e *Engine) Executor() (Executor, error) {
	if err := e.checkUsable(context.Background()); err != nil {
		return nil, err
	}
	if e.ctx.Err() != nil {
		return nil, ErrClosed
	}
	if _, ok := e.options.Executor.(*absentExecutor); ok {
		return nil, nil
	}
	if around, ok := e.options.Executor.(interface{ Unwrap() Executor }); ok {
		return around.Unwrap(), nil
	}
	return e.options.Executor, nil
}

// Stats returns what the engine does now. It looks at no run and costs the same however many
// there are. Errors: ErrClosed, the cause of ctx.
func (e *Engine) Stats(ctx context.Context) (Stats, error) {
	if err := e.checkUsable(ctx); err != nil {
		return Stats{}, err
	}
	switch {
	case ctx.Err() != nil:
		return Stats{}, context.Cause(ctx)
	case e.ctx.Err() != nil:
		return Stats{}, ErrClosed
	}
	out := Stats{Active: e.registry.Count(), Commits: e.dir.Commits(), Feed: e.feedStats()}
	c := e.dispatcher.Counts()
	out.Queued, out.Running, out.Waiting, out.Pending = c.Queued, c.Running, c.Waiting, c.Pending
	return out, nil
}
