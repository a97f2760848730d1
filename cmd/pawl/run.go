package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/handler"
	"github.com/pawl-run/pawl/inspector"
	"github.com/pawl-run/pawl/internal/codec"
	"github.com/pawl-run/pawl/workflow"
)

var runVerb = verb{
	name: "run",
	help: "Run a definition with ready-made handlers and mocks.",
	example: []string{
		`pawl run order.yaml --input order.json --mock 'charge={"paid":true}'`,
		"pawl run pages.yaml --host example.com --dir data --id pages-1  # goes on if it is repeated",
	},
	command: func() command { return new(runCommand) },
}

// A runCommand runs a definition to its end. Its handlers run in this process. With --dir the run
// outlives the command: the same command again finds it under the same ID, with the same definition
// and input, and goes on.
type runCommand struct {
	Path    string        `arg:"" name:"definition" help:"The definition."`
	Input   string        `placeholder:"FILE" help:"The input, as JSON; - is standard input. {} if this is not given."`
	Mock    []string      `sep:"none" placeholder:"NAME=JSON" help:"What a task returns without being performed: by the id of its node or its type; * is any other."`
	Host    []string      `placeholder:"HOST" help:"A host that tasks of type http may ask. Without one there is no such type."`
	Program []string      `placeholder:"PROGRAM" help:"A program that tasks of type exec may run. Without one there is no such type."`
	Publish []string      `placeholder:"FILE" help:"A definition that subworkflows name."`
	Dir     string        `help:"The engine directory, made if it is missing. Without one the run leaves nothing behind."`
	ID      string        `name:"id" placeholder:"ID" help:"The id of the run; that of the definition with -1 if this is not given."`
	Timeout time.Duration `placeholder:"DURATION" help:"Give up waiting after this time: exit status 124."`
	keyFlag
	jsonFlag
}

// errBlocked says that a run waits for something that nobody can give it.
var errBlocked = errors.New("the run waits for people, signals or an operator, and in a directory of its own nobody can reach it: use --dir")

// runCommand starts the run, waits for its end and writes its output. The answer is no if it did
// not complete. err is named because the temporary directory is removed after everything else, and
// that error must not be lost.
func (c *runCommand) runCommand(ctx context.Context, con *console) (err error) {
	if c.Timeout < 0 {
		return fmt.Errorf("--timeout: %v is less than 0", c.Timeout)
	}
	def, err := readDefinition(c.Path)
	if err != nil {
		return err
	}
	input, err := c.readInput(con.In)
	if err != nil {
		return err
	}
	e := &executor{handlers: readyHandlers(c.Host, c.Program), mocks: map[string]any{}}
	if err := e.readMocks(c.Mock); err != nil {
		return err
	}
	if c.Timeout > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, c.Timeout)
		defer stop()
	}
	dir := c.Dir
	if dir == "" {
		if dir, err = os.MkdirTemp("", "pawl-run-"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	}
	engine, err := c.openEngine(ctx, dir, def, e)
	if err != nil {
		return c.explainStop(err)
	}
	c.ID = cmp.Or(c.ID, def.Name+"-1")
	outcome, err := c.perform(ctx, con, engine, workflow.Run{ID: workflow.RunID(c.ID), Definition: def}, input)
	if closed := engine.Close(context.WithoutCancel(ctx)); err == nil {
		err = closed
	}
	if err != nil {
		return c.explainStop(err)
	}
	return c.writeOutcome(con, outcome)
}

// openEngine opens the directory with what the command line gives, and checks that every task of
// the definitions has somebody to perform it. A task that nobody performs would fail, or wait, in
// the middle of the run; so it is found before the run starts, in the definitions of subworkflows
// as well.
func (c *runCommand) openEngine(ctx context.Context, dir string, def *workflow.Definition, e *executor) (*pawl.Engine, error) {
	all := []*workflow.Definition{def}
	for _, path := range c.Publish {
		d, err := readDefinition(path)
		if err != nil {
			return nil, err
		}
		all = append(all, d)
	}
	if err := e.checkTasks(all); err != nil {
		return nil, err
	}
	keys, err := c.codec()
	if err != nil {
		return nil, err
	}
	o := pawl.Options{Executor: e, Codec: keys, Logger: slog.New(slog.DiscardHandler)}
	// A directory that is removed in the end need not survive the loss of power, and nobody else
	// can know of it, so it needs no socket.
	if c.Dir == "" {
		o.Durability = pawl.ProcessCrash
	} else {
		o.Socket = inspector.Local // for the other commands, as long as the run goes on
	}
	engine, err := pawl.Open(ctx, dir, o)
	if err != nil {
		return nil, err
	}
	for _, d := range all[1:] {
		if _, err := engine.Publish(ctx, d); err != nil {
			return nil, errors.Join(err, engine.Close(ctx))
		}
	}
	return engine, nil
}

// perform starts the run, or finds it, and waits for its end. The progress is told by a goroutine
// that looks once a second. In a directory of its own nobody could answer an approval or send a
// signal, so there the wait ends with errBlocked; with --dir another command can, and the wait goes
// on.
func (c *runCommand) perform(ctx context.Context, con *console, engine *pawl.Engine, run workflow.Run, input any) (workflow.Outcome, error) {
	if err := engine.Start(ctx, run, input); err != nil {
		return workflow.Outcome{}, err
	}
	watching, stop := context.WithCancelCause(ctx)
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	done := make(chan struct{})
	go func() { // ends when watching does, below
		defer close(done)
		w := &progress{con: con, run: run.ID, inspect: func(id workflow.RunID) (pawl.Snapshot, error) { return engine.Inspect(watching, id) }}
		if w.followRun(watching, tick.C); w.blocked && c.Dir == "" {
			stop(errBlocked)
		}
	}()
	outcome, err := engine.Wait(watching, run.ID)
	// Wait fails with the end of the context; its cause says whether that was the user, the timeout
	// or errBlocked.
	if cause := context.Cause(watching); err != nil && cause != nil {
		err = cause
	}
	stop(nil)
	<-done
	return outcome, err
}

// A toldError is an error in other words.
type toldError struct {
	text string
	error
}

// Error says it.
func (e *toldError) Error() string { return e.text }

// Unwrap returns the error as it was.
func (e *toldError) Unwrap() error { return e.error }

// explainStop says why nobody waits for the run any more, and what is left of it. The error stays
// below the text, so the exit status is that of a timeout or an interrupt.
func (c *runCommand) explainStop(err error) error {
	text := "interrupted"
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		text = fmt.Sprintf("it did not end within %v", c.Timeout)
	case !errors.Is(err, context.Canceled):
		return err
	}
	if c.Dir == "" {
		return &toldError{text + "; nothing of the run is left", err}
	}
	return &toldError{text + "; the same command goes on with it", err}
}

// writeOutcome writes the output of a completed run; for any other run, why it has ended. A run
// that has failed is an answer, no error of the command: errNo makes the exit status and prints
// nothing more.
func (c *runCommand) writeOutcome(con *console, o workflow.Outcome) error {
	if c.JSON {
		con.writeLine(true, o)
	} else if o.Status == workflow.RunCompleted {
		if err := con.writeValue(o.Output); err != nil {
			return err
		}
	}
	if err := o.Err(); err != nil {
		fmt.Fprintln(con.Errs, "pawl:", err)
		return errNo
	}
	return nil
}

// readDefinition reads a definition out of what a path names, which may be a pipe: the caller of the command named it.
func readDefinition(path string) (*workflow.Definition, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // it was only read
	data, err := io.ReadAll(io.LimitReader(file, workflow.MaxDefinitionBytes+1))
	if err != nil {
		return nil, err
	}
	return parseDefinition(path, data)
}

// parseDefinition returns the definition that a file holds.
func parseDefinition(path string, data []byte) (*workflow.Definition, error) {
	def, err := workflow.Parse(data)
	if err == nil {
		err = def.Validate()
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return def, nil
}

func (c *runCommand) readInput(in io.Reader) (any, error) {
	if c.Input == "" {
		return map[string]any{}, nil
	}
	var data []byte
	var err error
	if c.Input == "-" {
		data, err = io.ReadAll(in)
	} else {
		data, err = os.ReadFile(c.Input)
	}
	if err != nil {
		return nil, err
	}
	v, err := codec.DecodeValue(data)
	if err != nil {
		return nil, fmt.Errorf("--input %s: %w", c.Input, err)
	}
	return v, nil
}

// readyHandlers are the ready-made ones, each under the name of its kind. http and exec reach out
// of the process, so they exist only for hosts and programs that the user names; transform
// computes, and is always there.
func readyHandlers(hosts, programs []string) pawl.Handlers {
	h := pawl.Handlers{"transform": handler.Transform(handler.TransformOptions{})}
	if len(hosts) > 0 {
		h["http"] = handler.HTTP(handler.HTTPOptions{Hosts: hosts})
	}
	if len(programs) > 0 {
		h["exec"] = handler.Exec(handler.ExecOptions{Programs: programs})
	}
	return h
}

// An executor performs tasks by mocks, else by handlers.
type executor struct {
	handlers pawl.Handlers
	mocks    map[string]any // by node, by task type, or *
}

// readMocks reads what the command line says of mocks.
func (e *executor) readMocks(texts []string) error {
	for _, text := range texts {
		name, source, ok := strings.Cut(text, "=")
		if !ok || name == "" {
			return fmt.Errorf("--mock %s: it is not NAME=JSON", text)
		}
		v, err := codec.DecodeValue([]byte(source))
		if err != nil {
			return fmt.Errorf("--mock %s: %w", text, err)
		}
		e.mocks[name] = v
	}
	return nil
}

// findMock returns what a task returns, and whether it is a mock. A node is more special than a
// type, a type than a handler, and * stands for what nobody else performs: --mock '*={}' does not
// replace transform.
func (e *executor) findMock(node workflow.NodeID, task string) (any, bool) {
	for _, name := range []string{string(node), task} {
		if v, ok := e.mocks[name]; ok {
			return v, true
		}
	}
	if e.handlers[task] != nil {
		return nil, false
	}
	v, ok := e.mocks["*"]
	return v, ok
}

// Execute performs a task.
func (e *executor) Execute(ctx context.Context, t pawl.Task) (any, error) {
	if v, ok := e.findMock(t.Node, t.Type); ok {
		return v, nil
	}
	return e.handlers.Execute(ctx, t)
}

// checkTasks fails if nobody performs some tasks. It asks findMock as Execute does, so what it lets
// pass has somebody to perform it.
func (e *executor) checkTasks(all []*workflow.Definition) error {
	var missing []string
	for _, d := range all {
		for i := range d.Nodes {
			n := &d.Nodes[i]
			for _, task := range n.TaskTypes() {
				if _, mocked := e.findMock(n.ID, task); !mocked && e.handlers[task] == nil {
					missing = append(missing, task)
				}
			}
		}
	}
	if len(missing) == 0 {
		return nil
	}
	slices.Sort(missing)
	return fmt.Errorf("nobody performs tasks of type %s: give --mock %s=JSON, or --mock '*={}'", strings.Join(slices.Compact(missing), ", "), missing[0])
}
