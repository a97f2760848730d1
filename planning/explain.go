package planning

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/expr"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/workflow"
)

// A Route says which transitions a token took as it left its node.
type Route struct {
	Token       workflow.TokenID
	Node        workflow.NodeID
	Transitions []workflow.TransitionID // in definition order; none if no transition matched
	Caught      *workflow.Failure       // what error transitions caught; nil if the node completed
}

// Explain plans as [Step] does, with the same decisions and the same errors, has the reasons
// in the plan's Trace, and returns as well which transitions were taken, in order. It is for
// those who look at a run afterwards, or before.
//
// The reasons are not stored with a run. A record that is planned again on the state before
// it has the same decisions, and with them the reasons, as long as the planner decides alike.
func Explain(s *state.State, m state.Message, now time.Time) (decision.Plan, []Route, error) {
	routes := []Route{}
	plan, err := planMessage(s, m, now, &routes)
	return plan, routes, err
}

// noteRoute notes which transitions a token takes, if somebody asks. A token that ends
// because nothing matches has a route without transitions.
func (p *planner) noteRoute(matches []match, v vars) {
	if p.routes == nil || p.hasStopped() {
		return
	}
	r := Route{Token: v.token.ID, Node: v.token.Node, Caught: v.caught}
	for i := range matches {
		r.Transitions = append(r.Transitions, matches[i].ID)
	}
	*p.routes = append(*p.routes, r)
}

// maxReading bounds a value in a note, in bytes of its JSON.
const maxReading = 200

// maxQuoted bounds the elements of a value that a note quotes whole.
const maxQuoted = 64

// readingsOf returns what an expression may have read, as it was when it was evaluated. It
// looks the values up a second time, right after the evaluation and from the same state, so
// that they are those which the expression has seen. Which of them it came to read depends on
// its operators; all that it names are listed.
func readingsOf(prog *expr.Program, v vars) []decision.Reading {
	var out []decision.Reading
	for _, chain := range prog.References() {
		x, ok := v.Lookup(chain[0])
		for _, key := range chain[1:] {
			if !ok {
				break
			}
			x, ok = valueUnder(x, key)
		}
		r := decision.Reading{Path: (value.Path{Segments: chain}).String()}
		if ok {
			r.Value = quoteValue(x)
		}
		out = append(out, r)
	}
	return out
}

// valueUnder returns the value of an object under a key, and whether there is one.
func valueUnder(x any, key string) (any, bool) {
	switch x := x.(type) {
	case map[string]any:
		v, ok := x[key]
		return v, ok
	case value.Object:
		return x.Get(key)
	default:
		return nil, false
	}
}

// quoteValue returns a value as short JSON. It says how many elements a large value has, and elsewhere it
// ends where a note does, so that it costs little however large the value is. Messages of failures quote values by it
// too, which planners decide alike.
func quoteValue(x any) string {
	if text, ok := x.(string); ok {
		return string(value.Encode(value.Shorten(text, maxReading)))
	}
	return value.Shorten(string(appendQuoted(nil, x)), maxReading)
}

// appendQuoted appends a value, up to about maxReading bytes. The variable run has timestamps, which no other value has.
func appendQuoted(dst []byte, x any) []byte {
	switch x := x.(type) {
	case time.Time:
		return value.AppendString(dst, x.Format(time.RFC3339Nano))
	case string:
		return value.AppendString(dst, value.Shorten(x, maxReading))
	case value.Object:
		return fmt.Appendf(dst, "{%d keys}", x.Len())
	case value.List:
		return fmt.Appendf(dst, "[%d elements]", x.Len())
	case map[string]any:
		if len(x) > maxQuoted {
			return fmt.Appendf(dst, "{%d keys}", len(x))
		}
		dst = append(dst, '{')
		for i, key := range slices.Sorted(maps.Keys(x)) {
			if dst = appendComma(dst, i); len(dst) > maxReading {
				return dst
			}
			dst = appendQuoted(append(appendQuoted(dst, key), ':'), x[key])
		}
		return append(dst, '}')
	case []any:
		if len(x) > maxQuoted {
			return fmt.Appendf(dst, "[%d elements]", len(x))
		}
		dst = append(dst, '[')
		for i, element := range x {
			if dst = appendComma(dst, i); len(dst) > maxReading {
				return dst
			}
			dst = appendQuoted(dst, element)
		}
		return append(dst, ']')
	default:
		return value.Append(dst, x)
	}
}

// appendComma appends what stands before element i.
func appendComma(dst []byte, i int) []byte {
	if i == 0 {
		return dst
	}
	return append(dst, ',')
}
