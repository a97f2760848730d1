package state

import (
	"strconv"
	"strings"

	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/workflow"
)

// escapedInPath writes the id of a node as the view paths of a run's file does.
var escapedInPath = strings.NewReplacer("~", "~0", "/", "~1")

// PathOf returns the branches that enclose a scope as a text, outermost first: root, and /NODE:INDEX for each
// fan-out, where NODE is the node that fanned out and INDEX the branch, from 0. In the id of a node ~ is written ~0,
// and / is written ~1. Example: root/split:3/each:0 is in branch 0 of what each fanned out, in branch 3 of what split
// fanned out. A path names no loops: two occurrences of a fan-out in the same branch have the same one.
func (s *State) PathOf(sc workflow.Scope) string {
	if sc.Group == 0 {
		return "root"
	}
	g := s.Group(sc.Group)
	return s.PathOf(g.Scope) + "/" + escapedInPath.Replace(string(g.Node)) + ":" + strconv.Itoa(sc.Branch)
}

// OwnData returns what a scope itself has written to a section, without what it sees of the scopes around it, as a
// plain value; nil if it has written nothing. It looks at one scope through all overlays, as layersOf does, and does
// not go on to the scope around it.
func (s *State) OwnData(sc workflow.Scope, section string) any {
	var own view
	for t := s; t != nil; t = t.base {
		l, ok := t.scopes[sc]
		if l != nil {
			own = append(own, sheet{layer: l})
		}
		if ok && (l == nil || l.anew) {
			break // dropped
		}
	}
	v, _ := own.viewAt(section).resolveValue()
	return value.Materialize(v)
}
