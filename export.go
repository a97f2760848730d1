package pawl

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/keeping"
	"github.com/pawl-run/pawl/internal/portable"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/texts"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/replay"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/workflow"
)

// ExportOptions say what is in an export besides the runs.
type ExportOptions struct {
	Blobs bool // those that the runs refer to and that are there
}

// Export writes a run, live or ended, with all runs below it, as one text that depends on
// nothing around it: their definitions and their journals, line by line in JSON, with a checksum
// at the end. pawl replay, step, diff, why and coverage read it, wherever it is; exports may be put one
// behind the other into one file. Each run is as of one of its commits; a live run is as of now. The export has in
// clear text what Options.Codec seals. Without ExportOptions.Blobs there are only references to blobs in it; nothing
// that was handed over with a result, and not kept when the run ended, is in it either way.
//
// Until Export has returned nil, the text is not an export, and is not taken for one. Errors: ErrRunNotFound,
// ErrCorrupt, *blob.Error, that of w, the cause of ctx.
func (e *Engine) Export(ctx context.Context, id workflow.RunID, w io.Writer, o ExportOptions) error {
	if err := e.checkUsable(ctx); err != nil {
		return err
	}
	h, err := e.dir.HeadUntil(ctx, id)
	if err != nil {
		return closedError(err)
	}
	to, err := portable.NewWriter(w, id)
	if err != nil {
		return err
	}
	x := &exporter{engine: e, to: to, blobs: map[string]bool{}}
	family := []store.Head{h}
	for i := 0; i < len(family); i++ {
		if err := x.exportRun(ctx, &family[i]); err != nil {
			return fmt.Errorf("export run %q: %w", string(family[i].Run), closedError(err))
		}
		for h, err := range e.dir.HeadsUntil(ctx, store.RunFilter{Parent: family[i].Run}) {
			if err != nil {
				return closedError(err)
			}
			family = append(family, h)
		}
	}
	if o.Blobs {
		if err := x.exportBlobs(ctx); err != nil {
			return fmt.Errorf("export run %q: %w", string(id), err)
		}
	}
	return to.Close()
}

// An exporter writes one export.
type exporter struct {
	engine *Engine
	to     *portable.Writer
	blobs  map[string]bool // the hashes of those that the runs refer to
}

// exportRun writes one run.
func (x *exporter) exportRun(ctx context.Context, h *store.Head) error {
	g, err := x.engine.dir.GraphUntil(ctx, h.Definition)
	if err != nil {
		return err
	}
	err = x.to.WriteRun(&portable.Run{
		ID: h.Run, Parent: h.Parent, Root: h.Root, Tenant: h.Tenant, Labels: h.Labels, InputHash: h.InputHash, Hash: h.Definition, Definition: []byte(g.JSON),
	})
	if err != nil {
		return err
	}
	for r, err := range x.engine.dir.HistoryUntil(ctx, h.Run, 0) {
		if err == nil {
			err = ctx.Err()
		}
		if err == nil {
			err = x.to.WriteRecord(&r)
		}
		if err != nil {
			return err
		}
		for _, hash := range store.BlobRefs(g, r) {
			x.blobs[hash] = true
		}
	}
	return nil
}

// exportBlobs writes the blobs that the runs refer to.
func (x *exporter) exportBlobs(ctx context.Context) error {
	for _, hash := range slices.Sorted(maps.Keys(x.blobs)) {
		r, err := x.engine.blobs.Open(ctx, hash)
		if errors.Is(err, blob.ErrMissing) {
			continue
		}
		if err != nil {
			return keeping.Error(err)
		}
		err = x.to.WriteBlob(hash, r)
		if err := errors.Join(err, r.Close()); err != nil {
			return keeping.Error(err)
		}
	}
	return nil
}

// Import makes a run of a recorded one, such as replay.Find opens of an export, an archive, or the file of a run of another
// directory. It is a fork (see Fork and ForkOptions) of a run that is not here: it has the records of that one, goes on from
// where that one was or, if it had ended, from before its last record, and its tasks that were out are sent again under keys of the
// new run. newID must be free; it may be the recorded one, with which whoever knows tasks by their run and token knows them again: the
// run is then forked from one of its own name. The same import again is nil.
//
// The records are not believed: each is planned again, and must decide what it says. Nothing is imported unless
// everything is there: the definition keeps to Options.Bounds, the blobs that the run refers to are in this directory or in the
// export (see ExportOptions), and the definitions that its subworkflows are pinned to are in this directory.
//
// Errors: *ImportError (which record differs), those of reading the recording (replay.ErrRedacted, ErrCorrupt),
// *blob.Error, *workflow.ValidationError, and those of Fork.
func (e *Engine) Import(ctx context.Context, recording Recording, newID workflow.RunID, o ForkOptions) error {
	from, _ := recording.(*replay.Recording)
	m, err := e.prepareImport(ctx, from, newID, o)
	if err != nil {
		return err
	}
	if exists, err := e.forkedBefore(ctx, &m); exists || err != nil {
		return err
	}
	source, err := e.readImported(ctx, from)
	if err != nil {
		return fmt.Errorf("import run %q: %w", string(from.Run), err)
	}
	if err = e.commitImport(ctx, from, source, m); err == nil {
		e.wakeFork(newID)
	}
	if errors.Is(err, ErrRunExists) {
		if exists, again := e.forkedBefore(ctx, &m); exists || again != nil {
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
	read := func() (*store.ForkSource, error) {
		source, err := e.readImported(ctx, from)
		if err != nil {
			return nil, fmt.Errorf("import run %q: %w", string(from.Run), err)
		}
		return source, nil
	}
	return e.simulateForkOf(ctx, m, read, func(sim *Simulation, source *store.ForkSource, records []decision.Record) error {
		if err := e.checkImported(sim.state); err != nil {
			return err
		}
		return e.takeBlobs(ctx, from, source.BlobRefs(records), checkBlob)
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

// An ImportError says that a recorded run was not decided by this planner: somebody has changed it, or another
// version has made it.
type ImportError struct {
	Run    workflow.RunID
	Record int64
	Was    string // the first decision that differs, as it is recorded; "" if there was none
	Is     string // what is decided now, or why nothing is
}

// Error names the record.
func (e *ImportError) Error() string {
	return fmt.Sprintf("run %q is not imported: record %d was not decided by this planner: was %.200q, is %.200q", string(e.Run), e.Record, e.Was, e.Is)
}

// Unwrap returns ErrInvalid.
func (e *ImportError) Unwrap() error { return ErrInvalid }

// readImported reads a recorded run, and plans it again.
//
// Playing it once more with this version's planner is the only proof that the records can be
// trusted: a checksum would say that they were not changed by accident, and not that they were
// decided by the rules.
func (e *Engine) readImported(ctx context.Context, from *replay.Recording) (*store.ForkSource, error) {
	seen, err := replay.Check(from)
	if err != nil {
		return nil, err
	}
	if d := seen.Difference; d != nil {
		return nil, &ImportError{Run: from.Run, Record: d.Seq, Was: d.Was, Is: cmp.Or(d.Is, d.Refused)}
	}
	g, _, err := e.compileShared(from.Definition())
	if err != nil {
		return nil, err
	}
	var records []decision.Record
	for r, err := range from.Records() {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return nil, err
		}
		records = append(records, r)
	}
	start, ok := records[0].Message.(state.Start)
	if !ok {
		return nil, fmt.Errorf("%w: its first record starts nothing", ErrInvalid)
	}
	if err := errors.Join(texts.CheckRunID(from.Run), texts.CheckTenant(start.Tenant), checkLabels(start.Labels)); err != nil {
		return nil, err
	}
	head := store.Head{Run: from.Run, Status: seen.Status, InputHash: value.Hash(start.Input), Tenant: start.Tenant, Labels: start.Labels}
	return store.NewForkSource(head, g, records)
}

// commitImport decides the record that makes the run, and commits all of it, if what it needs is here. As of a fork, nobody
// reaches the run before it is told, and one that had its id is purged before it gets its keys.
func (e *Engine) commitImport(ctx context.Context, from *replay.Recording, source *store.ForkSource, m state.RunForked) error {
	release, err := e.registry.Block(ctx, m.Run)
	if err != nil {
		return err
	}
	defer release()
	f, err := e.planFork(source, m)
	if err != nil {
		return err
	}
	if err := e.checkImported(f.state); err != nil {
		return err
	}
	hashes := source.BlobRefs(f.records)
	e.blobs.Pin(hashes...)
	defer e.blobs.Unpin(hashes...)
	if err := e.takeBlobs(ctx, from, hashes, e.putBlob); err != nil {
		return err
	}
	return e.commitFork(ctx, f)
}

// checkImported says what an imported run lacks here: that the bounds allow its definition, and the definitions of its subworkflows.
func (e *Engine) checkImported(s *state.State) error {
	if _, err := e.options.Bounds.Compile(s.Graph.Definition); err != nil { // it may be patched
		return err
	}
	for _, pin := range s.Pins {
		if _, err := e.dir.Graph(pin.Hash); err != nil {
			return fmt.Errorf("%w: the run needs the subworkflow %s@%d with the hash %.12s: publish it here", ErrInvalid, pin.Name, pin.Version, pin.Hash)
		}
	}
	return nil
}

// takeBlobs calls take with the blobs that are not here yet, if the recording comes with them.
//
// Blobs that are here already are not read from the export. take is putBlob for an import and
// checkBlob for a simulation, so that both fail for the same exports.
func (e *Engine) takeBlobs(ctx context.Context, from *replay.Recording, hashes []string, take func(context.Context, string, io.Reader) error) error {
	missing := map[string]error{}
	for _, hash := range hashes {
		if _, err := e.blobs.Stat(ctx, hash); errors.Is(err, blob.ErrMissing) {
			missing[hash] = err
		} else if err != nil {
			return keeping.Error(err)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	err := from.ReadBlobs(func(hash string, content io.Reader) error {
		if missing[hash] == nil {
			return nil
		}
		delete(missing, hash)
		return take(ctx, hash, content)
	})
	if err != nil {
		return fmt.Errorf("the run refers to a blob: %w", keeping.Error(err))
	}
	for _, hash := range hashes {
		if err := missing[hash]; err != nil {
			return fmt.Errorf("the run refers to a blob: put it here first: %w", keeping.Error(err))
		}
	}
	return nil
}

// putBlob stores the content of a blob.
func (e *Engine) putBlob(ctx context.Context, hash string, content io.Reader) error {
	stored, _, err := e.blobs.Put(ctx, content)
	if err == nil && stored != hash {
		err = &blob.Error{Hash: hash, Err: blob.ErrDamaged, Detail: "in the export"}
	}
	return err
}

// checkBlob reads the content of a blob, and stores nothing.
//
// It is the counterpart of putBlob, and finds the same faults.
func checkBlob(ctx context.Context, hash string, content io.Reader) error {
	sum := sha256.New()
	if _, err := io.Copy(sum, content); err != nil {
		return err
	}
	if hash != fmt.Sprintf("sha256:%x", sum.Sum(nil)) {
		return &blob.Error{Hash: hash, Err: blob.ErrDamaged, Detail: "in the export"}
	}
	return ctx.Err()
}
