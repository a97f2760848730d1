package crashtest

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/internal/testing/harness/witness"
	"github.com/pawl-run/pawl/workflow"
)

// A kill is the n-th hit, from 1, of a failpoint in one life.
type kill struct {
	point string
	n     int
}

func (k kill) String() string { return fmt.Sprintf("%s:%d", k.point, k.n) }

// A trial is one engine directory, and the lives and deaths on it.
type trial struct {
	*witness.Trial
	work work
}

func newTrial(dir string, w work, want map[string]string) (*trial, error) {
	t, err := witness.NewTrial(dir, want)
	if err == nil {
		t.Codec = w.codec()
	}
	return &trial{t, w}, err
}

// die lets a child work until it is killed, and looks at what it leaves. It
// returns false if the child came to its end.
func (t *trial) die(k kill) bool {
	t.Lives++
	err := t.child(harness.KillVariable + "=" + k.String())
	killed := harness.Killed(err)
	if err != nil && !killed {
		t.Bad("%v", err)
	}
	t.look(false)
	return killed
}

// child runs a life in a process of its own.
func (t *trial) child(env string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, self)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGQUIT) } // it says where it is stuck
	cmd.WaitDelay = patience
	cmd.Env = environment(t.Dir, t.work, t.Lives, env)
	var says bytes.Buffer
	cmd.Stderr = &says
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("life %d: %w: %s", t.Lives, err, strings.TrimSpace(says.String()))
	}
	return nil
}

// finish lets the runs end in this process, and checks how they ended. Runs that
// were under way go on by themselves, the others are started again.
func (t *trial) finish() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	t.Lives++
	w := t.work
	w.closes, w.alone = false, map[workflow.RunID]bool{}
	for id, f := range t.Was {
		w.alone[id] = !f.Head.Status.Final()
	}
	if w.remote && !w.attach && !w.shorten && len(t.Was) > 0 { // there is a base
		if err := os.RemoveAll(filepath.Join(t.Dir, "engine")); err != nil { // with its machine
			t.Bad("%v", err)
		}
	}
	if err := live(ctx, &testhook.Hook{}, t.Dir, w, t.Lives); err != nil {
		t.Bad("recovery: %v", err)
		return
	}
	t.look(true)
	t.CheckEnds(t.work.runs)
	for _, f := range t.work.forks {
		t.CheckEnds([]witness.Job{{ID: f.id}})
	}
}

// look checks what a life has left.
func (t *trial) look(whole bool) {
	lines, ok := t.Look(whole)
	if !ok {
		return
	}
	delete(t.Was, goneID) // it comes and goes
	if t.work.sealed {
		t.checkSecrets()
	}
	if err := checkFollowed(t.Dir, t.work, lines, t.Was); err != nil {
		t.Bad("after life %d: the copy that follows: %v", t.Lives, err)
	}
	if whole || !t.work.shorten { // or it may not be mended yet
		if err := checkRemote(t.Dir, t.work, t.Was); err != nil {
			t.Bad("after life %d: its log: %v", t.Lives, err)
		}
	}
	if err := checkFed(t.Dir, t.work, lines, t.Was); err != nil {
		t.Bad("after life %d: the feed: %v", t.Lives, err)
	}
	for _, text := range checkBackups(t.Dir, t.work, lines, t.Lives, t.Was) {
		t.Bad("after life %d: %s", t.Lives, text)
	}
}
