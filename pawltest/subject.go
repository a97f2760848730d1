package pawltest

import (
	"context"
	"fmt"
	"iter"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/acts"
	"github.com/pawl-run/pawl/workflow"
)

// A subject is the run that an event or a mock is about, or the copy of it on which a simulation tries events.
type subject struct {
	engine *pawl.Engine
	run    workflow.RunID
	copied *pawl.Simulation // nil if it is the run itself
}

// inspectRun returns how the subject stands.
func (s subject) inspectRun(ctx context.Context) (pawl.Snapshot, error) {
	if s.copied != nil {
		return s.copied.Snapshot(), nil
	}
	return s.engine.Inspect(ctx, s.run)
}

// listRecords returns what has been decided: the journal of the run and, of a copy, its steps after that.
func (s subject) listRecords(ctx context.Context) iter.Seq2[decision.Record, error] {
	return func(yield func(decision.Record, error) bool) {
		for r, err := range acts.Records(s.engine.Journal(ctx, s.run, pawl.EventsOptions{})) {
			if !yield(r, err) {
				return
			}
		}
		if s.copied == nil {
			return
		}
		for _, step := range s.copied.Steps() {
			if !yield(acts.RecordOf(&step.Record), nil) {
				return
			}
		}
	}
}

// branchItems returns the elements of the branches of the subject's groups.
func (s subject) branchItems(ctx context.Context) map[workflow.GroupID][]any {
	out, total := map[workflow.GroupID][]any{}, map[workflow.GroupID]int{}
	for r, err := range s.listRecords(ctx) {
		if err != nil {
			break
		}
		for _, x := range r.Decisions {
			if made, ok := x.(decision.CreateBranches); ok {
				total[made.Group.ID] = made.Group.Total
				if made.Items != nil {
					out[made.Group.ID] = made.Items
				}
			}
			if added, ok := x.(decision.AddBranch); ok {
				out[added.Group] = withItem(out[added.Group], total[added.Group], added.Item)
				total[added.Group]++
			}
		}
	}
	return out
}

// withItem returns the elements of a group with that of a branch of an index, which is its last. A group has none if no branch of it has one.
func withItem(items []any, index int, item any) []any {
	if items == nil && item == nil {
		return nil
	}
	out := make([]any, index+1)
	copy(out, items)
	out[index] = item
	return out
}

// tokenTarget returns the token at the node of t that is in a branch of an index.
func (s subject) tokenTarget(ctx context.Context, t pawl.Target, index int) (pawl.Target, error) {
	snap, err := s.inspectRun(ctx)
	if err != nil {
		return t, err
	}
	for i := range snap.Tokens {
		token := &snap.Tokens[i]
		if token.Live() && token.Node == t.Node && token.Scope.Group != 0 && token.Scope.Branch == index {
			return pawl.Target{Run: t.Run, Token: token.ID}, nil
		}
	}
	return t, fmt.Errorf("%w: no thread of branch %d is at node %q", pawl.ErrNotLive, index, string(t.Node))
}

// groupOrigin returns the origin of the group of a name that gathers in a branch of an index.
func (s subject) groupOrigin(ctx context.Context, group string, index int) (workflow.TokenID, error) {
	snap, err := s.inspectRun(ctx)
	if err != nil {
		return 0, err
	}
	for i := range snap.Groups {
		g := &snap.Groups[i]
		if g.Name == group && g.Phase == workflow.Gathering && g.Scope.Group != 0 && g.Scope.Branch == index {
			return g.Origin, nil
		}
	}
	return 0, fmt.Errorf("%w: no group %q gathers in branch %d", pawl.ErrNotLive, group, index)
}

// copiedKey returns the key of an attempt that only the copy has made, or no key. An index is that of a branch; -1 is the latest of all.
func (s subject) copiedKey(ctx context.Context, name attemptName) (key pawl.Key) {
	if s.copied == nil {
		return ""
	}
	made := map[pawl.Key]bool{}
	if snap, err := s.engine.Inspect(ctx, s.run); err == nil {
		for i := range snap.Tokens {
			made[snap.Tokens[i].Key] = true
		}
	}
	tokens := s.copied.Snapshot().Tokens
	for i := range tokens {
		t := &tokens[i]
		here := name.index < 0 || t.Scope.Group != 0 && t.Scope.Branch == name.index
		if here && string(t.Node) == name.node && t.Attempt == name.attempt && t.Key != "" && !made[t.Key] {
			key = t.Key
		}
	}
	return key
}
