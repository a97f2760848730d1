package inspector

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"mime"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/retrace"
	"github.com/pawl-run/pawl/replay"
	"github.com/pawl-run/pawl/workflow"
)

// maxSpans is up to how many spans of a run and those below it are made for a viewer, some 1 KB each; pawl trace makes any number.
const maxSpans = 100_000

// serveTrace answers what happened in the run and in those below it as a file that ui.perfetto.dev opens, as pawl trace writes it.
//
// It has names, instants and codes, and no values: who may look may have it.
func (v *viewer) serveTrace() error {
	rec, err := v.recording(v.ctx, v.id)
	if err != nil {
		return err
	}
	t, err := retrace.Of(rec, maxSpans, func(child workflow.RunID) (*replay.Recording, error) { return v.recordingBelow(v.ctx, child) })
	if limit := (*workflow.LimitError)(nil); errors.As(err, &limit) {
		return fmt.Errorf("%w: pawl trace %s writes all of it", err, v.id)
	}
	if err != nil {
		return err
	}
	var text bytes.Buffer
	if err := t.WritePerfetto(&text); err != nil {
		return err
	}
	h := v.w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": string(v.id) + ".trace.json"}))
	_, _ = v.w.Write(text.Bytes()) // whom it does not reach has gone
	return nil
}

// recordingBelow returns the recording of a child run; nil of one that was purged.
func (p *page) recordingBelow(ctx context.Context, id workflow.RunID) (*replay.Recording, error) {
	rec, err := p.recording(ctx, id)
	if errors.Is(err, pawl.ErrRunNotFound) {
		return nil, nil //nolint:nilnil // it is not there any more
	}
	return rec, err
}
