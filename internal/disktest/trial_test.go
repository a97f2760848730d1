package disktest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/pawl-run/pawl/internal/crashtest/witness"
)

// A trial is one engine directory and what happens to it.
type trial struct {
	dir   string
	work  work
	want  map[string]string // outcomes without a fault, by run
	lives int
	was   witness.Snapshot
	wrong []string
}

func newTrial(dir string, w work, want map[string]string) (*trial, error) {
	return &trial{dir: dir, work: w, want: want, was: witness.Snapshot{}}, os.MkdirAll(dir, 0o700)
}

// engine returns the engine directory.
func (t *trial) engine() string { return filepath.Join(t.dir, "engine") }

// finish lets the runs end in this process, on a disk in order, and checks that
// all of them have ended as they do without a fault.
func (t *trial) finish() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	h, err := newHost(t.dir, t.work)
	if err != nil {
		t.bad("%v", err)
		return
	}
	t.lives++
	r := h.run(ctx, t.lives)
	t.lives = r.Life
	if !r.Done || len(r.Told) > 0 || len(r.Logged) > 0 {
		t.bad("recovery on a disk in order: %+v", r)
		return
	}
	t.look(true)
	for _, j := range t.work.runs {
		out := "nothing"
		if f := t.was[j.id]; f != nil {
			out = witness.OutcomeText(f.Head.Outcome())
		}
		if want := t.want[string(j.id)]; t.want != nil && out != want {
			t.bad("%s ended as %s, without a fault as %s", j.id, out, want)
		}
	}
}

// look checks what is found against what hosts were told.
func (t *trial) look(whole bool) {
	lines, err := witness.ReadLedger(filepath.Join(t.dir, "ledger"))
	if err != nil {
		t.bad("%v", err)
		return
	}
	now, err := witness.Take(t.dir, whole)
	if err != nil {
		t.bad("after life %d: %v", t.lives, err)
		return
	}
	for _, text := range witness.Check(t.was, now, lines, t.lives) {
		t.bad("after life %d: %s", t.lives, text)
	}
	t.was = now
}

func (t *trial) bad(format string, args ...any) {
	t.wrong = append(t.wrong, fmt.Sprintf(format, args...))
}
