package pawl

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/running"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/texts"
	"github.com/pawl-run/pawl/workflow"
)

// Start begins a run. When it returns nil the run is durable and proceeds by
// itself, also after a restart. Start again with the same id, definition, tenant, labels, MetaLimits and
// input is nil as well, so that it may be repeated; anything else under that id is ErrRunExists. A run that names no version executes the newest, and keeps it: a
// Start that is repeated accepts whichever published version the run has. input is
// an object, or nil for {}: anything that can be encoded as JSON, json.RawMessage and an io.Reader of JSON included. The warnings of a definition
// are logged, once. Errors: *workflow.DefinitionError, *workflow.InputError,
// *workflow.LimitError, *blob.Error (the input refers to a missing blob),
// ErrNotPublished, ErrInvalid (a bad id or tenant; a *LabelError), ErrBusy (also as a *TenantBusyError or a *TenantFullError), ErrUnknown, ErrClosed.
func (e *Engine) Start(ctx context.Context, run workflow.Run, input any) error {
	m, b, release, err := e.prepareStart(ctx, run, input)
	if err != nil {
		return err
	}
	defer e.runs.ReleaseAnswered(ctx, run.ID, release)
	for {
		if err := e.runs.TraceStart(ctx, run.ID, &m, b); err != nil {
			return err
		}
		e.hook.Hit("start.ask")
		err = e.runs.AskOrStart(ctx, run.ID, m, b)
		e.hook.Hit("start.answer")
		if !errors.Is(err, state.ErrRunExists) {
			return err
		}
		// A run that exists may be the very one that is to be started, by a caller who did not get
		// the first answer.
		if before := running.CheckStarted(ctx, e.dir, run, b); !errors.Is(before, ErrRunNotFound) {
			return before
		}
		// The run was purged in between, and begins anew.
	}
}

// prepareStart checks what Start is given, and returns the message that begins the run. release
// ends the hold on the blobs that the input refers to.
//
// Everything that can be refused without the run is refused here, before an actor is started for it. The blobs are pinned before
// the run is there to refer to them, so that CollectBlobs does not take them in between.
func (e *Engine) prepareStart(ctx context.Context, run workflow.Run, input any) (m state.Start, b *running.Birth, release func(), err error) {
	if m.Act, err = e.actOf(ctx); err != nil {
		return m, nil, nil, err
	}
	if err := errors.Join(texts.CheckRunID(run.ID), texts.CheckTenant(run.Tenant), checkLabels(run.Labels)); err != nil {
		return m, nil, nil, err
	}
	g, err := e.graphOfRun(ctx, run)
	if err != nil {
		return m, nil, nil, err
	}
	if err := running.TakeInput(&m, g, run.ID, input); err != nil {
		return m, nil, nil, err
	}
	if m.Pins, err = running.ResolvePins(ctx, e.dir, g, nil); err != nil {
		return m, nil, nil, err
	}
	if m.Limits, err = limitsOf(run.MetaLimits); err != nil {
		return m, nil, nil, err
	}
	// Labels are copied, since the caller may change its map.
	m.Tenant, m.Labels = run.Tenant, texts.KeptLabels(run.Labels)
	b = &running.Birth{Graph: g, InputHash: m.Text.Hash, Tenant: m.Tenant, Labels: m.Labels, Limits: m.Limits}
	release, err = e.blobs.PinInput(ctx, m)
	return m, b, release, err
}

// NewRunID returns an id that no other run has: a UUID of version 7, so that
// ids sort by the time of their making.
func NewRunID() workflow.RunID { return workflow.RunID(uuid.Must(uuid.NewV7()).String()) }

// graphOfRun returns the compiled definition of a run that is to be started.
//
// The definition stands in the call in one of two forms, or is published. Its warnings are logged here, because a caller of Start
// sees only errors.
func (e *Engine) graphOfRun(ctx context.Context, run workflow.Run) (*compiled.Graph, error) {
	forms := 0
	for _, given := range []bool{run.Definition != nil, run.Graph != nil, run.Workflow != ""} {
		if given {
			forms++
		}
	}
	switch {
	case run.Version < 0, run.Version > 0 && run.Workflow == "":
		return nil, fmt.Errorf("%w: run %q has the version %d: give one of a published Workflow, or 0 for the newest", ErrInvalid, string(run.ID), run.Version)
	case forms > 1:
		return nil, fmt.Errorf("%w: run %q has more than one of Definition, Graph and Workflow", ErrInvalid, string(run.ID))
	case forms == 0:
		return nil, fmt.Errorf("%w: run %q has neither a definition nor the name of one", ErrInvalid, string(run.ID))
	case run.Definition != nil:
		g, own, err := e.compileShared(run.Definition)
		if err == nil {
			e.faults.Warnings(e.ctx, run.Definition, g, own)
		}
		return g, err
	case run.Graph != nil:
		if run.Graph.Hash == "" {
			return nil, fmt.Errorf("%w: run %q has a graph that was not compiled: take what workflow.Compile returns", ErrInvalid, string(run.ID))
		}
		g, err := e.shareGraph(run.Graph)
		if err != nil {
			return nil, err
		}
		e.faults.Warnings(e.ctx, g.Definition, g, g)
		return g, nil
	}
	hash, err := running.FindDefinition(ctx, e.dir, run)
	if err != nil {
		return nil, closedError(err)
	}
	g, err := e.dir.GraphUntil(ctx, hash)
	if err != nil {
		return nil, closedError(err)
	}
	e.faults.Warnings(e.ctx, nil, g, nil)
	return g, nil
}

// shareGraph returns the graph that all runs of a definition share.
func (e *Engine) shareGraph(of *workflow.Graph) (*compiled.Graph, error) {
	if g := e.dir.Known(of.Hash); g != nil {
		return g, nil
	}
	g, err := compiled.Of(of)
	if err != nil {
		return nil, err
	}
	return e.dir.AddDefinition(g), nil
}

// compileShared returns the graph of an inline definition. Equal definitions share one graph, which is found by the hash of their
// JSON; own is what this call has compiled, nil if the definition was known. Two texts of one definition differ in own only: in
// the places of their warnings.
func (e *Engine) compileShared(d *workflow.Definition) (g, own *compiled.Graph, err error) {
	g, own, err = e.compileUnknown(d)
	if own != nil {
		g = e.dir.AddDefinition(own)
	}
	return g, own, err
}

// compileUnknown is compileShared that shares nothing.
func (e *Engine) compileUnknown(d *workflow.Definition) (g, own *compiled.Graph, err error) {
	if d == nil {
		return nil, nil, fmt.Errorf("%w: the definition is nil", ErrInvalid)
	}
	if hash, err := d.Hash(); err == nil { // Compile says what is wrong with one that has none
		if g := e.dir.Known(hash); g != nil {
			return g, nil, nil
		}
	}
	own, err = compiled.Compile(e.options.Bounds, d)
	return own, own, err
}

// Publish stores a definition under its name and version, for runs that are started by name, and returns its warnings, which are
// no error. The same again is nil; other content is ErrPublished: a published version never changes. It waits for a log outside
// of the directory no longer than ctx; the definition may be published then. Errors: *workflow.DefinitionError, ErrInvalid,
// ErrPublished, ErrUnknown, ErrNoSpace, ErrClosed, and the cause of ctx.
func (e *Engine) Publish(ctx context.Context, d *workflow.Definition) (warnings []workflow.Problem, err error) {
	if err := e.checkUsable(ctx); err != nil {
		return nil, err
	}
	g, own, err := e.compileShared(d)
	if err != nil {
		return nil, err
	}
	e.faults.Warnings(e.ctx, d, g, own)
	return e.faults.WarningsOf(d, g, own), closedError(e.callUntil(ctx, func() error { return e.dir.Publish(g) }))
}

// DryRunPublish says what Publish would do, and changes nothing: known reports whether the same is published already. Errors:
// those of Publish, ErrPublished if there is other content under the name and version.
func (e *Engine) DryRunPublish(ctx context.Context, d *workflow.Definition) (known bool, warnings []workflow.Problem, err error) {
	if err := e.checkUsable(ctx); err != nil {
		return false, nil, err
	}
	g, own, err := e.compileUnknown(d)
	if err != nil {
		return false, nil, err
	}
	known, err = e.dir.CheckPublish(ctx, g)
	return known, e.faults.WarningsOf(d, g, own), closedError(err)
}
