package sqltest

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

func replaceAll(s, old, by string) string { return strings.ReplaceAll(s, old, by) }

// A recorder is an engine that notes what it is called for, and answers as it is told.
type recorder struct {
	mu     sync.Mutex
	calls  map[workflow.RunID][]string
	answer func(run workflow.RunID, call string) error // may be nil
	during func(ctx context.Context, run workflow.RunID)
}

func (r *recorder) note(ctx context.Context, run workflow.RunID, call string) error {
	if r.during != nil {
		r.during(ctx, run)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.answer != nil {
		if err := r.answer(run, call); err != nil {
			return err
		}
	}
	if r.calls == nil {
		r.calls = map[workflow.RunID][]string{}
	}
	r.calls[run] = append(r.calls[run], call)
	return nil
}

func (r *recorder) Start(ctx context.Context, run workflow.Run, input any) error {
	return r.note(ctx, run.ID, fmt.Sprint("start ", run.Workflow, input))
}

func (r *recorder) Do(ctx context.Context, run workflow.RunID, a pawl.Act) error {
	switch a := a.(type) {
	case pawl.Signal:
		return r.note(ctx, run, fmt.Sprint("signal ", a.Name))
	case pawl.Cancel:
		return r.note(ctx, run, "cancel "+a.Reason)
	}
	return fmt.Errorf("%w: %T", pawl.ErrInvalid, a)
}

// of returns what was noted of a run.
func (r *recorder) of(run workflow.RunID) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.calls[run]...)
}
