package pawl

import (
	"context"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/replay"
	"github.com/pawl-run/pawl/workflow"
)

// An Event tells what has changed in a run. Engine.Events lists them: those of
// a run are numbered from 1 without gaps.
type Event = decision.Event

// An EventType names what happened, as in task.completed. Its values are the
// constants of package workflow, from [workflow.EventWorkflowStarted] on.
type EventType = workflow.EventType

// A Record is one message that a run has taken, with the decisions on it.
// Engine.Journal lists them. The types of its message are internal: print it.
type Record = decision.Record

// An Explanation says why a run stands where it stands.
type Explanation = replay.Explanation

// A Wait is what one token of a run waits for, or several that wait alike.
type Wait = replay.Wait

// Why says what every token of a run waits for, until when, whether that can still come, and
// how the token came there: by which transition, which conditions were asked and what they
// read. For a run that failed it says what failed first, down through the child runs. Things to be done come first. It
// plays the journal of the run, and of child runs that failed, in time in proportion to their records, and does not disturb
// the run. Errors: ErrRunNotFound, ErrCorrupt, ErrClosed.
func (e *Engine) Why(ctx context.Context, id workflow.RunID) (Explanation, error) {
	rec, err := e.Recording(ctx, id)
	if err != nil {
		return Explanation{}, err
	}
	x, err := replay.Why(rec)
	if err == nil {
		err = x.ExplainBelow(func(child workflow.RunID) (*replay.Recording, error) { return e.Recording(ctx, child) })
	}
	e.dispatcher.MarkWaits(id, x.Waits)
	return x, closedError(err)
}

// Recording returns a run as package replay looks at it: after any of its records, compared
// with another run, on another definition. Each look reads the journal as it is then, and
// ends when ctx is done. Errors: ErrRunNotFound, ErrCorrupt, ErrClosed.
func (e *Engine) Recording(ctx context.Context, id workflow.RunID) (*replay.Recording, error) {
	if err := e.checkUsable(ctx); err != nil {
		return nil, err
	}
	h, err := e.dir.HeadUntil(ctx, id)
	if err != nil {
		return nil, closedError(err)
	}
	g, err := e.dir.GraphUntil(ctx, h.Definition)
	if err != nil {
		return nil, closedError(err)
	}
	return replay.New(id, g, listUntilDone(ctx, e.dir.HistoryUntil(ctx, id, 0))), nil
}

// OpenRecording returns what replay.Find opens of a name: the file of a run, an export, an archive, or a run of another
// directory. It opens with Options.Codec what was sealed with the keys of this engine. Close it. Errors: those of replay.Find,
// *SealedError, ErrClosed.
func (e *Engine) OpenRecording(name string) (*replay.Recording, error) {
	if err := e.checkUsable(context.Background()); err != nil {
		return nil, err
	}
	if e.ctx.Err() != nil {
		return nil, ErrClosed
	}
	return replay.FindSealed(name, e.options.Codec)
}
