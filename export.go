package pawl

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/exporting"
	"github.com/pawl-run/pawl/internal/forking"
	"github.com/pawl-run/pawl/internal/importing"
	"github.com/pawl-run/pawl/internal/keeping"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/texts"
	"github.com/pawl-run/pawl/replay"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/timeout"
	"github.com/pawl-run/pawl/workflow"
)

// ExportOptions say what is in an export besides the runs.
type ExportOptions struct {
	Blobs    bool // include the blobs that the runs refer to, if they exist
	AllBlobs bool // likewise, and fail with blob.ErrMissing if one does not exist
}

// Export writes a run, live or ended, with all its descendants, as one self-contained text:
// their definitions and their journals, line by line in JSON, with a checksum
// at the end. pawl replay, step, diff, why and coverage read it, wherever it is; exports may be
// concatenated into one file. Each run is as of one of its commits; a live run is as of now. The export contains in
// clear text all values that Options.Codec seals. Without ExportOptions.Blobs it has only references to blobs; artifacts
// that were staged with a result, and not kept when the run ended, are never in it.
//
// Until Export has returned nil, the text is incomplete, and readers refuse it. Errors: ErrRunNotFound,
// ErrCorrupt, *blob.Error, the error of w, the cause of ctx.
func (e *Engine) Export(ctx context.Context, id workflow.RunID, w io.Writer, o ExportOptions) error {
	if err := e.checkCall(ctx); err != nil {
		return err
	}
	return exporting.Write(ctx, exporting.Source{Dir: e.dir, Blobs: e.blobs}, id, w, o.Blobs, o.AllBlobs)
}

// Import makes a run from a recorded one, such as replay.Find opens in an export, an archive, or the file of a run of another
// directory. The new run is a fork (see Fork and ForkOptions) of a run that is not here: it has the records of that run, continues
// from where that run was or, if it had ended, from before its last record, and sends its unfinished tasks again under keys of the
// new run. newID must be free; it may be the recorded id, so that others who know tasks by run and token recognize them: the
// run is then forked from one of its own name. To import the same again returns nil.
//
// Import does not trust the records: it plans each again, and the decisions must be the recorded ones. It imports nothing unless
// everything is there: the definition keeps to Options.Bounds, the blobs that the run refers to are in this directory or in the
// export (see ExportOptions), and the definitions that its subworkflows are pinned to are in this directory.
//
// Errors: *ImportError (which record differs), errors of reading the recording (replay.ErrRedacted, ErrCorrupt),
// *blob.Error, *workflow.DefinitionError, and those of Fork.
func (e *Engine) Import(ctx context.Context, recording Recording, newID workflow.RunID, o ForkOptions) error {
	from, _ := recording.(*replay.Recording)
	m, err := e.prepareImport(ctx, from, newID, o)
	if err != nil {
		return err
	}
	if exists, err := forking.CheckForked(ctx, e.dir, &m); exists || err != nil {
		return err
	}
	source, err := importing.Read(ctx, from, importHost{e})
	if err != nil {
		return err
	}
	if err = e.commitImport(ctx, from, source, m); err == nil {
		e.runs.Wake(newID)
	}
	if errors.Is(err, ErrRunExists) {
		if exists, again := forking.CheckForked(ctx, e.dir, &m); exists || again != nil {
			return again
		}
	}
	return err
}

// simulateImport is Import up to the commit.
func (e *Engine) simulateImport(ctx context.Context, from *replay.Recording, newID workflow.RunID, o ForkOptions) (*Simulation, error) {
	m, err := e.prepareImport(ctx, from, newID, o)
	if err != nil {
		return nil, err
	}
	read := func() (*store.ForkSource, error) { return importing.Read(ctx, from, importHost{e}) }
	return e.simulateForkOf(ctx, m, read, func(sim *Simulation, source *store.ForkSource, records []decision.Record) error {
		if err := importing.CheckState(sim.copy.State, e.options.Bounds, e.dir); err != nil {
			return err
		}
		return e.blobs.TakeMissing(ctx, from.ReadBlobs, source.BlobRefs(records), keeping.CheckBlob)
	})
}

// prepareImport checks what Import is given, and returns the message that makes the run.
func (e *Engine) prepareImport(ctx context.Context, from *replay.Recording, newID workflow.RunID, o ForkOptions) (m state.RunForked, err error) {
	if err := e.checkUsable(ctx); err != nil {
		return m, err
	}
	act, err := e.actOf(ctx)
	if err == nil {
		err = errors.Join(texts.CheckRunID(newID), checkRecording(from))
	}
	if err != nil {
		return m, err
	}
	m = state.RunForked{Run: newID, From: workflow.ForkPoint{Run: from.Run, Record: o.At}, Moved: from.Run == newID, InFlight: o.InFlight, Act: act}
	m.Results, err = o.normalResults()
	return m, err
}

// checkRecording refuses a recording that is nil, as that of another package is.
func checkRecording(from *replay.Recording) error {
	if from == nil {
		return fmt.Errorf("%w: the recording is nil, or not of package replay", ErrInvalid)
	}
	return nil
}

// An ImportError says that this planner decides a recorded run differently: somebody has changed the recording, or
// another version has made it.
type ImportError struct {
	Run    workflow.RunID
	Record int64
	Was    string // the first decision that differs, as it is recorded; "" if there was none
	Is     string // what is decided now, or why nothing is
}

// Error names the record.
func (e *ImportError) Error() string { return (*importing.Error)(e).Error() }

// Unwrap returns ErrInvalid.
func (e *ImportError) Unwrap() error { return ErrInvalid }

// importHost is the engine as imports see it.
type importHost struct{ engine *Engine }

// CompileDefinition implements importing.Host.
func (h importHost) CompileDefinition(d *workflow.Definition) (*compiled.Graph, error) {
	g, _, err := h.engine.compileShared(d)
	return g, err
}

// CheckLabels implements importing.Host.
func (h importHost) CheckLabels(labels map[string]string) error { return checkLabels(labels) }

// commitImport decides the record that makes the run, and commits all of it, if what it needs is here. As of a fork, nobody
// reaches the run before it is told, and one that had its id is purged before it gets its keys.
func (e *Engine) commitImport(ctx context.Context, from *replay.Recording, source *store.ForkSource, m state.RunForked) error {
	release, err := e.registry.Block(ctx, m.Run)
	if err != nil {
		return err
	}
	defer release()
	span := e.tracer.BeginFork(ctx, &m, source.Head.Workflow, source.Head.Version, source.Records)
	f, err := forking.Plan(source, m, e.dispatchEpoch(), timeout.Instant(e.hook.Now()))
	if err != nil {
		return err
	}
	if err := importing.CheckState(f.State, e.options.Bounds, e.dir); err != nil {
		return err
	}
	hashes := source.BlobRefs(f.Records)
	kept, err := e.blobs.Hold(ctx, hashes...)
	if err != nil {
		return err
	}
	defer kept()
	if err := e.blobs.TakeMissing(ctx, from.ReadBlobs, hashes, e.blobs.PutBlob); err != nil {
		return err
	}
	return e.commitFork(ctx, f, span)
}
