// Recover shows what a crash costs. A process starts five runs; when each of
// them is in the middle of a task, the process is killed with SIGKILL, so that
// nothing can be tidied up. Then the directory is opened again, every run goes
// on where it was, and one task of each is repeated.
//
//	go run ./examples/recover
//
// The definition and the tasks are in office.go: read that first.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "recover:", err)
		os.Exit(1)
	}
}

// open opens the engine in dir/engine, with the mailbox beside it.
func open(ctx context.Context, dir string, told io.Writer) (*pawl.Engine, *office, error) {
	o := &office{mailbox: filepath.Join(dir, "mailbox"), did: map[string]int{}, told: told}
	if err := os.MkdirAll(o.mailbox, 0o755); err != nil {
		return nil, nil, err
	}
	engine, err := pawl.Open(ctx, filepath.Join(dir, "engine"), pawl.Options{Executor: o.handlers()})
	return engine, o, err
}

const runs = 5

func runID(i int) workflow.RunID { return workflow.RunID(fmt.Sprintf("letter-%d", i+1)) }

// child is what the process does that will be killed: it starts the runs, and
// says what it performs, one task a line.
func child(ctx context.Context, dir string, stdout io.Writer) error {
	engine, _, err := open(ctx, dir, stdout)
	if err != nil {
		return err
	}
	defer engine.Close(ctx)
	for i := range runs {
		if err := engine.Start(ctx, workflow.Run{ID: runID(i), Definition: letters()}, nil); err != nil {
			return err
		}
	}
	for i := range runs {
		if _, err := engine.Wait(ctx, runID(i)); err != nil {
			return err
		}
	}
	return nil
}

// childOf is the environment variable that makes this program the child.
const childOf = "PAWL_RECOVER_CHILD"

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if dir := os.Getenv(childOf); dir != "" {
		return child(ctx, dir, stdout)
	}
	dir, remove, err := directory(args)
	if err != nil {
		return err
	}
	defer remove()

	if err := startAndKill(ctx, dir, stderr); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "killed a process with %d runs, each of which was posting a letter\n", runs)

	// To open is to recover; there is nothing else to call.
	engine, o, err := open(ctx, dir, io.Discard)
	if err != nil {
		return err
	}
	defer engine.Close(ctx)
	for i := range runs {
		outcome, err := engine.Wait(ctx, runID(i))
		if err != nil {
			return err
		}
		fmt.Fprintf(stdout, "%s %s\n", outcome.Run, outcome.Status)
	}

	mailbox, err := os.ReadDir(o.mailbox)
	if err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, what := range []string{"write", "post", "post, a second time", "file"} {
		fmt.Fprintf(stdout, "this process did: %s: %d\n", what, o.did[what])
	}
	fmt.Fprintf(stdout, "letters in the mailbox: %d\n", len(mailbox))
	return nil
}

// startAndKill runs this program again as the child, and kills it when all its
// runs wait for their confirmations.
func startAndKill(ctx context.Context, dir string, stderr io.Writer) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), childOf+"="+dir)
	cmd.Stderr = stderr
	says, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	posted := 0
	for lines := bufio.NewScanner(says); posted < runs && lines.Scan(); {
		if strings.TrimSpace(lines.Text()) == "post" {
			posted++
		}
	}
	killed := cmd.Process.Kill()
	ended := cmd.Wait()
	switch {
	case posted == runs:
		return killed
	case ended == nil:
		return errors.New("nothing is left to do: these runs have ended before, choose another directory")
	}
	return fmt.Errorf("the child ended by itself: %w", ended)
}

// directory returns the directory that args name, or a temporary one, and what
// to do with it at the end.
func directory(args []string) (dir string, remove func(), err error) {
	if len(args) > 0 {
		return args[0], func() {}, nil
	}
	dir, err = os.MkdirTemp("", "pawl-recover-")
	return dir, func() { _ = os.RemoveAll(dir) }, err
}
