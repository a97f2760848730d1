// Package importing reads recorded runs, which nobody believes, so that runs can be made of them.
package importing

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/refusal"
	"github.com/pawl-run/pawl/internal/shown"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/texts"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/replay"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/workflow"
)

// An Error says that a recorded run was not decided by this planner.
type Error struct {
	Run    workflow.RunID
	Record int64
	Was    string // the first decision that differs, as it is recorded; "" if there was none
	Is     string // what is decided now, or why nothing is
}

// Error names the record.
func (e *Error) Error() string {
	return fmt.Sprintf("run %q is not imported: record %d was not decided by this planner: was %.200q, is %.200q", string(e.Run), e.Record, e.Was, e.Is)
}

// Unwrap returns ErrInvalid.
func (e *Error) Unwrap() error { return refusal.ErrInvalid }

// As sets target to the error as callers know it.
func (e *Error) As(target any) bool { return shown.As(e, target) }

// A Host is the engine into which a run is imported.
type Host interface {
	// CompileDefinition compiles a definition within the bounds of the engine.
	CompileDefinition(*workflow.Definition) (*compiled.Graph, error)
	// CheckLabels returns what is wrong with the labels of a run.
	CheckLabels(map[string]string) error
}

// Read reads a recorded run, and plans it again.
//
// Playing it once more with this version's planner is the only proof that the records can be
// trusted: a checksum would say that they were not changed by accident, and not that they were
// decided by the rules.
func Read(ctx context.Context, from *replay.Recording, host Host) (*store.ForkSource, error) {
	source, err := readSource(ctx, from, host)
	if err != nil {
		return nil, fmt.Errorf("import run %q: %w", string(from.Run), err)
	}
	return source, nil
}

func readSource(ctx context.Context, from *replay.Recording, host Host) (*store.ForkSource, error) {
	seen, err := checkUntil(ctx, from)
	if err != nil {
		return nil, err
	}
	if d := seen.Difference; d != nil {
		return nil, &Error{Run: from.Run, Record: d.Seq, Was: d.Was, Is: cmp.Or(d.Is, d.Refused)}
	}
	g, err := host.CompileDefinition(from.Definition())
	if err != nil {
		return nil, err
	}
	var records []decision.Record
	for r, err := range from.Records() {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return nil, err
		}
		records = append(records, r)
	}
	start, ok := records[0].Message.(state.Start)
	if !ok {
		return nil, fmt.Errorf("%w: its first record starts nothing", refusal.ErrInvalid)
	}
	plain := workflow.RunID(strings.ReplaceAll(string(from.Run), "/", ".")) // a child run may become one of its own
	if err := errors.Join(texts.CheckRunID(plain), texts.CheckTenant(start.Tenant), host.CheckLabels(start.Labels)); err != nil {
		return nil, err
	}
	head := store.Head{Run: from.Run, Status: seen.Status, InputHash: value.Hash(start.Input), Tenant: start.Tenant, Labels: start.Labels}
	return store.NewForkSource(head, g, records)
}

// checkUntil plans a recorded run again, unless ctx ends before.
func checkUntil(ctx context.Context, from *replay.Recording) (replay.Report, error) {
	if from.Graph() == nil || from.Redacted() {
		return replay.Check(from) // it says why not
	}
	var broken error // which names the run already
	watched := replay.New(from.Run, from.Graph(), func(yield func(decision.Record, error) bool) {
		for r, err := range from.Records() {
			if broken = cmp.Or(err, ctx.Err()); !yield(r, broken) || broken != nil {
				return
			}
		}
	})
	watched.Source = from.Source
	seen, err := replay.Check(watched)
	return seen, cmp.Or(broken, err)
}

// Definitions are those of an engine directory; *store.Dir is one.
type Definitions interface {
	Graph(hash string) (*compiled.Graph, error)
}

// CheckState says what an imported run lacks here: that the bounds allow its definition, which may be patched, and the definitions
// of its subworkflows.
func CheckState(s *state.State, bounds workflow.Bounds, here Definitions) error {
	if _, err := compiled.Compile(bounds, s.Graph.Definition); err != nil {
		return err
	}
	for _, pin := range s.Pins {
		if _, err := here.Graph(pin.Hash); err != nil {
			return fmt.Errorf("%w: the run needs the subworkflow %s with the hash %.12s: publish it here, as with pawl publish", refusal.ErrInvalid, nameOf(pin), pin.Hash)
		}
	}
	return nil
}

// nameOf names what a node asks for: a version, or the latest.
func nameOf(pin state.Pin) string {
	if pin.Version == 0 {
		return pin.Name + ", as its latest version was,"
	}
	return fmt.Sprintf("%s@%d", pin.Name, pin.Version)
}
