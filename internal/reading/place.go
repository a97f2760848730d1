package reading

import (
	"slices"
	"strings"
)

// A Place is where a field was written. Lines and columns count from 1; 0 is unknown, as in what was built in Go.
type Place struct {
	Field        string // path from what owns it, such as a node, a transition, a definition or a schedule
	Line, Column int
}

// Places are those of the fields of one owner, sorted by field. They outlive the text: problems that are found later have lines too. Each
// belongs to its owner, so that what is put together of parts keeps them.
type Places []Place

// Sort sorts them, so that Find finds them. A field that is there twice keeps its order.
func (ps Places) Sort() {
	slices.SortStableFunc(ps, func(a, b Place) int { return strings.Compare(a.Field, b.Field) })
}

// Find returns the place of a field, or of the field that it is a part of. Example: synchronization.merge.target, if it was not written, has
// the place of synchronization.merge, and that of synchronization without a merge.
func (ps Places) Find(field string) Place {
	for len(ps) > 0 {
		i, ok := slices.BinarySearchFunc(ps, field, func(p Place, field string) int { return strings.Compare(p.Field, field) })
		if ok {
			return ps[i]
		}
		// The whole has no place, as in a definition that was built in Go.
		if field == "" {
			break
		}
		// One step outwards: from an index to its list, from a field to what it is in, and at last to the whole.
		field = field[:max(0, strings.LastIndexAny(field, ".["))]
	}
	return Place{}
}
