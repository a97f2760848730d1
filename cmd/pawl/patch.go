package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/internal/codec"
	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/differ"
	"github.com/pawl-run/pawl/planning"
	"github.com/pawl-run/pawl/workflow"
)

var patchVerb = verb{
	name:    "patch",
	help:    "Change the definition of a run, or of each of many.",
	example: []string{"pawl patch order-42 longer.json -m slow --dry-run", "pawl patch longer.json --workflow order --status running -m slow"},
	command: func() command { return new(patchCommand) },
}

// A patchCommand patches a run.
type patchCommand struct {
	Run  string `arg:"" help:"The id of the run. Where runs are chosen, the file stands here."`
	File string `arg:"" optional:"" help:"The definition that the run is to have, or operations: a list in JSON as of RFC 6902, on a document in which nodes and transitions are objects keyed by their ids: a node is added at /nodes/ID, a transition at /transitions/ID, not at the index or the end of a list."`
	Base int    `placeholder:"N" help:"The revision that they are for; the one that the run has, if this is not given."`
	filterFlag
	bulkFlag
	actFlag
}

// runCommand patches the run, or says what the patch would change. Without --base it takes the revision that the run has now; if
// somebody patches the run in between, the engine refuses the base with a conflict.
func (c *patchCommand) runCommand(ctx context.Context, con *console) error {
	run, file, err := c.splitRun(c.Run, c.File, "the file of operations")
	if err != nil {
		return err
	}
	ops, leadsTo, err := readPatch(file)
	if err != nil {
		return err
	}
	return c.withActor(ctx, con, func(e *reached) error {
		ids, err := c.oneOrChosen(ctx, con, e, run, &c.filterFlag, &c.bulkFlag, "patch")
		if err != nil {
			return err
		}
		var deeds []deed
		have := 0
		for _, id := range ids {
			of := pawl.Patch{Base: c.Base, Ops: ops}
			if of.Base == 0 {
				o, err := e.Overview(ctx, id)
				if err != nil {
					return err
				}
				of.Base = o.Revision
			}
			if leadsTo != nil { // behind the revision: if that is another by now, the engine refuses the base
				if of.Ops, err = e.operationsTo(ctx, id, leadsTo); err == nil && of.Ops == nil {
					if run == "" { // it may have been patched by a first try
						have++
						continue
					}
					err = fmt.Errorf("run %s has this definition already; a patch changes neither its version nor the order of its transitions", id)
				}
				if err != nil {
					return fmt.Errorf("%s: %w", file, err)
				}
			}
			deeds = append(deeds, deed{id, of, fmt.Sprintf("has revision %d of its definition", of.Base+1)})
		}
		if c.DryRun && !c.JSON && run != "" {
			of, _ := deeds[0].act.(pawl.Patch)
			return c.showPatch(ctx, con, e, run, of)
		}
		switch {
		case c.JSON || have == 0:
		case have == 1:
			con.printLine("1 has it already")
		default:
			con.printLine("%s have it already", countText(have))
		}
		return markRefusal(c.doAll(ctx, con, e, deeds...))
	})
}

// readPatch reads a list of operations, or the definition that they are to lead to.
func readPatch(file string) (ops []any, leadsTo *workflow.Definition, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, nil, err
	}
	if !bytes.HasPrefix(bytes.TrimSpace(text), []byte("[")) {
		if leadsTo, err = workflow.Parse(text); err != nil {
			err = fmt.Errorf("%s: it is neither a list of operations nor a definition: %w", file, err)
		}
		return nil, leadsTo, err
	}
	var list []json.RawMessage
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, nil, fmt.Errorf("%s: it is no list of operations: %w", file, err)
	}
	if len(list) == 0 {
		return nil, nil, fmt.Errorf("%s: it has no operations", file)
	}
	for _, op := range list {
		ops = append(ops, op)
	}
	return ops, nil, nil
}

// operationsTo returns the operations that make a definition of the one that a run has; nil if it has that.
func (e *reached) operationsTo(ctx context.Context, run workflow.RunID, to *workflow.Definition) (ops []any, err error) {
	has, _, err := e.Definition(ctx, run)
	if err != nil {
		return nil, err
	}
	if has.Name != to.Name {
		return nil, fmt.Errorf("it defines %s, and run %s executes %s", to.Name, run, has.Name)
	}
	found, err := differ.FindOperations(has, to)
	for _, op := range found {
		text, wrong := json.Marshal(op)
		ops, err = append(ops, json.RawMessage(text)), errors.Join(err, wrong)
	}
	return ops, err
}

// markRefusal returns the error of a patch, which was readable, as one of the engine that does not take it. For the engine a patch that
// leads to no valid definition is an invalid request; for the exit status the command line was right, and the engine has refused.
func markRefusal(err error) error {
	if errors.Is(err, &api.Error{Code: "invalid_request"}) || errors.Is(err, &api.Error{Code: "too_large"}) {
		return &refusedError{err}
	}
	return err
}

// showPatch writes in what the definition would differ, and what the run would decide of it. The operations are applied here once
// more, to say in words what changes: the dry run of the engine tells decisions, not differences.
func (c *patchCommand) showPatch(ctx context.Context, con *console, e *reached, run workflow.RunID, act pawl.Patch) error {
	done, err := e.DryRun(ctx, run, api.Operation{Act: act, By: c.By, Reason: c.Reason})
	if err != nil {
		return markRefusal(err)
	}
	before, _, err := e.Definition(ctx, run)
	if err != nil {
		return err
	}
	after, err := patchedBy(before, act.Ops)
	if err != nil {
		return err
	}
	changes, err := workflow.CompareDefinitions(before, after)
	if err != nil {
		return err
	}
	con.printChanges(act.Base, changes)
	for _, s := range done.Future.Steps {
		for i, d := range s.Record.Decisions {
			if strings.HasPrefix(d, "patch-run ") { // the changes tell it
				s.Record.Decisions[i] = fmt.Sprintf("patch-run revision=%d", act.Base+1)
			}
		}
	}
	con.printFuture(run, done.Future)
	con.printSource(c.sourceText(e))
	return nil
}

// patchedBy returns a definition as operations change it that an engine takes. Its bounds are
// lifted, since the engine has already taken the patch under bounds of its own.
func patchedBy(d *workflow.Definition, texts []any) (*workflow.Definition, error) {
	g, err := compiled.Compile(compiled.Boundless(), d)
	if err != nil {
		return nil, err
	}
	ops := make([]any, len(texts))
	for i := range texts {
		text, _ := texts[i].(json.RawMessage)
		if ops[i], err = codec.DecodeValue(text); err != nil {
			return nil, err
		}
	}
	after, err := planning.Patched(g, ops, compiled.Boundless())
	if err != nil {
		return nil, err
	}
	return after.Definition, nil
}

// errRefusedAct says that an engine refuses what was readable.
var errRefusedAct = errors.New("the engine refuses it")

// A refusedError is the error of an act that an engine has refused, under its own text.
type refusedError struct{ error }

// Unwrap returns the error as it was, and that it is a refusal.
func (e *refusedError) Unwrap() []error { return []error{e.error, errRefusedAct} }

// printChanges writes in what a definition differs from the revision before it, a line for each change.
func (con *console) printChanges(base int, changes []workflow.DefinitionChange) {
	if len(changes) == 0 {
		con.printLine("revision %d -> %d: nothing in it differs", base, base+1)
		return
	}
	con.printLine("revision %d -> %d:", base, base+1)
	for i := range changes {
		for _, line := range differ.FormatLines(&changes[i]) {
			con.printLine("  %s", line)
		}
	}
}

var revisionsVerb = verb{
	name:    "revisions",
	help:    "List the revisions of a run's definition, or write one as JSON.",
	example: []string{"pawl revisions order-42", "pawl revisions order-42 1"},
	command: func() command { return new(revisionsCommand) },
}

// A revisionsCommand shows what a run executed when.
type revisionsCommand struct {
	Run      string `arg:"" help:"The id of the run, or DIR:RUN or FILE:RUN."`
	Revision int    `arg:"" optional:"" help:"The revision that is written; all are listed, if this is not given."`
	dirFlag
}

// runCommand lists the revisions, by whom the run was patched, and why.
func (c *revisionsCommand) runCommand(ctx context.Context, con *console) error {
	c.splitName(con, &c.Run)
	return c.withEngine(ctx, con, func(e *reached) error {
		if c.Revision != 0 {
			d, err := e.Revision(ctx, workflow.RunID(c.Run), c.Revision)
			if err != nil {
				return err
			}
			if c.JSON {
				con.writeLine(true, d)
				return nil
			}
			return con.writeValue(d)
		}
		rows := [][]string{{"REVISION", "RECORD", "AT", "OPS", "BY", "WHY"}}
		for r, err := range e.Revisions(ctx, workflow.RunID(c.Run), 0) {
			if err != nil {
				return err
			}
			if c.JSON {
				con.writeLine(true, r)
				continue
			}
			rows = append(rows, []string{strconv.Itoa(r.Revision), strconv.FormatInt(r.Seq, 10), c.zoneOf(r.At).Format("2006-01-02 15:04:05"), strconv.Itoa(r.Ops), r.By, r.Reason})
		}
		if !c.JSON {
			con.printTable(rows)
		}
		con.sayFiles(e, c.JSON)
		return nil
	})
}
