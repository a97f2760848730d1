package api

import (
	"context"
	"fmt"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

// cancelRun cancels a run. The engine reports no error for a run that has ended, so that a call may be repeated; here the
// caller is told if the run has ended otherwise than by being cancelled.
func cancelRun(ctx context.Context, p *performer, _ *Operation) error {
	if err := p.engine.Cancel(ctx, p.run, ""); err != nil {
		return err
	}
	var now workflow.Outcome
	if p.copied != nil {
		now = p.copied.Snapshot().Outcome
	} else {
		run, err := p.engine.Summary(ctx, p.run)
		if err != nil {
			return err
		}
		now = run.Outcome
	}
	if now.Status.Final() && now.Status != workflow.RunCancelled {
		return fmt.Errorf("run %q: %w (%v): nothing is changed", string(p.run), pawl.ErrEnded, now.Status)
	}
	return nil
}
