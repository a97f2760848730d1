package pawl

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/forking"
	"github.com/pawl-run/pawl/internal/late"
	"github.com/pawl-run/pawl/internal/refusal"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/texts"
	"github.com/pawl-run/pawl/internal/tracing"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/timeout"
	"github.com/pawl-run/pawl/workflow"
)

// ForkOptions say from which record a run is forked, and what happens to its unfinished tasks.
// The zero value forks its present state, or that before its end, and sends them again.
type ForkOptions struct {
	// At is the record after which the run is forked, from 1: of those that Journal lists.
	// 0 is the last one after which the run had not ended.
	At int64
	// InFlight says what happens to tasks and child runs that were unfinished. By default tasks are sent again, as the same
	// attempts, under keys of the fork, with the full timeout of an attempt, and child runs start anew.
	InFlight workflow.InFlight
	// Results complete some of these tasks at once, so that they are not sent again: at most
	// one for each task. A result that does not fit its node is refused.
	Results []workflow.ForkResult
	// Again lets Rerun repeat work that cannot be kept: without it, Rerun refuses to repeat tasks
	// that have completed in the other run and do not follow from the node.
	Again bool
}

// An AgainError says that a rerun would repeat work that has completed in the other run and does not follow from
// the node: it is ErrAgain.
type AgainError struct {
	Run   workflow.RunID
	Nodes []workflow.NodeID // whose tasks or children it would send again, or whose results it would lose
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

// Fork makes a new run from another, live or ended, as it was after one of its records.
// When it returns nil the fork is durable and complete, and proceeds by itself; the original does
// not change. The fork has the original's journal up to that record, and so its data, tokens, branches,
// votes, locks, kept signals, dead letters, staged artifacts, patches, pinned subworkflows, tenant and labels. The next
// record, the event workflow.forked, Inspect and Runs name the original.
//
// A timed wait continues for the time that was left at the instant of that record, or, if the original is
// live and the record is its last, for the time that is left now. Unfinished tasks and child runs
// belong to the original: see ForkOptions. A fork has no parent, and the fork of a paused or suspended
// run is paused or suspended. Blobs are shared, and stay until both runs are purged. Expressions that are
// evaluated from now on see the new run.id; a business key of Once that is made of it is a new key.
//
// [Simulation.SentAgain] of an [OfFork] says in advance what the fork would send again, and [Engine.SentAgain] says
// afterwards what it has sent.
//
// A second Fork of the same run with the same id, record (if it is given) and options is nil as
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

// Rerun makes a new run that performs a node of another run again, with everything that follows it, for instance to continue a failed
// run. It is a fork as of the record that made the node's token: the last token there, or the one that t names. The fork keeps the work
// that the original did before that record, and the work that has completed since and does not follow from that token, such as other
// branches of a fan-out around it: its results are taken over. If some of that work cannot be kept, such as a branch that
// maxConcurrency holds back until the node is done, Rerun fails with an *AgainError, unless o has Again, which sends it again. Tasks and
// child runs that never completed in the original are sent again, as by Fork. [Simulation.SentAgain] of an [OfFork] names them in
// advance, and [Engine.SentAgain] afterwards. If the run ended with that record, the fork is as of the record before. At of o is not
// used. Errors: ErrNotLive (there was no token of that id, or none at the node), ErrAgain, and those of Fork.
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
			e.runs.Wake(newID)
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
	if err := late.Cause(ctx); err != nil {
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
	return e.commitFork(ctx, f, span)
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
			return nil, refusal.InvalidPayload("a result that is given", err)
		}
		r.Output = v
		out = append(out, r)
	}
	return out, nil
}

// SentAgain returns the nodes whose tasks and child runs a fork sent again when it was made, or will send when it is
// resumed: those that were unfinished in the original as of its record, or that Again has allowed. The node of a rerun
// is not among them. It is empty for a run that is not a fork. Errors: ErrRunNotFound, ErrCorrupt, ErrClosed.
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

// commitFork makes the fork durable, in one transaction, and tells of it. Its place in the roster stays for its actor.
func (e *Engine) commitFork(ctx context.Context, f *forking.Fork, span *tracing.Beginning) error {
	if err := forking.CheckFree(ctx, e.dir, f.Message.Run); err != nil {
		return err
	}
	release, err := e.blobs.PinReferences(ctx, f.GivenValues(), f.State.Artifacts...)
	if err != nil {
		return err
	}
	defer release()
	leave, err := e.registry.ReservePlace(f.Message.Run, f.State.Tenant)
	if err != nil {
		return err
	}
	made := false
	defer func() {
		if !made {
			leave()
		}
	}()
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
	span.End()
	began := e.metrics.Now()
	err = run.CommitAndTell(f.State, f.Records, e.feeder.WantedEvents(f.Told))
	e.watches.TellCommit(run, f.Records, err)
	if made = err == nil; made {
		e.metrics.Committed(f.State, f.Records[len(f.Records)-1:], f.Told, began) // the others are the original's
		e.tracer.Committed(f.State, f.Records, f.Told)
	}
	if err = errors.Join(err, run.Close()); err != nil {
		return closedError(err)
	}
	e.hook.Hit("fork.answer")
	e.runs.Committed(decision.Outcome(f.State))
	return nil
}
