package compiled

import (
	"cmp"

	"github.com/pawl-run/pawl/workflow"
)

// The graph holds copies of what a definition leaves out with the defaults
// filled in, so that whoever plans by it need not know them. The definition
// itself keeps its text and its hash.

// syncWithDefaults returns a copy of y in which every rule is spelled out, except that a quorum without Tolerate has
// none: it is decided by its shortfall. With all, no branch may fail unless the definition says so. With any and
// mOfN other branches may make up for one that fails: failures count only when so many branches have failed that
// the quorum cannot be met.
func syncWithDefaults(y *workflow.Synchronization) *workflow.Synchronization {
	out := *y
	out.Remaining = cmp.Or(y.Remaining, workflow.RemainingCancel)
	out.OnTimeout = cmp.Or(y.OnTimeout, workflow.TimeoutFail)
	out.OnShortfall = cmp.Or(y.OnShortfall, workflow.ShortfallFail)
	if y.Merge != nil {
		m := *y.Merge
		m.As = cmp.Or(m.As, workflow.MergeAsValue)
		out.Merge = &m
	}
	if y.Tolerate == (workflow.Tolerance{}) && y.Strategy == workflow.All {
		out.Tolerate = workflow.TolerateFailures(0)
	}
	return &out
}

// approvalWithDefaults returns a copy of a in which every rule is spelled out, nil for nil. One approval approves and one
// rejection rejects, if nothing else is said, and nobody within the time is a failure.
func approvalWithDefaults(a *workflow.ApprovalSpec) *workflow.ApprovalSpec {
	if a == nil {
		return nil
	}
	out := *a
	out.Quorum, out.RejectQuorum = max(a.Quorum, 1), max(a.RejectQuorum, 1)
	out.OnTimeout = cmp.Or(a.OnTimeout, workflow.ApprovalFail)
	return &out
}
