package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/below"
	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/diagram"
	"github.com/pawl-run/pawl/internal/portable"
	"github.com/pawl-run/pawl/internal/runfile"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/replay"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/workflow"
)

var graphVerb = verb{
	name: "graph",
	help: "Draw a definition, or a run on its definition.",
	example: []string{
		"pawl graph order.yaml                           # an outline",
		"pawl graph order-42 --svg -o order-42.svg       # how the run stands",
		"pawl graph order-42 --at 7                      # how it stood after record 7",
	},
	command: func() command { return new(graphCommand) },
}

// A graphCommand draws a definition.
type graphCommand struct {
	Path    string `arg:"" name:"file-dir-or-run" help:"A definition, the file of a run, an export, an engine directory, or the id of a run in the directory."`
	Run     string `arg:"" optional:"" help:"The id of the run, behind an engine directory or an export."`
	SVG     bool   `name:"svg" xor:"language" help:"Write SVG. It follows the light or dark colours of its reader."`
	Mermaid bool   `xor:"language" help:"Write a flowchart of Mermaid."`
	Dot     bool   `xor:"language" help:"Write a digraph of Graphviz."`
	At      *int64 `placeholder:"N" help:"Draw the run as it was after this record, from 1; --at=-1 is the last."`
	Width   int    `placeholder:"PIXELS" help:"The widest that the SVG may be; 1600 if this is not given."`
	Output  string `short:"o" placeholder:"FILE" help:"Write to this file."`
	recordedFlag
}

// A graphReport is what the command writes as JSON.
type graphReport struct {
	Language string `json:"language"` // outline, svg, mermaid or dot
	Text     string `json:"text"`
}

// runCommand draws the definition, with the run if there is one.
func (c *graphCommand) runCommand(ctx context.Context, con *console) error {
	if c.Width < 0 {
		return errors.New("--width: it is less than 0")
	}
	if c.At != nil && *c.At == 0 {
		return errNoRecord
	}
	keys, err := c.codec()
	if err != nil {
		return err
	}
	// The path is nothing on the disk, so it is DIR:RUN, or the id of a run in Dir.
	if c.Run == "" && c.isAbsent(c.Path) {
		if _, err := c.pathOf(c.Path); err != nil {
			return err
		}
		if dir, id, ok := replay.SplitName(c.Path); ok {
			c.Path, c.Run = dir, string(id)
		} else {
			c.Path, c.Run = c.Dir, c.Path
		}
	}
	source := sourceOf(c.Path, c.zoneOf(con.Now()))
	var g *compiled.Graph
	var run *diagram.Run
	if c.At != nil {
		g, run, source, err = c.graphAt(ctx, con)
	} else {
		g, run, err = loadGraph(c.Path, workflow.RunID(c.Run), keys)
	}
	if c.At == nil && errors.Is(err, pawl.ErrLocked) {
		g, run, source, err = askGraph(ctx, c.Path, workflow.RunID(c.Run), err)
	}
	if err != nil {
		return err
	}
	if run != nil {
		con.saySources(c.JSON, sources{source})
	}
	report := c.draw(diagram.New(g, run), con)
	if c.Output != "" {
		if err := markFull(below.WriteOutput(c.Output, []byte(report.Text), c.Path)); err != nil {
			return err
		}
	}
	if c.JSON {
		con.writeLine(true, report)
		return nil
	}
	if c.Output != "" {
		return nil
	}
	fmt.Fprint(con.Out, report.Text)
	return nil
}

// graphAt returns the run as it was after a record, and whence it comes. Its records are applied, not planned again.
func (c *graphCommand) graphAt(ctx context.Context, con *console) (_ *compiled.Graph, _ *diagram.Run, source string, _ error) {
	name := c.Path
	if c.Run != "" {
		name += ":" + c.Run
	}
	var from sources
	rec, _, done, err := c.openRecording(ctx, con, name, &from)
	if err != nil {
		return nil, nil, "", err
	}
	defer done()
	g, run, err := graphOfRun(standingAt(rec, *c.At))
	return g, run, strings.Join(from, ", "), err
}

// draw returns the picture in the language that the flags name, by default an outline. An outline
// in a file, or in JSON, has no colours: they belong to this terminal.
func (c *graphCommand) draw(d *diagram.Diagram, con *console) graphReport {
	switch {
	case c.SVG:
		return graphReport{"svg", d.SVG(c.Width)}
	case c.Mermaid:
		return graphReport{"mermaid", d.Mermaid()}
	case c.Dot:
		return graphReport{"dot", d.Dot()}
	}
	plain := c.JSON || c.Output != ""
	return graphReport{"outline", d.Outline(diagram.OutlineStyle{Width: con.Width, Color: con.Color && !plain})}
}

// loadGraph reads what a path names: a definition, or a run with its definition as it is now. A
// file is told by its first bytes, not by its name: a definition, an export, or the file of a run,
// sealed or not. A definition without a run has a nil diagram.Run.
func loadGraph(path string, id workflow.RunID, keys pawl.Codec) (*compiled.Graph, *diagram.Run, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, nil, err
	}
	if info.IsDir() {
		if id == "" {
			return nil, nil, fmt.Errorf("%s is a directory: name one of its runs as well", path)
		}
		return graphOfRun(openRunOf(path, id, keys))
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, err
	}
	if strings.HasPrefix(string(data), portable.Start) {
		return graphOfRun(openExported(path, id, keys))
	}
	if id != "" {
		return nil, nil, fmt.Errorf("%s is a file: it has no run %q", path, string(id))
	}
	if strings.HasPrefix(string(data), sqliteMagic) || strings.HasPrefix(string(data), sealedMagic) {
		return graphOfRun(openRunFile(path, keys))
	}
	def, err := workflow.Parse(data)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	g, err := compiled.Compile(workflow.Bounds{}, def)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	return g, nil, nil
}

// The file of a run begins with sqliteMagic, or with sealedMagic if it is sealed.
const (
	sqliteMagic = "SQLite format 3\x00"
	sealedMagic = "\x01"
)

// A standing is how a run stands: its state after a record.
type standing struct {
	*state.State
	seq int64
}

// standingAt returns how a recorded run stood after a record, from 1 or, if at is less than 0, from its end.
func standingAt(rec *replay.Recording, at int64) (*standing, error) {
	var records []decision.Record
	for r, err := range rec.Records() {
		if err != nil {
			return nil, err
		}
		records = append(records, r)
	}
	n := int64(len(records))
	if at < 0 {
		at += n + 1
	}
	if at < 1 || at > n {
		return nil, &replay.RecordError{Seq: at, Len: n}
	}
	s := state.NewState(rec.Run, rec.Graph())
	for i := range records[:at] {
		s.Epoch = records[i].Epoch
		if err := runfile.ApplyRecord(s, &records[i], func([]decision.Event) {}); err != nil {
			return nil, fmt.Errorf("%s: %w", rec.Source, err)
		}
	}
	return &standing{s, at}, nil
}

// openRunOf reads a run of an engine directory that nobody has open.
func openRunOf(dir string, id workflow.RunID, keys store.Codec) (*standing, error) {
	in, err := store.Inspect(dir, keys)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	defer func() { _ = in.Close() }() // it was only read
	snap, err := in.Snapshot(id)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	defer snap.Close()
	s, err := snap.Replay(nil)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	return &standing{s, snap.Seq}, nil
}

// askGraph asks the engine that has a directory open for a run and its definition, and says which it is. locked is the error if it has no socket.
func askGraph(ctx context.Context, dir string, id workflow.RunID, locked error) (_ *compiled.Graph, _ *diagram.Run, source string, _ error) {
	client, source, err := dialEngine(ctx, dir)
	if errors.Is(err, api.ErrNoEngine) {
		return nil, nil, "", locked
	}
	if err != nil {
		return nil, nil, "", err
	}
	defer client.Close()
	o, err := client.Overview(ctx, id)
	if err != nil {
		return nil, nil, "", err
	}
	def, _, err := client.Definition(ctx, id)
	if err != nil {
		return nil, nil, "", err
	}
	g, err := compiled.Compile(compiled.Boundless(), def)
	if err != nil {
		return nil, nil, "", err
	}
	run := &diagram.Run{ID: id, Status: o.Status, Seq: o.Seq, Tokens: map[workflow.NodeID]map[workflow.TokenStatus]int{}}
	for _, n := range o.Nodes {
		run.Tokens[n.Node] = n.Tokens
	}
	return g, run, source, nil
}

// graphs remembers compiled definitions by their hash. It is used while one run is restored, by one goroutine.
type graphs map[string]*compiled.Graph

// Known returns the definition with a hash, nil if it is not remembered.
func (g graphs) Known(hash string) *compiled.Graph { return g[hash] }

// AddDefinition remembers a definition.
func (g graphs) AddDefinition(def *compiled.Graph) *compiled.Graph {
	g[def.Hash] = def
	return def
}

// openRunFile reads the file of a run, which an engine may have open.
func openRunFile(path string, keys store.Codec) (*standing, error) {
	s, err := readRunFile(path, keys)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

func readRunFile(path string, keys store.Codec) (*standing, error) {
	db, err := store.OpenRunFile(path, keys)
	if err != nil {
		return nil, err
	}
	defer func() { _ = db.Close() }() // it was only read
	content := runfile.InDatabase(db)
	id, seq, _, err := runfile.ReadMeta(content)
	if err != nil {
		return nil, err
	}
	hash, doc, err := runfile.ReadFirstDefinition(content)
	if err != nil {
		return nil, err
	}
	g, err := runfile.CompileDefinition(doc, hash)
	if err != nil {
		return nil, err
	}
	s, err := runfile.RestoreState(content, id, g, graphs{})
	if err != nil {
		return nil, err
	}
	return &standing{s, seq}, nil
}

// graphOfRun returns the definition of a run and what is drawn of it.
func graphOfRun(s *standing, err error) (*compiled.Graph, *diagram.Run, error) {
	if err != nil {
		return nil, nil, err
	}
	run := &diagram.Run{ID: s.Run, Status: s.Status, Seq: s.seq, Tokens: map[workflow.NodeID]map[workflow.TokenStatus]int{}}
	for _, t := range s.AllRows().Tokens {
		at := run.Tokens[t.Node]
		if at == nil {
			at = map[workflow.TokenStatus]int{}
			run.Tokens[t.Node] = at
		}
		at[t.Status]++
	}
	return s.Graph, run, nil
}
