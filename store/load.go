package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// Load returns a handle of a run, its state as of the last commit, and the
// events that its file lacks. The state's TakeChanges returns what the file
// lacks as well: both go into the next Flush. It waits for flushes of the run that
// were asked for. It fails with ErrRunNotFound, and with ErrCorrupt or
// ErrVersion if the run cannot be trusted.
//
// It is the recovery of a run, after a crash as well as after it was passivated: the state of the
// file, with each record behind it applied as it was applied when it was planned. Nothing is
// planned anew, so the outcome does not depend on the version of the program or on the clock.
//
// The records that were applied are unflushed as far as the new handle is concerned. If a flush
// of an earlier handle is under way Load waits for it: the new handle would otherwise hand the
// same records to a flush once more, which refuses them because the file has them by then.
func (d *Dir) Load(id workflow.RunID) (*Run, *state.State, []decision.Event, error) {
	d.flusher.waitForRun(id)
	var events []decision.Event
	snap, s, err := d.loadState(context.Background(), id, func(es []decision.Event) { events = append(events, es...) })
	if err != nil {
		return nil, nil, nil, explainLoad("load", err)
	}
	r := d.newHandle(snap.Row, s.Graph)
	r.unflushed, r.appended = snap.entries, len(snap.entries)
	for _, e := range r.unflushed {
		r.bytes += e.ByteSize()
	}
	r.total += r.bytes
	return r, s, events, nil
}

// State returns the state of a run as of its last commit. It is the caller's
// own and independent of whoever owns the run.
//
// It neither waits for a flush nor makes a handle, so it disturbs nobody.
func (d *Dir) State(id workflow.RunID) (*state.State, error) {
	_, s, err := d.HeadAndState(context.Background(), id)
	return s, err
}

// HeadAndState returns the row of a run, and the state that State returns, as of one commit. It fails with the error of ctx when that is done.
func (d *Dir) HeadAndState(ctx context.Context, id workflow.RunID) (Head, *state.State, error) {
	snap, s, err := d.loadState(ctx, id, func([]decision.Event) {})
	if err != nil {
		return Head{}, nil, explainLoad("state", err)
	}
	return snap.Head, s, nil
}

// explainLoad says what was done to the error of a run that is there.
//
// That there is no such run is no failure, and stays as it is.
func explainLoad(what string, err error) error {
	if errors.Is(err, ErrRunNotFound) {
		return err
	}
	return fmt.Errorf("%s: %w", what, err)
}

// loadState makes the state of a run from its snapshot, whose file is closed when it returns.
func (d *Dir) loadState(ctx context.Context, id workflow.RunID, happened func([]decision.Event)) (*Snapshot, *state.State, error) {
	snap, err := d.openSnapshot(ctx, id)
	if err != nil {
		return nil, nil, err
	}
	defer snap.Close()
	if _, err := d.GraphUntil(ctx, snap.Definition); err != nil { // Replay has it at hand
		return nil, nil, err
	}
	s, err := snap.Replay(happened)
	return snap, s, err
}
