package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/handler"
	"github.com/pawl-run/pawl/inspector"
	"github.com/pawl-run/pawl/internal/codec"
	"github.com/pawl-run/pawl/internal/limits"
	"github.com/pawl-run/pawl/internal/loopback"
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

// A runCommand runs a definition to its end. Its handlers run in this process. With --dir the run outlives the command: the same command again finds
// it under the same ID, with the same definition and input, and goes on.
type runCommand struct {
	Path    string        `arg:"" name:"definition" help:"The definition."`
	Mock    []string      `sep:"none" placeholder:"NAME=JSON" help:"What a task returns without being performed: by the id of its node or its type; * is any other."`
	Host    []string      `placeholder:"HOST" help:"A host that tasks of type http may ask, at a public address. Without one there is no such type."`
	Program []string      `placeholder:"PROGRAM" help:"A program that tasks of type exec may run. Without one there is no such type."`
	Publish []string      `placeholder:"FILE" help:"A definition that subworkflows name."`
	Dir     string        `help:"The engine directory, made if it is missing. Without one the run leaves nothing behind. Tasks of its other runs are left to their program."`
	ID      string        `name:"id" placeholder:"ID" help:"The id of the run; that of the definition with -1 if this is not given."`
	Timeout time.Duration `placeholder:"DURATION" help:"Give up waiting after this time: exit status 124."`
	inputFlag
	keyFlag
	jsonFlag
}

// errBlocked says that a run waits for something that nobody can give it.
var errBlocked = errors.New("the run waits for people, signals, branches or an operator, and in a directory of its own nobody can reach it: use --dir")

// runCommand starts the run, waits for its end and writes its output. The answer is no if it did not complete. err is named because the temporary
// directory is removed after everything else, and that error must not be lost.
func (c *runCommand) runCommand(ctx context.Context, con *console) (err error) {
	if c.Timeout < 0 {
		return fmt.Errorf("--timeout: %v is less than 0", c.Timeout)
	}
	def, err := readDefinition(ctx, c.Path)
	if err != nil {
		return err
	}
	input, _, err := c.readInput(ctx, con.In)
	if err != nil {
		return err
	}
	c.ID = cmp.Or(c.ID, def.Name+"-1")
	e := &executor{run: workflow.RunID(c.ID), mocks: map[string]any{}}
	if e.handlers, err = readyHandlers(c.Host, c.Program); err != nil {
		return err
	}
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
	outcome, err := c.perform(ctx, con, engine, workflow.Run{ID: e.run, Definition: def}, input)
	if closed := engine.Close(context.WithoutCancel(ctx)); err == nil {
		err = closed
	}
	if err != nil {
		return c.explainStop(err)
	}
	return c.writeOutcome(con, outcome)
}

// openEngine opens the directory with what the command line gives, and checks that every task of the definitions has somebody to perform it. A task
// that nobody performs would fail, or wait, in the middle of the run; so it is found before the run starts, in the definitions of subworkflows as
// well.
func (c *runCommand) openEngine(ctx context.Context, dir string, def *workflow.Definition, e *executor) (*pawl.Engine, error) {
	all := []*workflow.Definition{def}
	for _, path := range c.Publish {
		d, err := readDefinition(ctx, path)
		if err != nil {
			return nil, err
		}
		all = append(all, d)
	}
	if err := e.checkTasks(all, c.Dir == ""); err != nil {
		return nil, err
	}
	keys, err := c.codec()
	if err != nil {
		return nil, err
	}
	o := pawl.Options{Executor: e, Codec: keys, Logger: slog.New(slog.DiscardHandler)}
	// A directory that is removed in the end need not survive the loss of power, and nobody else can know of it, so it needs no socket.
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
			return nil, errors.Join(err, engine.Close(context.WithoutCancel(ctx)))
		}
	}
	return engine, nil
}

// perform starts the run, or finds it, and waits for its end. The progress is told by a goroutine that looks once a second. In a directory of its own
// nobody could answer an approval or send a signal, so there the wait ends with errBlocked; with --dir another command can, and the wait goes on.
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
	// Wait fails with the end of the context; its cause says whether that was the user, the timeout or errBlocked.
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

// writeOutcome writes the output of a completed run; for any other run, why it has ended. A run that has failed is an answer, no error of the
// command: errNo makes the exit status and prints nothing more.
func (c *runCommand) writeOutcome(con *console, o workflow.Outcome) error {
	if c.JSON {
		con.writeLine(true, o)
	} else if o.Status == workflow.RunCompleted {
		if err := con.writeValue(o.Output); err != nil {
			return err
		}
	}
	if err := o.Err(); err != nil {
		fmt.Fprintln(con.Errs, "pawl:", errorText(err))
		return errNo
	}
	return nil
}

// readDefinition reads a definition out of what a path names, which may be a pipe: the caller of the command named it.
func readDefinition(ctx context.Context, path string) (*workflow.Definition, error) {
	return readDefinitionFrom(ctx, path, func() (io.ReadCloser, error) { return os.Open(path) })
}

func readDefinitionFrom(ctx context.Context, name string, open func() (io.ReadCloser, error)) (*workflow.Definition, error) {
	data, err := awaitInput(ctx, func() ([]byte, error) {
		in, err := open()
		if err != nil {
			return nil, err
		}
		defer func() { _ = in.Close() }() // it was only read
		return io.ReadAll(io.LimitReader(in, limits.MaxDefinitionBytes+1))
	})
	if err != nil {
		return nil, err
	}
	return parseDefinition(name, data)
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

// An inputFlag is what a run begins with.
type inputFlag struct {
	Input string `placeholder:"JSON" help:"The input: an object of JSON, a file that holds one, or - for the standard input. {} if this is not given."`
}

// readInput returns the value that the flag gives, and its text; {} without one.
func (f *inputFlag) readInput(ctx context.Context, in io.Reader) (v any, text []byte, err error) {
	switch {
	case f.Input == "":
		return map[string]any{}, nil, nil
	case f.Input == "-":
		text, err = awaitInput(ctx, func() ([]byte, error) { return io.ReadAll(in) })
	case strings.HasPrefix(strings.TrimSpace(f.Input), "{"):
		text = []byte(f.Input)
	default:
		text, err = awaitInput(ctx, func() ([]byte, error) { return os.ReadFile(f.Input) })
	}
	if err != nil {
		return nil, nil, fmt.Errorf("--input: %w", err)
	}
	if v, err = codec.DecodeValue(text); err != nil {
		return nil, nil, fmt.Errorf("--input %s: %w", f.Input, err)
	}
	return v, text, nil
}

// readyHandlers are the ready-made ones, each under the name of its kind. http and exec reach out of the process, so they exist only for hosts and
// programs that the user names; transform computes, and is always there. A host that http would refuse each time is an error.
func readyHandlers(hosts, programs []string) (pawl.Handlers, error) {
	if i := slices.IndexFunc(hosts, loopback.IsLoopback); i >= 0 {
		return nil, fmt.Errorf("--host %s: tasks of type http ask public addresses only: "+
			"mock the task, or perform it in a program with handler.HTTPOptions.Private", hosts[i])
	}
	h := pawl.Handlers{"transform": handler.Transform(handler.TransformOptions{})}
	if len(hosts) > 0 {
		h["http"] = handler.HTTP(handler.HTTPOptions{Hosts: hosts})
	}
	if len(programs) > 0 {
		h["exec"] = handler.Exec(handler.ExecOptions{Programs: programs})
	}
	return h, nil
}

// An executor performs tasks of a run, and of those below it, by mocks, else by handlers.
type executor struct {
	run      workflow.RunID
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

// findMock returns what a task returns, and whether it is a mock. A node is more special than a type, a type than a handler, and * stands for what
// nobody else performs: --mock '*={}' does not replace transform.
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

// Execute performs a task. One of another run in the directory stays out, for the program that has its handlers: mocks and the few
// handlers of a command line would end that run with what is not true.
func (e *executor) Execute(ctx context.Context, t pawl.Task) (any, error) {
	if t.Root != e.run {
		return nil, pawl.ErrPending
	}
	if v, ok := e.findMock(t.Node, t.Type); ok {
		return v, nil
	}
	return e.handlers.Execute(ctx, t)
}

// checkTasks fails if nobody performs some tasks, or, if these definitions are all that there are, a mock stands for none. It asks
// findMock as Execute does, so what it lets pass has somebody to perform it.
func (e *executor) checkTasks(all []*workflow.Definition, isAll bool) error {
	var missing []string
	unused := maps.Clone(e.mocks)
	delete(unused, "*")
	for _, d := range all {
		for i := range d.Nodes {
			n := &d.Nodes[i]
			delete(unused, string(n.ID))
			for _, task := range n.TaskTypes() {
				delete(unused, task)
				if _, mocked := e.findMock(n.ID, task); !mocked && e.handlers[task] == nil {
					missing = append(missing, task)
				}
			}
		}
	}
	if len(unused) > 0 && isAll {
		return fmt.Errorf("--mock %s: no definition has a node or a task type of this name", slices.Sorted(maps.Keys(unused))[0])
	}
	if len(missing) == 0 {
		return nil
	}
	slices.Sort(missing)
	missing = slices.Compact(missing)
	text := fmt.Sprintf("nobody performs tasks of type %s: give --mock %s=JSON, or --mock '*={}'", strings.Join(missing, ", "), missing[0])
	if slices.Contains(missing, "http") {
		text += ", or --host for http"
	}
	if slices.Contains(missing, "exec") {
		text += ", or --program for exec"
	}
	return errors.New(text)
}

var publishVerb = verb{
	name:    "publish",
	help:    "Publish definitions in an engine, for runs that are started by name, schedules and subworkflows.",
	example: []string{"pawl publish order.yaml shipping.yaml --dry-run", "pawl publish order.yaml --offline"},
	command: func() command { return new(publishCommand) },
}

// A publishCommand publishes definitions.
type publishCommand struct {
	Files   []string `arg:"" name:"file" help:"Files that hold a definition each, in YAML or JSON; - is the standard input."`
	DryRun  bool     `help:"Say what would be published. Nothing is changed."`
	Offline bool     `help:"If no engine has the directory open, commit this now."`
	dirFlag
}

// A publishedFile is what has become of the definition in one file.
type publishedFile struct {
	File     string   `json:"file"`
	Name     string   `json:"name"`
	Version  int      `json:"version"`
	Known    bool     `json:"known,omitzero"`  // the same definition was published already
	DryRun   bool     `json:"dryRun,omitzero"` // nothing was changed
	Warnings []string `json:"warnings"`        // runs can start all the same

	definition *workflow.Definition
}

// runCommand publishes the definitions that are not published yet, if each of them can be: all files are read, and tried, before the first
// is published.
func (c *publishCommand) runCommand(ctx context.Context, con *console) error {
	all, err := c.readFiles(ctx, con.In)
	if err != nil {
		return err
	}
	a := actFlag{DryRun: c.DryRun, Offline: c.Offline, dirFlag: c.dirFlag}
	return a.withActor(ctx, con, func(e *reached) error {
		for i := range all {
			tried, err := e.DryRunPublish(ctx, all[i].definition)
			if err != nil {
				return fmt.Errorf("%s: %w", all[i].File, err)
			}
			all[i].Known = tried.Known
			all[i].placeWarnings(tried.Warnings)
		}
		for _, f := range all {
			if !f.Known && !c.DryRun {
				if _, err := e.Publish(ctx, f.definition); err != nil { // the trial has told the warnings
					return fmt.Errorf("%s: %w", f.File, markUnknown(err, errOfPublish))
				}
			}
			f.writeTo(con, c.JSON)
		}
		con.sayFiles(e, c.JSON)
		return nil
	})
}

// errOfPublish says that a definition was to be published: no journal tells of it, and it may be repeated.
var errOfPublish = errors.New("a publication")

// readFiles reads the files, which have no version of a definition twice.
func (c *publishCommand) readFiles(ctx context.Context, in io.Reader) (all []publishedFile, err error) {
	for _, path := range c.Files {
		f := publishedFile{File: path, DryRun: c.DryRun}
		if path == "-" {
			f.definition, err = readDefinitionFrom(ctx, "the standard input", func() (io.ReadCloser, error) { return io.NopCloser(in), nil })
		} else {
			f.definition, err = readDefinition(ctx, path)
		}
		if err != nil {
			return nil, err
		}
		f.Name, f.Version = f.definition.Name, max(f.definition.Version, 1)
		for _, other := range all {
			if f.Name == other.Name && f.Version == other.Version {
				return nil, fmt.Errorf("%s: %s@%d is in %s too", path, f.Name, f.Version, other.File)
			}
		}
		all = append(all, f)
	}
	return all, nil
}

// linePlace is the place of a problem in a text of one line, as which a definition is sent.
var linePlace = regexp.MustCompile(`^line [0-9:]+: `)

// placeWarnings takes the warnings of an engine, those of validation with their places in the file.
func (f *publishedFile) placeWarnings(texts []string) {
	placed := map[string]string{}
	for _, p := range f.definition.Check() {
		placed[linePlace.ReplaceAllString(p.String(), "")] = p.String()
	}
	f.Warnings = []string{}
	for _, text := range texts {
		text = linePlace.ReplaceAllString(text, "")
		f.Warnings = append(f.Warnings, cmp.Or(placed[text], text))
	}
}

// writeTo writes what has become of a definition, and on the side its warnings.
func (f *publishedFile) writeTo(con *console, asJSON bool) {
	if asJSON {
		con.writeLine(true, f)
		return
	}
	for _, w := range f.Warnings {
		fmt.Fprintf(con.Errs, "%s: %s\n", printableText(f.File), printableText(w))
	}
	said := "published"
	switch {
	case f.Known:
		said = "is published already"
	case f.DryRun:
		said = "would be published: nothing is changed"
	}
	con.printLine("%s@%d %s", f.Name, f.Version, said)
}

var startVerb = verb{
	name:    "start",
	help:    "Start a run in an engine, of a definition that is published there or in a file.",
	example: []string{"pawl start order --id order-44 --input order.json", "pawl start order.yaml --input order.json --dry-run", "pawl start order.yaml --offline"},
	command: func() command { return new(startCommand) },
}

// A startCommand starts a run.
type startCommand struct {
	Definition string            `arg:"" name:"name-or-file" help:"The name of a published definition, or the file of one."`
	Version    int               `placeholder:"N" help:"Of a published one; the latest, if this is not given."`
	ID         string            `placeholder:"ID" help:"The id of the run; a new one, if this is not given."`
	Tenant     string            `placeholder:"NAME" help:"On whose behalf."`
	Label      map[string]string `mapsep:"," placeholder:"KEY=VALUE" help:"What the run is about, to find it by."`

	Limit map[string]float64 `mapsep:"," placeholder:"NAME=NUMBER" help:"The most that the results of the run may report together, as cost=5."`

	DryRun  bool   `help:"Say what the run would decide at once. Nothing is changed."`
	By      string `placeholder:"NAME" help:"Who acts; the user of this process, if this is not given."`
	Reason  string `short:"m" placeholder:"TEXT" help:"Why, in one line. The journal keeps it."`
	Offline bool   `help:"If no engine has the directory open, commit this now: the run begins when your program opens the directory, and deadlines count from now."`
	inputFlag
	dirFlag
}

func (c *startCommand) runCommand(ctx context.Context, con *console) error {
	a := actFlag{By: c.By, Reason: c.Reason, DryRun: c.DryRun, Offline: c.Offline, dirFlag: c.dirFlag}
	s, err := c.readStart(ctx, con.In)
	if err != nil {
		return err
	}
	if c.ID == "" {
		c.ID = string(pawl.NewRunID())
	}
	return a.withActor(ctx, con, func(e *reached) error {
		s.By, s.Reason, s.Tenant, s.Labels, s.MetaLimits = a.By, c.Reason, c.Tenant, c.Label, c.Limit
		if c.DryRun {
			done, err := e.DryRunStart(ctx, workflow.RunID(c.ID), s)
			return a.printDryRun(con, e, workflow.RunID(c.ID), done, explainMissing(&s, err))
		}
		started, err := e.Start(ctx, workflow.RunID(c.ID), s)
		if err != nil {
			return fmt.Errorf("run %s: %w", c.ID, explainMissing(&s, err)) // the id may be a new one
		}
		if c.JSON {
			con.writeLine(true, started)
			return nil
		}
		con.printLine("%s is %s", c.ID, started.Status)
		con.printSource(a.sourceText(e))
		return nil
	})
}

// explainMissing says of an error that nothing is published under a name that there is no such file either, if the name looks like that of a file.
func explainMissing(s *api.Start, err error) error {
	if errors.Is(err, pawl.ErrNotPublished) && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(s.Workflow)) {
		return &toldError{fmt.Sprintf("there is no file %s, and %s", s.Workflow, errorText(err)), err}
	}
	return err
}

// readStart returns the definition and the input.
func (c *startCommand) readStart(ctx context.Context, in io.Reader) (s api.Start, err error) {
	if _, s.Input, err = c.readInput(ctx, in); err != nil {
		return s, err
	}
	if info, err := os.Stat(c.Definition); errors.Is(err, fs.ErrNotExist) || err == nil && info.IsDir() {
		s.Workflow, s.Version = c.Definition, c.Version
		return s, nil
	}
	d, err := readDefinition(ctx, c.Definition)
	if err != nil {
		return s, err
	}
	if c.Version != 0 {
		return s, fmt.Errorf("--version: %s is a file", c.Definition)
	}
	s.Definition, err = d.MarshalJSON()
	return s, err
}

var waitVerb = verb{
	name:    "wait",
	help:    "Wait until a run has ended, and write its output.",
	example: []string{"pawl wait order-42 --timeout 10m", "pawl wait order-42 --status paused,suspended"},
	command: func() command { return new(waitCommand) },
}

// A waitCommand waits for a run.
type waitCommand struct {
	Run     string        `arg:"" help:"The id of the run, or DIR:RUN or FILE:RUN."`
	Status  []string      `placeholder:"STATUS" help:"Wait until the run has any of these: running, paused, suspended, completed, failed, timed_out, cancelled. That it ends with another is the answer no."`
	Timeout time.Duration `placeholder:"DURATION" help:"Give up waiting after this time, as 10m: exit status 124."`
	dirFlag
}

// finalStatuses are those of runs that have ended.
var finalStatuses = []workflow.RunStatus{workflow.RunCompleted, workflow.RunFailed, workflow.RunTimedOut, workflow.RunCancelled}

// runCommand waits, and writes the output of a run that has completed, or how it stands. The answer is no if it has
// ended otherwise, unless that was waited for.
func (c *waitCommand) runCommand(ctx context.Context, con *console) error {
	if c.Timeout < 0 {
		return fmt.Errorf("--timeout: %v is less than 0", c.Timeout)
	}
	chosen, err := (&filterFlag{Status: c.Status}).runFilter()
	if err != nil {
		return err
	}
	c.splitName(con, &c.Run)
	waiting := ctx
	if c.Timeout > 0 {
		var stop context.CancelFunc
		waiting, stop = context.WithTimeout(ctx, c.Timeout)
		defer stop()
	}
	err = c.withEngine(waiting, con, func(e *reached) error {
		var s pawl.RunSummary
		err := con.whileWorking("waiting for "+printableText(c.Run), func() (err error) {
			s, err = c.awaitStatus(waiting, e, append(chosen.Status, finalStatuses...))
			return err
		})
		if err != nil {
			return err
		}
		return c.writeStatus(con, &s, chosen.Status)
	})
	if errors.Is(err, context.DeadlineExceeded) && waiting.Err() != nil && ctx.Err() == nil {
		return &toldError{fmt.Sprintf("%s has not come to that within %v: pawl why %[1]s tells what it waits for", c.Run, c.Timeout), context.DeadlineExceeded}
	}
	return err
}

// awaitStatus returns how the run stands when it has one of these statuses. A run that no engine has can stand so already; it will not come to it, so
// that is an error at once and not a wait for ever. With an engine, the watch begins before the first look at the run, so no change between the two
// is missed.
func (c *waitCommand) awaitStatus(ctx context.Context, e *reached, statuses []workflow.RunStatus) (pawl.RunSummary, error) {
	id := workflow.RunID(c.Run)
	if !e.live {
		s, err := e.Summary(ctx, id)
		if err == nil && !slices.Contains(statuses, s.Status) {
			err = c.explainStill(e, s.Status)
		}
		return s, err
	}
	for change, err := range e.Watch(ctx, pawl.WatchFilter{Prefix: c.Run, Status: statuses}) {
		if err != nil {
			return pawl.RunSummary{}, err
		}
		if !change.Lost && change.Run != id {
			continue // the id of another run begins likewise
		}
		s, err := e.Summary(ctx, id) // the first change says that some are lost: it may stand so already
		if err != nil || slices.Contains(statuses, s.Status) {
			return s, err
		}
	}
	return pawl.RunSummary{}, errLost
}

// explainStill says that the run stays as it is, since no engine has it.
func (c *waitCommand) explainStill(e *reached, is workflow.RunStatus) error {
	text := fmt.Sprintf("%s is %s, and no engine with a socket has %s open: start your program", c.Run, is, c.Dir)
	if e.fixed {
		text = fmt.Sprintf("%s is %s, and nothing goes on in a file such as %s", c.Run, is, filepath.Base(c.Dir))
	}
	return &toldError{text, api.ErrNoEngine}
}

// writeStatus writes how the run stands, which is one of the statuses that were asked for, or final.
func (c *waitCommand) writeStatus(con *console, s *pawl.RunSummary, asked []workflow.RunStatus) error {
	completed := s.Status == workflow.RunCompleted
	wanted := completed && asked == nil || slices.Contains(asked, s.Status)
	switch {
	case c.JSON:
		con.writeLine(true, s)
	case completed:
		if err := con.writeValue(s.Output); err != nil {
			return err
		}
	case wanted:
		con.printLine("%s is %s", c.Run, s.Status)
	}
	if wanted {
		return nil
	}
	why := fmt.Sprintf("%s is %s", c.Run, s.Status)
	if err := s.Err(); err != nil {
		why = err.Error()
	}
	fmt.Fprintln(con.Errs, "pawl:", printableLines(why))
	return errNo
}
