package workflow

import (
	"slices"
	"strings"

	"github.com/pawl-run/pawl/internal/document"
	"github.com/pawl-run/pawl/internal/problem"
	"github.com/pawl-run/pawl/internal/reading"
)

// Settings of a group, in groups, are short for the same settings on each transition that synchronizes the group: a
// definition is completed with them before it is checked, hashed or compiled, and has no groups from then on.

// groupFormat is the format of the settings of a group. The name of the group is the key under which they stand.
func groupFormat(y *Synchronization) []field {
	return slices.DeleteFunc(synchronizationFormat(y), func(f field) bool { return f.name == "siblingGroup" })
}

// groupsForm is the form of the settings of groups, by name.
func groupsForm(to *map[string]Synchronization) form {
	return form{
		read: func(p *parser, e *document.Element) {
			p.EachMember(e, func(name string, e *document.Element) {
				var y Synchronization
				// So that a problem with the settings of one group has its line, also after they are spread.
				p.NotePlace()
				p.readFields(e, groupFormat(&y))
				if *to == nil {
					*to = map[string]Synchronization{}
				}
				(*to)[name] = y
			})
		},
		write: func() any {
			if len(*to) == 0 {
				return nil
			}
			out := map[string]any{}
			for name, y := range *to {
				out[name] = writeFields(groupFormat(&y))
			}
			return out
		},
	}
}

// A clash is a field of a transition that says something else than the settings of its group. It is found while the
// settings are spread and reported when the definition is checked, since spreading reports nothing.
type clash struct {
	transition int
	field      string
	group      string
}

// spreadGroups completes each synchronizing transition of d, which are its own, with the settings of its group. A
// definition in which a setting is said once has therefore the same hash as one in which each transition says it.
func (d *Definition) spreadGroups() {
	if len(d.Groups) == 0 {
		return
	}
	// The settings are kept for the check that each of them is used.
	d.settings, d.clashes, d.Groups = d.Groups, nil, nil
	for i := range d.Transitions {
		t := &d.Transitions[i]
		if t.Synchronization == nil {
			continue
		}
		// A group whose settings nobody has given is left as its transitions say.
		y, ok := d.settings[t.Synchronization.SiblingGroup]
		if !ok {
			continue
		}
		s := spreader{own: t.places, group: d.places, at: "groups." + t.Synchronization.SiblingGroup + "."}
		t.Synchronization = s.spread(t.Synchronization, &y)
		// The index of the transition says where the problem is to be reported.
		for _, field := range s.clashes {
			d.clashes = append(d.clashes, clash{i, field, t.Synchronization.SiblingGroup})
		}
		t.places = s.allPlaces()
	}
}

const ofSynchronization = "synchronization."

// A spreader completes one transition with the settings of its group. The places tell what a text says itself:
// strategy: all is the default, but whoever writes it means it.
type spreader struct {
	own, group places
	at         string // of the settings, within group
	clashes    []string
}

// spread returns y with what g says and y does not.
func (s *spreader) spread(y, g *Synchronization) *Synchronization {
	out := *y
	out.Strategy = spreadField(s, "strategy", y.Strategy, g.Strategy, All)
	out.Remaining = spreadField(s, "remaining", y.Remaining, g.Remaining, RemainingCancel)
	out.Tolerate = spreadField(s, "tolerate", y.Tolerate, g.Tolerate, Tolerance{})
	out.Timeout = spreadField(s, "timeout", y.Timeout, g.Timeout, 0)
	out.OnTimeout = spreadField(s, "onTimeout", y.OnTimeout, g.OnTimeout, TimeoutFail)
	out.OnShortfall = spreadField(s, "onShortfall", y.OnShortfall, g.OnShortfall, ShortfallFail)
	out.Errors = spreadField(s, "errors", y.Errors, g.Errors, "")
	// A merge is not taken over as a whole: a transition may say one field of it and leave the others to the group.
	switch {
	case g.Merge == nil:
	// A copy, since each transition has its own.
	case y.Merge == nil:
		out.Merge = new(*g.Merge)
	default:
		m := *y.Merge
		if m.Source == "" { // each transition may have its own
			m.Source = g.Merge.Source
		}
		m.Target = spreadField(s, "merge.target", m.Target, g.Merge.Target, "")
		m.Strategy = spreadField(s, "merge.strategy", m.Strategy, g.Merge.Strategy, "")
		m.As = spreadField(s, "merge.as", m.As, g.Merge.As, MergeAsValue)
		out.Merge = &m
	}
	return &out
}

// spreadField returns what a transition says in a field, or else what its group says, which counts where they clash.
// A default says nothing unless a text has it. Example: if the group says remaining: ignore and a transition says
// nothing, it is ignore; if the transition says block, that is a clash; if it says cancel in a text, that is one too,
// but in a Go value cancel cannot be told from nothing.
func spreadField[T comparable](s *spreader, field string, own, group, def T) T {
	var none T
	says := func(v T, in places, at string) bool { return v != none && v != def || in.have(at+field) }
	switch {
	case !says(own, s.own, ofSynchronization):
		return group
	case says(group, s.group, s.at) && own != group:
		s.clashes = append(s.clashes, ofSynchronization+field)
		return group
	default:
		return own
	}
}

// allPlaces returns the places of the transition's fields, with those of the settings that it takes over. A problem
// with a field that came from the group points to the group's line.
func (s *spreader) allPlaces() places {
	out := slices.Clone(s.own)
	for _, p := range s.group {
		// A setting of the transition itself keeps its own place.
		if rest, ok := strings.CutPrefix(p.Field, s.at); ok && !s.own.have(ofSynchronization+rest) {
			out = append(out, place{Field: ofSynchronization + rest, Line: p.Line, Column: p.Column})
		}
	}
	reading.Places(out).Sort()
	return out
}

// have reports whether a field itself was written.
func (ps places) have(field string) bool { return field != "" && ps.findPlace(field).Field == field }

// checkSettings checks that the settings of each group have a transition, and that no
// transition says something else.
func (c *checker) checkSettings() {
	for _, name := range sortedKeys(c.def.settings) {
		field := "groups." + name
		if y := c.def.settings[name]; y.SiblingGroup != "" && y.SiblingGroup != name {
			c.reportProblem(c.atDefinition(), field, problem.Conflict, "these are the settings of the group %q, not of %q", name, y.SiblingGroup)
		}
		// Settings that nobody uses are a slip of a name.
		joins := func(t Transition) bool { return t.Synchronization != nil && t.Synchronization.SiblingGroup == name }
		if !slices.ContainsFunc(c.def.Transitions, joins) {
			c.reportProblem(c.atDefinition(), field, problem.UnknownGroup, "no transition synchronizes the group %q", name)
		}
	}
	for _, x := range c.def.clashes {
		c.reportProblem(c.atTransition(x.transition), x.field, problem.DisagreeingJoins, "it differs from what groups.%s says: say it in one place", x.group)
	}
}
