package filter

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-run/pawl/internal/expr"
	"github.com/pawl-run/pawl/workflow"
)

// Bounds are what an index can tell of the runs for which a condition can be true. The zero
// value of a field is any.
type Bounds struct {
	None     bool                 // there are no such runs
	ID       workflow.RunID       // the one run
	Status   []workflow.RunStatus // one of these
	Workflow string
	Tenant   string
	Parent   workflow.RunID
	Code     string // of the failure
	Roots    bool   // only runs without a parent
	Labels   map[string]string
}

// narrow adds what an equality says. It fails with an *Error if that names no status.
func (b *Bounds) narrow(e *expr.Equality) *Error {
	name := e.Chain[0]
	if name == "status" && len(e.Chain) == 1 {
		return b.narrowStatus(e)
	}
	if len(e.Texts) != 1 {
		return nil
	}
	text := e.Texts[0]
	switch {
	case len(e.Chain) == 2 && name == "labels" && text != "":
		if b.Labels == nil {
			b.Labels = map[string]string{}
		}
		label := b.Labels[e.Chain[1]]
		Narrow(&label, text, &b.None)
		b.Labels[e.Chain[1]] = label
	case len(e.Chain) > 1:
	case name == "run":
		Narrow(&b.ID, workflow.RunID(text), &b.None)
	case name == "workflow":
		Narrow(&b.Workflow, text, &b.None)
	case name == "tenant":
		Narrow(&b.Tenant, text, &b.None)
	case name == "code":
		Narrow(&b.Code, text, &b.None)
	case name == "parent" && text == "":
		b.Roots = true
	case name == "parent":
		Narrow(&b.Parent, workflow.RunID(text), &b.None)
	}
	return nil
}

// Narrow sets a bound to text, unless that is "". If another text is set already, none becomes
// true: nothing fits both.
func Narrow[T ~string](bound *T, text T, none *bool) {
	if text == "" {
		return
	}
	*none = *none || *bound != "" && *bound != text
	*bound = text
}

func (b *Bounds) narrowStatus(e *expr.Equality) *Error {
	var wanted []workflow.RunStatus
	for _, text := range e.Texts {
		var status workflow.RunStatus
		if status.UnmarshalText([]byte(text)) != nil {
			return &Error{Line: e.Line, Column: e.Column, Message: fmt.Sprintf("no status is called %.40q: there are %s", text, strings.Join(statusNames(), ", "))}
		}
		wanted = append(wanted, status)
	}
	b.Status, b.None = IntersectStatus(b.Status, wanted, b.None || len(wanted) == 0)
	return nil
}

// IntersectStatus returns the statuses that are in both lists, and whether there are no such
// statuses. An empty list stands for all.
func IntersectStatus(a, b []workflow.RunStatus, none bool) ([]workflow.RunStatus, bool) {
	if len(a) == 0 || len(b) == 0 {
		return slices.Concat(a, b), none
	}
	both := slices.DeleteFunc(slices.Clone(a), func(s workflow.RunStatus) bool { return !slices.Contains(b, s) })
	return both, none || len(both) == 0
}

func statusNames() []string {
	var names []string
	for s := workflow.RunCreated; s <= workflow.RunCancelled; s++ {
		names = append(names, s.String())
	}
	return names
}

// MayFit reports whether a run is within the bounds.
func (b *Bounds) MayFit(r *Run) bool {
	for key, v := range b.Labels {
		if r.Labels[key] != v {
			return false
		}
	}
	return !b.None && (b.ID == "" || b.ID == r.ID) && (len(b.Status) == 0 || slices.Contains(b.Status, r.Status)) &&
		(b.Workflow == "" || b.Workflow == r.Workflow) && (b.Tenant == "" || b.Tenant == r.Tenant) && (b.Code == "" || b.Code == r.Code) &&
		(b.Parent == "" || b.Parent == r.Parent) && (!b.Roots || r.Parent == "")
}
