package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/diagram"
	"github.com/pawl-run/pawl/internal/runfile"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/replay"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/workflow"
)

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
	in, err := store.InspectSealed(dir, keys)
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
func askGraph(ctx context.Context, dir string, id workflow.RunID, locked error) (_ *workflow.Graph, _ *diagram.Run, source string, _ error) {
	client, err := api.Dial(ctx, dir)
	if errors.Is(err, api.ErrNoEngine) {
		return nil, nil, "", locked
	}
	if err != nil {
		return nil, nil, "", err
	}
	defer client.Close()
	if source, err = liveText(ctx, client); err != nil {
		return nil, nil, "", err
	}
	o, err := client.Overview(ctx, id)
	if err != nil {
		return nil, nil, "", err
	}
	def, _, err := client.Definition(ctx, id)
	if err != nil {
		return nil, nil, "", err
	}
	g, err := workflow.Boundless().Compile(def)
	if err != nil {
		return nil, nil, "", err
	}
	run := &diagram.Run{ID: id, Status: o.Status, Seq: o.Seq, Tokens: map[workflow.NodeID]map[workflow.TokenStatus]int{}}
	for _, n := range o.Nodes {
		run.Tokens[n.Node] = n.Tokens
	}
	return g, run, source, nil
}

// graphs remembers compiled definitions by their hash. It is used while one run is restored, by one
// goroutine.
type graphs map[string]*workflow.Graph

// Known returns the definition with a hash, nil if it is not remembered.
func (g graphs) Known(hash string) *workflow.Graph { return g[hash] }

// AddDefinition remembers a definition.
func (g graphs) AddDefinition(def *workflow.Graph) *workflow.Graph {
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
	db, err := store.OpenSealedRunFile(path, keys)
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
func graphOfRun(s *standing, err error) (*workflow.Graph, *diagram.Run, error) {
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
