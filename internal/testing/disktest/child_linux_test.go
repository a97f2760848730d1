//go:build amd64 || arm64

package disktest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/pawl-run/pawl/internal/testing/harness"
)

// An order is what a child is to do.
type order struct {
	Do   string // what; "" is a work
	Work string
	Dir  string
	Life int // the number of the first
	N    int // how many, or how long, of what is done
}

// childMain does the orders that come at the standard input and reports each.
func childMain(mode string) error {
	if mode == "filtered" {
		if err := surrender(3); err != nil {
			return err
		}
	}
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var o order
		if err := in.Decode(&o); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		answer, err := o.run(ctx)
		cancel()
		if err == nil {
			err = out.Encode(answer)
		}
		if err != nil {
			return err
		}
	}
}

func (o order) run(ctx context.Context) (any, error) {
	switch o.Do {
	case "small":
		return o.small(ctx)
	case "starve":
		return o.starve(ctx)
	case "file":
		return o.file(ctx)
	case "close":
		return o.close(ctx)
	}
	h, err := newHost(o.Dir, workNamed(o.Work))
	if err != nil {
		return nil, err
	}
	return h.run(ctx, o.Life), nil
}

// A child is a process that does orders.
type child struct {
	*supervisor // nil without a filter
	cmd         *exec.Cmd
	in          io.WriteCloser
	out         *json.Decoder
	says        bytes.Buffer
}

// errNoFilter says that this machine lets no process filter its system calls.
var errNoFilter = errors.New("system calls cannot be supervised here")

// startChild starts a child that asks before every system call, or not.
func startChild(filtered bool) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	if !filtered {
		return startProgram(self, nil)
	}
	c, err := prepare(self, "filtered")
	if err != nil {
		return nil, err
	}
	err = c.startFiltered()
	return c, err
}

// startProgram starts a child that does not ask, perhaps as another user.
func startProgram(path string, attr *syscall.SysProcAttr) (*child, error) {
	c, err := prepare(path, "host")
	if err != nil {
		return nil, err
	}
	c.cmd.SysProcAttr = attr
	return c, c.cmd.Start()
}

func prepare(path, mode string) (*child, error) {
	c := &child{cmd: exec.Command(path)}
	c.cmd.Env = harness.Environment(childMode + "=" + mode)
	c.cmd.Stderr = &c.says
	var err error
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	c.out = json.NewDecoder(out)
	return c, err
}

func (c *child) startFiltered() error {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	theirs := os.NewFile(uintptr(pair[1]), "socket")
	c.cmd.ExtraFiles = []*os.File{theirs}
	err = errors.Join(c.cmd.Start(), theirs.Close())
	var listener int
	if err == nil {
		listener, err = receive(pair[0])
		if err != nil {
			_ = c.cmd.Wait() // it has said why, and gone
			err = fmt.Errorf("%w: %w: %s", errNoFilter, err, c.says.String())
		}
	}
	if err := errors.Join(err, unix.Close(pair[0])); err != nil {
		return err
	}
	c.supervisor, err = supervise(listener, func() { _ = c.cmd.Process.Kill() })
	return err
}

// do has an order done and reads the answer into it. io.EOF says that the child
// has died of it.
func (c *child) do(o order, answer any) error {
	text, err := json.Marshal(o)
	if err != nil {
		return err
	}
	if _, err := c.in.Write(text); err != nil {
		return err
	}
	return c.out.Decode(answer)
}

// end lets the child end, and says whether it was killed.
func (c *child) end() (killed bool, err error) {
	_ = c.in.Close() // which ends it, unless it has gone
	err = c.cmd.Wait()
	if c.supervisor != nil {
		err = errors.Join(err, c.supervisor.close())
	}
	if harness.Killed(err) {
		return true, nil
	}
	if err != nil {
		err = fmt.Errorf("%w: %s", err, strings.TrimSpace(c.says.String()))
	}
	return false, err
}
