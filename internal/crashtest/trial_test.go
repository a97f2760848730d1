package crashtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/pawl-run/pawl/internal/failpoint"
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
	dir   string
	work  work
	want  map[string]string // outcomes without a crash, by run
	lives int
	was   snapshot
	wrong []string
}

func newTrial(dir string, w work, want map[string]string) (*trial, error) {
	return &trial{dir: dir, work: w, want: want, was: snapshot{}}, os.MkdirAll(dir, 0o700)
}

// die lets a child work until it is killed, and looks at what it leaves. It
// returns false if the child came to its end.
func (t *trial) die(k kill) bool {
	t.lives++
	err := t.child(failpoint.Variable + "=" + k.String())
	var exit *exec.ExitError
	killed := errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL
	if err != nil && !killed {
		t.bad("%v", err)
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
	cmd.Env = environment(t.dir, t.work, t.lives, env)
	var says bytes.Buffer
	cmd.Stderr = &says
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("life %d: %w: %s", t.lives, err, strings.TrimSpace(says.String()))
	}
	return nil
}

// finish lets the runs end in this process, and checks how they ended. Those that
// were under way go on by themselves, the others are started again.
func (t *trial) finish() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	t.lives++
	w := t.work
	w.closes, w.alone = false, map[workflow.RunID]bool{}
	for id, f := range t.was {
		w.alone[id] = !f.Head.Status.Final()
	}
	if err := live(ctx, t.dir, w, t.lives); err != nil {
		t.bad("recovery: %v", err)
		return
	}
	t.look(true)
	for _, j := range t.work.runs {
		out := "nothing"
		if f := t.was[j.id]; f != nil {
			out = outcomeText(f.Head.Outcome())
		}
		if want := t.want[string(j.id)]; t.want != nil && out != want {
			t.bad("%s ended as %s, without a crash as %s", j.id, out, want)
		}
	}
}

// look checks what a life has left.
func (t *trial) look(whole bool) {
	lines, err := readLedger(filepath.Join(t.dir, "ledger"))
	if err != nil {
		t.bad("%v", err)
		return
	}
	now, err := take(t.dir, whole)
	if err != nil {
		t.bad("after life %d: %v", t.lives, err)
		return
	}
	delete(now, goneID) // it comes and goes
	for _, text := range check(t.was, now, lines, t.lives) {
		t.bad("after life %d: %s", t.lives, text)
	}
	t.was = now
	for _, text := range checkBackups(t.dir, t.work, lines, t.lives, now) {
		t.bad("after life %d: %s", t.lives, text)
	}
}

func (t *trial) bad(format string, args ...any) {
	t.wrong = append(t.wrong, fmt.Sprintf(format, args...))
}
