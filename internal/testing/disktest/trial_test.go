package disktest

import (
	"context"

	"github.com/pawl-run/pawl/internal/testing/harness/witness"
)

// A trial is one engine directory and what happens to it.
type trial struct {
	*witness.Trial
	work work
}

func newTrial(dir string, w work, want map[string]string) (*trial, error) {
	t, err := witness.NewTrial(dir, want)
	return &trial{t, w}, err
}

// finish lets the runs end in this process, on a disk in order, and checks that
// all of them have ended as they do without a fault.
func (t *trial) finish() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	h, err := newHost(t.Dir, t.work)
	if err != nil {
		t.Bad("%v", err)
		return
	}
	t.Lives++
	r := h.run(ctx, t.Lives)
	t.Lives = r.Life
	if !r.Done || len(r.Told) > 0 || len(r.Logged) > 0 {
		t.Bad("recovery on a disk in order: %+v", r)
		return
	}
	t.Look(true)
	t.CheckEnds(t.work.runs)
}
