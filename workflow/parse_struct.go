package workflow

import (
	"fmt"
	"slices"

	"github.com/pawl-run/pawl/internal/document"
	"github.com/pawl-run/pawl/internal/problem"
)

// partForm is the form of a struct within a struct. The struct is left out if all its fields are. input, state,
// output and limits are such: to write input: {} is to write nothing. The part is there in the Go struct in any case,
// so nothing has to be made.
func partForm[T any](to *T, format func(*T) []field) form {
	return form{
		read: func(p *parser, e *document.Element) { p.readFields(e, format(to)) },
		write: func() any {
			if m := writeFields(format(to)); len(m) > 0 {
				return m
			}
			return nil
		},
	}
}

// sectionForm is the form of a struct behind a pointer, which is written even if it is empty. approval: {} is an
// approval with all its defaults.
func sectionForm[T any](to **T, format func(*T) []field) form {
	return form{
		read: func(p *parser, e *document.Element) {
			// Also an element that is no object makes the section; its problem is reported.
			*to = new(T)
			p.readFields(e, format(*to))
		},
		write: func() any {
			if *to == nil {
				return nil
			}
			return writeFields(format(*to))
		},
	}
}

// listForm is the form of a list of structs. Items keep their order, and each is named by its index.
func listForm[T any](to *[]T, format func(*T) []field) form {
	return form{
		read: func(p *parser, e *document.Element) {
			p.EachItem(e, func(e *document.Element) {
				var v T
				// A field that the item lacks is told at the place of the item.
				p.NotePlace()
				p.readFields(e, format(&v))
				*to = append(*to, v)
			})
		},
		write: func() any {
			// An empty list and none are the same.
			if len(*to) == 0 {
				return nil
			}
			// Each item is written, be it empty: the indices of the others must stay.
			out := make([]any, len(*to))
			for i := range *to {
				out[i] = writeFields(format(&(*to)[i]))
			}
			return out
		},
	}
}

// writeFields writes all fields of one struct. A field with its default is nil and left out.
func writeFields(fields []field) map[string]any {
	out := map[string]any{}
	for _, f := range fields {
		// nil leaves a field out: none of the format has null as its value.
		if v := f.write(); v != nil {
			out[f.name] = v
		}
	}
	return out
}

// nodesForm and transitionsForm are lists whose problems name the node or the
// transition.

// nodesForm is the form of the nodes. The id of each is looked up before it is read, so that problems with what comes
// before it name it too.
func nodesForm(d *Definition) form {
	c := listForm(&d.Nodes, nodeFormat)
	c.read = func(p *parser, e *document.Element) {
		p.EachItem(e, func(e *document.Element) {
			// Each element makes a node, however wrong it is: the indices of the others stay right.
			var n Node
			// Places go into the node itself, before it is copied into the list.
			p.readOwned(owner{node: NodeID(e.StringAt("id")), places: &n.places}, func() { p.readFields(e, nodeFormat(&n)) })
			d.Nodes = append(d.Nodes, n)
		})
	}
	return c
}

// transitionsForm is the form of the transitions. A transition without an id has the one that it will get, and
// problems name it by that.
func transitionsForm(d *Definition) form {
	c := listForm(&d.Transitions, transitionFormat)
	c.read = func(p *parser, e *document.Element) {
		// An element that is no list has no items, and no ids.
		ids := writtenIDs(e)
		p.EachItem(e, func(e *document.Element) {
			var t Transition
			// The transitions read so far are as many as the elements before this one.
			id := ids[len(d.Transitions)]
			p.readOwned(owner{transition: id, places: &t.places}, func() { p.readFields(e, transitionFormat(&t)) })
			d.Transitions = append(d.Transitions, t)
		})
	}
	return c
}

// writtenIDs returns the id of each transition of a list, so that problems can name them. The ids of all must be
// known first: a default id depends on those that others have.
func writtenIDs(list *document.Element) []TransitionID {
	ts := make([]Transition, len(list.Items))
	for i, e := range list.Items {
		ts[i] = Transition{ID: TransitionID(e.StringAt("id")), From: NodeID(e.StringAt("from")), To: NodeID(e.StringAt("to"))}
	}
	// It is the same function that gives them their ids later.
	completeIDs(ts)
	ids := make([]TransitionID, len(ts))
	for i := range ts {
		// A transition with neither end has no id to speak of.
		if ts[i].ID != "->" {
			ids[i] = ts[i].ID
		}
	}
	return ids
}

// strategyForm is the form of all, any or {mOfN: n}. any is written as it was, although it is mOfN 1.
func strategyForm(to *Strategy) form {
	return form{
		read: func(p *parser, e *document.Element) {
			*to = readChoice(p, e, strategies, MOfN)
		},
		write: func() any {
			// all is the default.
			switch *to {
			case All:
				return nil
			case Any:
				return to.String()
			}
			return map[string]any{"mOfN": to.n}
		},
	}
}

// toleranceForm is the form of {failures: n} or {failureRatio: r}. failures: 0 says something, so that which field is
// there matters and not its value.
func toleranceForm(to *Tolerance) form {
	return form{
		read: func(p *parser, e *document.Element) {
			// Both are read, and the one that is there counts.
			failures, ratio := Tolerance{kind: toleranceCount}, Tolerance{kind: toleranceRatio}
			if !p.IsKind(e, document.Object) {
				return
			}
			// A field that is wrong is reported at its place; the rest of the definition is read on.
			p.readFields(e, []field{{"failures", integerForm(&failures.failures)}, {"failureRatio", numberForm(&ratio.ratio, 0)}})
			// A field that is there twice counts once, and was reported.
			switch count, share := e.Member("failures"), e.Member("failureRatio"); {
			case count != nil && share != nil:
				p.ReportProblem(problem.Conflict, "failures and failureRatio exclude each other")
			case count != nil:
				*to = failures
			case share != nil:
				*to = ratio
			default:
				p.ReportProblem(problem.Missing, "name failures or failureRatio")
			}
		},
		write: func() any {
			switch to.kind {
			case toleranceCount:
				return map[string]any{"failures": to.failures}
			case toleranceRatio:
				return map[string]any{"failureRatio": to.ratio}
			default:
				return nil
			}
		},
	}
}

// joinForm is the form of all, synchronize, any or {mOfN: n}. Which of them a mode has is checked later.
func joinForm(to *Join) form {
	return form{
		read: func(p *parser, e *document.Element) {
			*to = readChoice(p, e, joins, JoinMOfN)
		},
		write: func() any {
			// The zero Join is written as "", and left out.
			if to.kind == joinMOfN {
				return map[string]any{"mOfN": to.n}
			}
			return omitDefault("", to.String())
		},
	}
}

// readChoice reads a word or a quorum. With a problem it returns the zero value.
func readChoice[T fmt.Stringer](p *parser, e *document.Element, values []T, mOfN func(int) T) T {
	words := make([]string, len(values))
	for i, v := range values {
		words[i] = v.String()
	}
	// A quorum that cannot be read stays 0.
	var n int
	switch e.Kind {
	// {mOfN: n} is the only object that there may be.
	case document.Object:
		if p.readFields(e, []field{{"mOfN", positiveForm(&n, 0)}}); e.Member("mOfN") == nil {
			p.ReportProblem(problem.Missing, "a quorum is written {mOfN: 2}")
		}
		return mOfN(n)
	case document.String:
		// Words are written in one way, in lower case.
		if i := slices.Index(words, e.Text); i >= 0 {
			return values[i]
		}
		p.ReportProblem(problem.UnknownValue, "%q is not one of %s, {mOfN: n}", e.Text, joinValues(words))
	default:
		p.ReportType(e, joinValues(words)+" or {mOfN: n}")
	}
	var none T
	return none
}

// endForm is the form of complete, or {fail: CODE, message: TEXT}, where CODE and TEXT may be expressions. A completion has no code and needs no
// object.
func endForm(to **EndSpec) form {
	// The checker says which of them exclude each other.
	failure := func(s *EndSpec) []field {
		return []field{
			{"fail", nameForm(&s.Fail)}, {"codeExpr", expressionForm(&s.CodeExpr)},
			{"message", textForm(&s.Message)}, {"messageExpr", expressionForm(&s.MessageExpr)},
		}
	}
	return form{
		read: func(p *parser, e *document.Element) {
			*to = &EndSpec{}
			switch {
			case e.Kind == document.String && e.Text == "complete":
			case e.Kind != document.Object:
				p.ReportType(e, "complete or {fail: CODE, message: TEXT}")
			default:
				if p.readFields(e, failure(*to)); e.Member("fail") == nil && e.Member("codeExpr") == nil {
					p.ReportProblem(problem.Missing, "a failure has a code: {fail: CODE}")
				}
			}
		},
		write: func() any {
			switch s := *to; {
			case s == nil:
				return nil
			case *s == EndSpec{}:
				return "complete"
			default:
				return writeFields(failure(s))
			}
		},
	}
}
