package planning

import (
	"fmt"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/limits"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/merge"
	"github.com/pawl-run/pawl/workflow"
)

// mergeArrivals folds the values of the arrived branches into the target of the
// join, and returns what they became. Without a target the value is only returned: the
// continuation of the group begins with it as its result.
//
// It is called on a fork, before the group fires. The value lands in the scope of the token
// that fanned out, so that a nested merge lands in the outer branch. A value that is written
// and then found not to fit the state's schema fails the group, and the fork is dropped with
// the write.
func (p *planner) mergeArrivals(g *state.Group, spec *compiled.GroupSpec, arrivals []merge.Branch) (any, *workflow.Failure) {
	m := spec.Sync.Merge
	if m == nil {
		return nil, nil
	}
	v, err := merge.Apply(merge.Strategy(m.Strategy), arrivals)
	if err != nil {
		return nil, &workflow.Failure{Code: workflow.CodeMerge, Permanent: true, Message: err.Error()}
	}
	d := decision.MergeBranches{Group: g.ID, Scope: g.Scope, Path: spec.Target.Segments, Append: spec.Target.Append}
	var blobs []decision.Blob
	// Only the reference is among the data then, so that the bound of a merged value does not
	// apply.
	if m.As == workflow.MergeAsBlob {
		b := decision.NewBlob(v.([]any)) // append and collect make lists
		v, d.Blob, blobs = b.Reference(), true, []decision.Blob{b}
	} else if n := value.Size(v); n > p.mergeLimit(spec) {
		return nil, p.mergeTooLarge(g, n, len(arrivals))
	}
	written := len(d.Path) > 0
	if written {
		if f := p.checkWritable(g.Scope, spec.Target, v); f != nil {
			return nil, f
		}
	}
	d.Value = v
	p.decide(d)
	p.blobs = append(p.blobs, blobs...)
	if !written {
		return v, nil // nothing of the state is another now
	}
	return v, p.checkPath(g.Scope, spec.Target)
}

// mergeLimit returns how many bytes of JSON the merged value of a group may have. If
// the node behind the join takes all of it, it is part of that node's input.
func (p *planner) mergeLimit(spec *compiled.GroupSpec) int {
	if spec.MergedIn != "" {
		return min(p.s.Graph.Limits.PayloadBytes, limits.MaxMergedBytes)
	}
	return limits.MaxMergedBytes
}

// exceedsMerge reports whether the values of the branches that have arrived make a
// merged value that is too large, whatever the others bring.
//
// It is asked at every arrival, so that a group which cannot succeed fails at once and does
// not keep 16 MiB of values until its last branch has come. It may miss what mergeArrivals
// then finds, and never finds what that would not. Bytes is the size of what waits in the
// branches that have arrived.
func (p *planner) exceedsMerge(g *state.Group) bool {
	spec := p.s.Graph.Groups[g.Name]
	m := spec.Sync.Merge
	if m == nil || m.As == workflow.MergeAsBlob {
		return false
	}
	most := p.mergeLimit(spec)
	switch merge.Strategy(m.Strategy) {
	case merge.Append:
		return g.Bytes-2*g.Arrived > most // a list may lose its brackets
	case merge.Collect, merge.Keyed:
		return g.Bytes > most
	case merge.Object, merge.Last:
		return false // a later branch may replace what an earlier one brings
	default:
		panic("planning: unknown merge strategy " + m.Strategy)
	}
}

// mergeTooLarge returns the failure of a group whose merged value has n bytes or more. It
// also says what to do about it.
func (p *planner) mergeTooLarge(g *state.Group, n, arrived int) *workflow.Failure {
	spec := p.s.Graph.Groups[g.Name]
	limit, where := "mergedBytes", "where at most %d are merged"
	if spec.MergedIn != "" {
		limit, where = value.LimitBytes, fmt.Sprintf("whose input %q takes at most %%d", spec.MergedIn)
	}
	cure := "say as: blob in the merge"
	if s := merge.Strategy(spec.Sync.Merge.Strategy); s != merge.Append && s != merge.Collect {
		cure += ", with the strategy append or collect"
	}
	return &workflow.Failure{
		Code: workflow.CodeLimit, Permanent: true,
		Message: fmt.Sprintf("limit %s: %d of %d branches of %q bring %d bytes to their join at node %q, %s: %s",
			limit, arrived, g.Total, g.Name, n, string(spec.To), fmt.Sprintf(where, p.mergeLimit(spec)), cure),
	}
}
