package workflow

import "github.com/pawl-run/pawl/internal/document"

// part is a struct within a struct; it is left out if all its fields are.
func part[T any](to *T, format func(*T) []field) form {
	return form{
		read: func(p *parser, e *document.Element) { p.fields(e, format(to)) },
		write: func() any {
			if m := written(format(to)); len(m) > 0 {
				return m
			}
			return nil
		},
	}
}

// section is a struct behind a pointer; it is written even if it is empty.
func section[T any](to **T, format func(*T) []field) form {
	return form{
		read: func(p *parser, e *document.Element) {
			*to = new(T)
			p.fields(e, format(*to))
		},
		write: func() any {
			if *to == nil {
				return nil
			}
			return written(format(*to))
		},
	}
}

// list is a list of structs.
func list[T any](to *[]T, format func(*T) []field) form {
	return form{
		read: func(p *parser, e *document.Element) {
			p.items(e, func(e *document.Element) {
				var v T
				p.note()
				p.fields(e, format(&v))
				*to = append(*to, v)
			})
		},
		write: func() any {
			if len(*to) == 0 {
				return nil
			}
			out := make([]any, len(*to))
			for i := range *to {
				out[i] = written(format(&(*to)[i]))
			}
			return out
		},
	}
}

// written writes all fields of one struct.
func written(fields []field) map[string]any {
	out := map[string]any{}
	for _, f := range fields {
		if v := f.write(); v != nil {
			out[f.name] = v
		}
	}
	return out
}

// nodes and transitions are lists whose problems name the node or transition.

func nodes(d *Definition) form {
	c := list(&d.Nodes, nodeFormat)
	c.read = func(p *parser, e *document.Element) {
		p.items(e, func(e *document.Element) {
			var n Node
			p.own(owner{node: NodeID(e.StringAt("id")), places: &n.places}, func() { p.fields(e, nodeFormat(&n)) })
			d.Nodes = append(d.Nodes, n)
		})
	}
	return c
}

func transitions(d *Definition) form {
	c := list(&d.Transitions, transitionFormat)
	c.read = func(p *parser, e *document.Element) {
		ids := writtenIDs(e)
		p.items(e, func(e *document.Element) {
			var t Transition
			id := ids[len(d.Transitions)]
			p.own(owner{transition: id, places: &t.places}, func() { p.fields(e, transitionFormat(&t)) })
			d.Transitions = append(d.Transitions, t)
		})
	}
	return c
}

// writtenIDs returns the id of each transition of a list, so that problems can
// name them.
func writtenIDs(list *document.Element) []TransitionID {
	ts := make([]Transition, len(list.Items))
	for i, e := range list.Items {
		ts[i] = Transition{ID: TransitionID(e.StringAt("id")), From: NodeID(e.StringAt("from")), To: NodeID(e.StringAt("to"))}
	}
	completeIDs(ts)
	ids := make([]TransitionID, len(ts))
	for i := range ts {
		if ts[i].ID != "->" {
			ids[i] = ts[i].ID
		}
	}
	return ids
}

// strategy is all, any or {mOfN: n}.
func strategy(to *Strategy) form {
	return form{
		read: func(p *parser, e *document.Element) {
			*to = choice(p, e, map[string]Strategy{"all": All, "any": Any}, MOfN)
		},
		write: func() any {
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

// join is all, synchronize, any or {mOfN: n}.
func join(to *Join) form {
	return form{
		read: func(p *parser, e *document.Element) {
			words := map[string]Join{"all": JoinAll, "synchronize": JoinSynchronize, "any": JoinAny}
			*to = choice(p, e, words, JoinMOfN)
		},
		write: func() any {
			if to.kind == joinMOfN {
				return map[string]any{"mOfN": to.n}
			}
			return unless("", to.String())
		},
	}
}

// choice reads a word or a quorum.
func choice[T any](p *parser, e *document.Element, words map[string]T, mOfN func(int) T) T {
	var n int
	switch e.Kind {
	case document.Object:
		if p.fields(e, []field{{"mOfN", positive(&n, 0)}}); e.Member("mOfN") == nil {
			p.report(ProblemMissing, "a quorum is written {mOfN: 2}")
		}
		return mOfN(n)
	case document.String:
		if v, ok := words[e.Text]; ok {
			return v
		}
		p.report(ProblemUnknownValue, "%q is not one of %s, {mOfN: n}", e.Text, listed(sortedKeys(words)))
	default:
		p.expected(e, listed(sortedKeys(words))+" or {mOfN: n}")
	}
	var none T
	return none
}

// end is complete, or {fail: CODE, message: TEXT}.
func end(to **EndSpec) form {
	failure := func(s *EndSpec) []field {
		return []field{{"fail", name(&s.Fail)}, {"message", prose(&s.Message)}}
	}
	return form{
		read: func(p *parser, e *document.Element) {
			*to = &EndSpec{}
			switch {
			case e.Kind == document.String && e.Text == "complete":
			case e.Kind != document.Object:
				p.expected(e, "complete or {fail: CODE, message: TEXT}")
			default:
				if p.fields(e, failure(*to)); e.Member("fail") == nil {
					p.report(ProblemMissing, "a failure has a code: {fail: CODE}")
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
				return written(failure(s))
			}
		},
	}
}
