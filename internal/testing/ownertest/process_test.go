//go:build unix

package ownertest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/workflow"
)

// A process is a child with an engine.
type process struct {
	t       *testing.T
	name    string
	cmd     *exec.Cmd
	in      io.WriteCloser
	replies chan reply
	says    bytes.Buffer
}

// begin starts a child that ends with the test.
func begin(t *testing.T, name string) *process {
	self, err := os.Executable()
	require.NoError(t, err)
	p := &process{t: t, name: name, cmd: exec.Command(self), replies: make(chan reply, 16)}
	p.cmd.Env = harness.Environment(childRole + "=engine")
	p.cmd.Stderr = &p.says
	p.in, err = p.cmd.StdinPipe()
	require.NoError(t, err)
	out, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, p.cmd.Start())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer close(p.replies)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var r reply
			if json.Unmarshal(lines.Bytes(), &r) != nil {
				r = reply{Said: "failed", Error: lines.Text()}
			}
			p.replies <- r
		}
	}()
	t.Cleanup(func() { p.kill(); <-ended })
	return p
}

// kill ends the process, if it has not ended.
func (p *process) kill() {
	if p.cmd.ProcessState != nil {
		return
	}
	_ = p.cmd.Process.Kill() // it may have ended
	for range p.replies {    // Wait must not close its output before it is read
	}
	_ = p.cmd.Wait() // it was killed
}

// send sends a command.
func (p *process) send(c command) {
	c.By = p.name
	text, err := json.Marshal(c)
	require.NoError(p.t, err)
	_, err = p.in.Write(append(text, '\n'))
	require.NoError(p.t, err)
}

// next returns what the child says next.
func (p *process) next() reply {
	p.t.Helper()
	select {
	case r, ok := <-p.replies:
		if !ok {
			p.t.Fatalf("%s has ended: %s", p.name, p.says.String())
		}
		return r
	case <-time.After(patience):
		_ = p.cmd.Process.Signal(syscall.SIGCONT)
		_ = p.cmd.Process.Signal(syscall.SIGQUIT) // it says where it is stuck
		for range p.replies {
		}
		_ = p.cmd.Wait()
		p.t.Fatalf("%s is stuck: %.8000s", p.name, p.says.String())
		return reply{}
	}
}

// ask sends a command and returns the answer.
func (p *process) ask(c command) reply {
	p.t.Helper()
	p.send(c)
	return p.next()
}

// must sends a command that comes to what is wanted.
func (p *process) must(want string, c command) reply {
	p.t.Helper()
	r := p.ask(c)
	require.Equal(p.t, want, r.Said, "%s %s: %s", p.name, c.Do, r.Error)
	return r
}

// contents returns what is in a directory, but for its lock file.
// It opens files of databases, so only a process without an engine may call it.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := harness.Contents(t, dir)
	delete(out, "LOCK")
	return out
}

// settled checks what processes have left in a directory: every run that one of
// them was told of, with its end, and none that is not in asked or known.
func settled(t *testing.T, dir string, known map[workflow.RunID]bool) (acks int) {
	t.Helper()
	told, err := readLedger(dir)
	require.NoError(t, err)
	e, err := pawl.Open(t.Context(), dir, pawl.Options{Executor: pawl.Handlers{"*": echo}})
	require.NoError(t, err)
	for _, what := range []string{"started", "ended"} {
		for _, id := range told[what] {
			out, err := e.Wait(t.Context(), id)
			require.NoError(t, err, "%s was %s", id, what)
			require.NoError(t, out.Err(), string(id))
			require.Equal(t, string(id), out.Output["by"])
			acks++
		}
	}
	if known != nil {
		for r, err := range e.Runs(t.Context(), pawl.RunFilter{}) {
			require.NoError(t, err)
			require.True(t, known[r.Run], "%s is there, and was not when its engine lost the directory", r.Run)
		}
	}
	require.NoError(t, e.Close(t.Context()))
	return acks
}
