package state

import (
	"cmp"
	"fmt"

	"github.com/pawl-run/pawl/workflow"
)

// ChildID returns the id of the child that an attempt of a token starts. Callers cannot give such an id, since theirs
// hold no slash. The attempt is part of it: a node that is tried again starts another child.
func ChildID(parent workflow.RunID, token workflow.TokenID, attempt int) workflow.RunID {
	return workflow.RunID(fmt.Sprintf("%s/%d.%d", string(parent), int64(token), attempt))
}

// Pins say which definition each subworkflow node below a root run executes: what its name and version meant when the
// root started. They are handed down to every child, which can start from them what is below it.
type Pins []Pin

// A Pin is the definition that a name and version stand for.
type Pin struct {
	Name    string `json:"name"`
	Version int    `json:"version,omitzero"` // 0: the latest
	Hash    string `json:"hash"`
}

// Of returns the hash of the definition that s names, "" if it is not pinned. The version is the one that the
// definition asks for: 0 and the number that it stood for are two pins.
func (p Pins) Of(s *workflow.SubworkflowSpec) string {
	for _, pin := range p {
		if pin.Name == s.Name && pin.Version == s.Version {
			return pin.Hash
		}
	}
	return ""
}

// ChoicesOf returns the task types or the names of subworkflows among which an expression of n
// chooses; none if n names one itself.
func ChoicesOf(n *workflow.Node) []string {
	if n.Subworkflow != nil {
		return n.Subworkflow.Names
	}
	return n.Tasks
}

// Chosen returns the definition of a literal name, which the expression of s has chosen; that of s itself, if it has
// none. The result has no expression any more, as pins have it.
func Chosen(s *workflow.SubworkflowSpec, name string) workflow.SubworkflowSpec {
	return workflow.SubworkflowSpec{Name: cmp.Or(name, s.Name), Version: s.Version}
}

// Pinned returns the definitions that s may name, by their literal names. All of them are pinned, since which of
// them a run comes to is known too late.
func Pinned(s *workflow.SubworkflowSpec) []workflow.SubworkflowSpec {
	if s.Name != "" {
		return []workflow.SubworkflowSpec{Chosen(s, "")}
	}
	out := make([]workflow.SubworkflowSpec, len(s.Names))
	for i, name := range s.Names {
		out[i] = Chosen(s, name)
	}
	return out
}
