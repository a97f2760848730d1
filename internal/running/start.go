package running

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/limits"
	"github.com/pawl-run/pawl/internal/refusal"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/workflow"
)

// CheckStarted returns nil if the run that exists is the one to be started.
//
// All that Start was given must be the same, since a caller who repeats it relies on that run.
// Without a version any published one is the same, for a newer one may have come between the
// two calls.
func CheckStarted(ctx context.Context, dir *store.Dir, run workflow.Run, b *Birth) error {
	h, err := dir.HeadUntil(ctx, run.ID)
	if err != nil {
		return refusal.Closed(err)
	}
	same := h.Definition == b.Graph.Hash
	if !same && anyVersion(run) {
		if same, err = isPublished(ctx, dir, run.Workflow, &h); err != nil {
			return err
		}
	}
	switch {
	// A fork has the input and definition of a run, and is another run all the same.
	case h.ForkedFrom.Run != "":
		return fmt.Errorf("%w: run %q was forked from run %q", state.ErrRunExists, string(run.ID), string(h.ForkedFrom.Run))
	case !same:
		return fmt.Errorf("%w: run %q executes %s version %d, another definition", state.ErrRunExists, string(run.ID), h.Workflow, max(h.Version, 1))
	case h.Tenant != run.Tenant:
		return fmt.Errorf("%w: run %q was started for another tenant", state.ErrRunExists, string(run.ID))
	case !maps.Equal(h.Labels, b.Labels):
		return fmt.Errorf("%w: run %q was started with other labels", state.ErrRunExists, string(run.ID))
	case h.InputHash != b.InputHash:
		return fmt.Errorf("%w: run %q was started with another input", state.ErrRunExists, string(run.ID))
	}
	return checkLimits(ctx, dir, run.ID, b)
}

// checkLimits compares what the runs below it and a run may report together with what its start has said, which only its first
// record knows.
func checkLimits(ctx context.Context, dir *store.Dir, id workflow.RunID, b *Birth) error {
	for r, err := range dir.HistoryUntil(ctx, id, 0) {
		if m, ok := r.Message.(state.Start); ok && !slices.Equal(m.Limits, b.Limits) {
			err = fmt.Errorf("%w: run %q was started with other MetaLimits", state.ErrRunExists, string(id))
		}
		return refusal.Closed(err)
	}
	return nil
}

// anyVersion reports whether a run names a published definition without a version.
func anyVersion(run workflow.Run) bool { return run.Workflow != "" && run.Version == 0 }

// isPublished reports whether a run executes a version that is published under a name.
func isPublished(ctx context.Context, dir *store.Dir, name string, h *store.Head) (bool, error) {
	if h.Workflow != name {
		return false, nil
	}
	hash, err := dir.Published(ctx, name, max(h.Version, 1))
	if errors.Is(err, store.ErrNotPublished) {
		return false, nil
	}
	return hash == h.Definition, refusal.Closed(err)
}

// FindDefinition returns the hash of the definition that a run names: without a version, it is
// that of the run, if there is one already, so that the limits of a newer version do not
// keep a Start from being repeated.
func FindDefinition(ctx context.Context, dir *store.Dir, run workflow.Run) (string, error) {
	if anyVersion(run) {
		switch h, err := dir.HeadUntil(ctx, run.ID); {
		case errors.Is(err, store.ErrRunNotFound):
		case err != nil:
			return "", err
		default:
			if same, err := isPublished(ctx, dir, run.Workflow, &h); same || err != nil {
				return h.Definition, err
			}
		}
	}
	return dir.Published(ctx, run.Workflow, run.Version)
}

// TakeInput puts the input of a run into the message that begins it: as an object of the JSON model, with its measure, and its text with the hash.
//
// JSON has no difference between an input that is left out, null and {}: all are {}. A reader may have white space beyond the limit, as
// a json.RawMessage may.
func TakeInput(m *state.Start, g *compiled.Graph, id workflow.RunID, input any) error {
	read, err := value.ReadAll(input, max(g.Limits.PayloadBytes, limits.MaxMergedBytes))
	if large := (*value.Error)(nil); errors.As(err, &large) {
		large.Max = g.Limits.PayloadBytes
	}
	if err != nil {
		return inputError(id, input, err)
	}
	taken, err := value.Take(read, value.Limits{Depth: g.Limits.JSONDepth, Bytes: g.Limits.PayloadBytes})
	if err != nil {
		return inputError(id, read, err)
	}
	var ok bool
	if m.Input, ok = taken.Value.(map[string]any); !ok && taken.Value != nil {
		return &workflow.InputError{Message: "the input of a run is an object, not " + kindOf(taken.Value)}
	}
	if !ok {
		m.Input = map[string]any{}
		taken = value.Taken{Measure: value.MeasureOf(m.Input)}
	}
	m.Measure, m.Text = taken.Measure, value.TextOf(m.Input, taken.Text)
	return nil
}

// kindOf names what a value of the JSON model is, with its article.
func kindOf(v any) string {
	switch v.(type) {
	case string:
		return "a string"
	case bool:
		return "a boolean"
	case []any:
		return "a list"
	}
	return "a number"
}

// inputError returns an error of the value model as an error about the input of a run.
func inputError(id workflow.RunID, input any, err error) error {
	var ve *value.Error
	if !errors.As(err, &ve) {
		return &workflow.InputError{Message: err.Error()}
	}
	if ve.Code != value.CodeLimit {
		return &workflow.InputError{Path: ve.Pointer(), Message: ve.Message}
	}
	e := refusal.Limit(ve)
	e.What = fmt.Sprintf("the input of run %q", string(id))
	if t, err := value.Take(input, value.Limits{}); err == nil && ve.Limit == value.LimitBytes {
		e.Got = int64(t.Measure.Size)
	}
	return e
}
