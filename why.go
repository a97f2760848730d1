package pawl

import (
	"context"

	"github.com/pawl-run/pawl/replay"
	"github.com/pawl-run/pawl/workflow"
)

// An Explanation says why a run stands where it stands.
type Explanation = replay.Explanation

// A Wait is what one token of a run waits for, or several that wait alike.
type Wait = replay.Wait

// Why says what every token of a run waits for, until when, whether that can still come, and
// how the token came there: by which transition, which conditions were asked and what they
// read. Of a run that failed it says what failed first. What is to be done comes first. It
// plays the journal of the run, in time in proportion to its records, and does not disturb
// the run. Errors: ErrRunNotFound, ErrCorrupt, ErrClosed.
func (e *Engine) Why(ctx context.Context, id workflow.RunID) (Explanation, error) {
	if err := e.checkUsable(ctx); err != nil {
		return Explanation{}, err
	}
	h, err := e.dir.Head(id)
	if err != nil {
		return Explanation{}, closedError(err)
	}
	g, err := e.dir.Graph(h.Definition)
	if err != nil {
		return Explanation{}, closedError(err)
	}
	x, err := replay.Why(replay.New(id, g, listUntilDone(ctx, e.dir.History(id))))
	return x, closedError(err)
}
