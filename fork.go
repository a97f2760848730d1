package pawl

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/forking"
	"github.com/pawl-run/pawl/internal/refusal"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/texts"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/timeout"
	"github.com/pawl-run/pawl/workflow"
)

// ForkOptions say as of when a run is forked, and what becomes of the tasks that were out
// then. The zero value forks it as it stands, or stood before it ended, and sends them again.
type ForkOptions struct {
	// At is the record after which the run is forked, from 1: of those that Journal lists.
	// 0 is the last one after which the run had not ended.
	At int64
	// InFlight says what becomes of tasks and child runs that were out. By default tasks are
	// sent again, as the same attempts, under keys of the fork, with the whole timeout of an
	// attempt, and child runs start anew.
	InFlight workflow.InFlight
	// Results are what some of these tasks come to at once, in place of being sent again: at
	// most one for each. A result that does not fit its node is refused.
	Results []workflow.ForkResult
	// Again lets Rerun do again what cannot be kept: without it, Rerun refuses to send what has
	// completed in the other run and does not follow from the node.
	Again bool
}

// An AgainError says that a rerun would do again what has completed in the other run and does not follow from
// the node: it is ErrAgain.
type AgainError struct {
	Run   workflow.RunID
	Nodes []workflow.NodeID // whose tasks or children it would send again
}

// Error names the nodes.
func (e *AgainError) Error() string { return (*forking.AgainError)(e).Error() }

// Unwrap returns ErrAgain.
func (e *AgainError) Unwrap() error { return ErrAgain }

// A ForkError says why a run cannot be forked as of a record.
type ForkError struct {
	Run    workflow.RunID
	Record int64 // the fork was to be as of this one
	Last   int64 // its last record
	Err    error // ErrEnded: the run had ended by then; ErrInvalid: it has no such record
}

// Error names the run and the record, and up to which record the run can be forked.
func (e *ForkError) Error() string { return (*forking.Error)(e).Error() }

// Unwrap returns Err.
func (e *ForkError) Unwrap() error { return e.Err }

// Fork makes a new run of another one, live or ended, as that was after one of its records.
// When it returns nil the fork is durable, whole, and proceeds by itself; the run that was
// forked does not notice. The fork has its journal up to that record, and so its data, tokens, branches,
// votes, locks, kept signals, dead letters, staged artifacts, patches, pinned subworkflows, tenant and labels. Its
// record behind these tells that it is a fork, and of what, as Inspect and Runs do; so does the event workflow.forked.
//
// A wait for time goes on for as long as was left at the instant of that record, or, if the run is
// live and the record is its last, for as long as is left now. Tasks and child runs that were out
// belong to the other run: see ForkOptions. A fork has no parent, and one of a paused or suspended
// run is so as well. Blobs are shared, and stay until both runs are purged. run.id is the new id in
// what is evaluated from now on; a business key of Once that is made of it is a new one.
//
// [Simulation.SentAgain] of an [OfFork] says before what the fork would send again, and [Engine.SentAgain] says
// afterwards what it has sent.
//
// Fork again of the same run with the same id, record (if it is given) and options is nil as
// well, so that it may be repeated; anything else under that id is ErrRunExists.
//
// Errors: ErrRunNotFound (there is no such run, or it was purged), ErrRunExists, *ForkError (At is not one
// of its records, or it had ended by then), ErrNotLive or ErrAmbiguous (a result names no
// task that was out, or several), *workflow.Failure and *workflow.SchemaError (a result does
// not fit its node), *workflow.LimitError (the run takes more than 128 MiB), *blob.Error (an artifact that
// the run had staged was collected since it failed), ErrInvalid, ErrBusy, ErrCorrupt,
// ErrUnknown, ErrClosed.
func (e *Engine) Fork(ctx context.Context, id, newID workflow.RunID, o ForkOptions) error {
	return e.forkAs(ctx, newID, Target{Run: id}, o)
}

// Rerun makes a new run that performs a node of another one again, and what follows it: a
// fork as of the record that made the node's token, the last one there or the one that t
// names. So a run that failed is continued. The fork does not do again the work that the other run did before, nor the work that has
// completed there since and does not follow from that token, such as the other branches of a fan-out around it: that work completes in the
// fork as it has there. Rerun is refused, with an *AgainError, if some of it cannot be kept, such as a branch that maxConcurrency holds
// back until the node is done; with Again of o that is sent again. Tasks and child runs that were out in the other run and never completed
// there are sent again, as Fork does. [Simulation.SentAgain] of an [OfFork] names all that before, and [Engine.SentAgain] afterwards. If
// the run ended with that record, the fork is as of the one before. At of o is not used. Errors: ErrNotLive (there was no token of that
// id, or none at the node), ErrAgain, and those of Fork.
func (e *Engine) Rerun(ctx context.Context, t Target, newID workflow.RunID, o ForkOptions) error {
	if err := checkRerun(t, o); err != nil {
		return err
	}
	return e.forkAs(ctx, newID, t, o)
}

// checkRerun returns an error if Rerun is not told what to do, or too much.
func checkRerun(t Target, o ForkOptions) error {
	switch {
	case o.At != 0:
		return fmt.Errorf("%w: a rerun finds its record, and takes none", ErrInvalid)
	case t.Node == "" && t.Token == 0:
		return fmt.Errorf("%w: name the node to rerun, or one of its threads", ErrInvalid)
	}
	return nil
}

// forkAs forks a run, from a node on if t names one.
func (e *Engine) forkAs(ctx context.Context, newID workflow.RunID, t Target, o ForkOptions) error {
	m, err := e.prepareFork(ctx, newID, t, o)
	if err != nil {
		return err
	}
	if exists, err := forking.CheckForked(ctx, e.dir, &m); exists || err != nil {
		return err
	}
	err = e.callUntil(ctx, func() error {
		err := e.makeFork(ctx, m)
		if err == nil {
			e.wakeFork(newID)
		}
		return err
	})
	if errors.Is(err, ErrRunExists) {
		if exists, again := forking.CheckForked(ctx, e.dir, &m); exists || again != nil {
			return again
		}
	}
	return err
}

// prepareFork checks what Fork is given, and returns the message that makes the run.
func (e *Engine) prepareFork(ctx context.Context, newID workflow.RunID, t Target, o ForkOptions) (m state.RunForked, err error) {
	m = state.RunForked{Run: newID, From: workflow.ForkPoint{Run: t.Run, Record: o.At}, InFlight: o.InFlight, Node: t.Node, Token: t.Token, Again: o.Again}
	if m.Act, err = e.actOf(ctx); err != nil {
		return m, err
	}
	if err := texts.CheckRunID(newID); err != nil {
		return m, err
	}
	if t.Run == newID {
		return m, fmt.Errorf("%w: run %q is no fork of itself: name another id", ErrRunExists, string(newID))
	}
	if err := ctx.Err(); err != nil {
		return m, err
	}
	m.Results, err = o.normalResults()
	return m, err
}

// makeFork reads the run, and commits the fork. Nobody else reaches the fork before those who
// watch have been told of it, and a run that had its id is purged before it gets its keys.
func (e *Engine) makeFork(ctx context.Context, m state.RunForked) error {
	release, err := e.registry.Block(ctx, m.Run)
	if err != nil {
		return err
	}
	defer release()
	source, err := e.dir.ReadForkSource(ctx, m.From.Run)
	if err != nil {
		return closedError(err)
	}
	span := e.tracer.BeginFork(ctx, &m, source.Head.Workflow, source.Head.Version, source.Records)
	f, err := forking.Plan(source, m, e.dispatchEpoch(), timeout.Instant(e.hook.Now()))
	if err != nil {
		return err
	}
	span.End()
	return e.commitFork(ctx, f)
}

// normalResults checks the options and returns the results as values of the JSON model.
func (o *ForkOptions) normalResults() ([]workflow.ForkResult, error) {
	switch {
	case o.At < 0:
		return nil, fmt.Errorf("%w: record %d: records count from 1", ErrInvalid, o.At)
	case o.InFlight != workflow.InFlightAgain && o.InFlight != workflow.InFlightPark:
		return nil, fmt.Errorf("%w: InFlight %q: use workflow.InFlightAgain or InFlightPark", ErrInvalid, string(o.InFlight))
	}
	var out []workflow.ForkResult
	for _, r := range o.Results {
		v, err := value.Normalize(r.Output, resultLimits)
		if err != nil {
			return nil, refusal.InvalidValue("a result that is given", err)
		}
		r.Output = v
		out = append(out, r)
	}
	return out, nil
}

// SentAgain returns the nodes whose tasks and child runs a fork has sent again as it was made, or will when it is
// resumed: those that were out in the other run as of its record, or that Again has allowed. The node of a rerun
// is not among them. It is empty of a run that is no fork. Errors: ErrRunNotFound, ErrCorrupt, ErrClosed.
func (e *Engine) SentAgain(ctx context.Context, id workflow.RunID) (again []workflow.NodeID, err error) {
	if err := e.checkUsable(ctx); err != nil {
		return nil, err
	}
	source, err := e.dir.ReadForkSource(ctx, id)
	if err == nil {
		again, err = forking.ListSentAgain(source, id)
	}
	return again, closedError(err)
}

// commitFork makes the fork durable, in one transaction, and tells of it.
func (e *Engine) commitFork(ctx context.Context, f *forking.Fork) error {
	release, err := e.blobs.PinReferences(ctx, f.GivenValues(), f.State.Artifacts...)
	if err != nil {
		return err
	}
	defer release()
	if err := e.registry.CheckRoom(f.State.Tenant); err != nil {
		return err
	}
	unpin, err := e.blobs.PutMerged(e.ctx, f.Blobs)
	if err != nil {
		return err
	}
	defer unpin()
	run, err := e.dir.NewFork(f.Message.Run, f.Source)
	if err != nil {
		return err
	}
	e.hook.Hit("fork.ask")
	began := e.metrics.Now()
	err = run.CommitAndTell(f.State, f.Records, e.feeder.WantedEvents(f.Told))
	e.watches.TellCommit(run, f.Records, err)
	if err == nil {
		e.metrics.Committed(f.State, f.Records, f.Told, began)
		e.tracer.Committed(f.State, f.Told)
	}
	if err = errors.Join(err, run.Close()); err != nil {
		return closedError(err)
	}
	e.hook.Hit("fork.answer")
	e.runs.Committed(decision.Outcome(f.State))
	return nil
}

// wakeFork sets a fork going. An actor that had looked for the run before it was there may still be about to say that there is no such
// run.
func (e *Engine) wakeFork(id workflow.RunID) {
	for range 3 {
		err := e.runs.Activate(id)
		if err == nil {
			return
		}
		if !errors.Is(err, ErrRunNotFound) {
			break
		}
	}
	e.runs.Wake(id)
}
