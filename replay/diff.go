package replay

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/workflow"
)

// A Comparison says how two runs differ. It compares what became of each stay at a
// node and of each fan-out, wherever it stands in the journals: the order in which results of
// parallel branches came makes no difference, nor do ids and instants.
//
// Example: ann approves at review in A, and rejects in B. Then Parting is at review, with the
// transition that each took, OnlyA and OnlyB have the nodes behind the two, and Value is the vote.
// Where two runs of one definition part, the different value is mostly the cause.
type Comparison struct {
	A       workflow.RunID     `json:"a"`
	B       workflow.RunID     `json:"b"`
	StatusA workflow.RunStatus `json:"statusA"`
	StatusB workflow.RunStatus `json:"statusB"`
	Equal   int                `json:"equal"`             // decisions of A, in its order, before they part
	Parting *Parting           `json:"parting,omitempty"` // nil if they never part
	OnlyA   []workflow.NodeID  `json:"onlyA,omitempty"`   // nodes that B never reached
	OnlyB   []workflow.NodeID  `json:"onlyB,omitempty"`
	Value   *ValueDifference   `json:"value,omitempty"` // nil if both were given the same
}

// A Parting is the first decision that two runs do not share.
type Parting struct {
	Place string  `json:"place"` // the node, with its branches
	A     *Choice `json:"a,omitempty"`
	B     *Choice `json:"b,omitempty"` // nil if that run never came there, or is still there
}

// A Choice is what was decided at a place, and why.
// Seq, At and Message are of the record in which it was decided; Why has the trace of the planner of
// today for that token.
type Choice struct {
	Seq     int64     `json:"record"`
	At      time.Time `json:"at"`
	Message string    `json:"message"`
	Text    string    `json:"text"`
	Why     []string  `json:"why,omitempty"`
}

// A ValueDifference is the first value that two runs were given differently: their input, a
// result, an error, a signal, a vote.
type ValueDifference struct {
	Place string `json:"place"` // as quote[1] result.price
	SeqA  int64  `json:"recordA"`
	SeqB  int64  `json:"recordB"`
	A     any    `json:"a"` // nil if it is missing there
	B     any    `json:"b"`
}

// Differs reports whether the runs part, or were given different values.
func (c Comparison) Differs() bool { return c.Parting != nil || c.Value != nil }

// String returns the comparison in a few lines.
func (c Comparison) String() string {
	var b strings.Builder
	if c.Parting == nil {
		fmt.Fprintf(&b, "they decide the same, %d times\n", c.Equal)
	} else {
		fmt.Fprintf(&b, "equal for %d decisions; they part at %s\n", c.Equal, c.Parting.Place)
		writeChoice(&b, c.A, c.Parting.A)
		writeChoice(&b, c.B, c.Parting.B)
	}
	writeNodes(&b, c.A, c.OnlyA)
	writeNodes(&b, c.B, c.OnlyB)
	if v := c.Value; v != nil {
		fmt.Fprintf(&b, "first different value: %s is %s in record %d of %s, %s in record %d of %s\n",
			v.Place, shortJSON(v.A), v.SeqA, c.A, shortJSON(v.B), v.SeqB, c.B)
	}
	fmt.Fprintf(&b, "%s is %v, %s is %v", c.A, c.StatusA, c.B, c.StatusB)
	return b.String()
}

func shortJSON(v any) string { return value.Shorten(string(value.Encode(v)), 80) }

func writeChoice(b *strings.Builder, run workflow.RunID, c *Choice) {
	if c == nil {
		fmt.Fprintf(b, "  %s  has not come to an end there\n", run)
		return
	}
	fmt.Fprintf(b, "  %s  record %d: %s\n", run, c.Seq, c.Text)
	for _, why := range c.Why {
		fmt.Fprintf(b, "    why: %s\n", why)
	}
}

func writeNodes(b *strings.Builder, run workflow.RunID, nodes []workflow.NodeID) {
	if len(nodes) == 0 {
		return
	}
	fmt.Fprintf(b, "only %s:", run)
	for _, n := range nodes {
		fmt.Fprintf(b, " %s", n)
	}
	b.WriteByte('\n')
}

// Diff compares two runs, mostly of one definition. An error says that one of them cannot be
// read.
//
// Both runs are in memory as a whole, with a text for every end of a stay.
func Diff(a, b *Recording) (Comparison, error) {
	x, err := walkThrough(a)
	if err != nil {
		return Comparison{}, err
	}
	y, err := walkThrough(b)
	if err != nil {
		return Comparison{}, err
	}
	c := Comparison{
		A: a.Run, B: b.Run, StatusA: x.player.state.Status, StatusB: y.player.state.Status,
		OnlyA: x.nodesNotIn(y), OnlyB: y.nodesNotIn(x), Value: firstValue(x, y),
	}
	c.Equal, c.Parting = findParting(x, y)
	return c, nil
}

// nodesNotIn returns the nodes that this run visited and the other did not, in the order in which this
// run came to them.
func (w *walk) nodesNotIn(other *walk) (out []workflow.NodeID) {
	for _, n := range w.nodes {
		if !other.visited[n] {
			out = append(out, n)
		}
	}
	return out
}

// findParting returns the first choice of x at a place where y chose otherwise, and how many
// came before it; without one the first that only one of them has made.
//
// A choice that differs counts more than one that is missing, even if it comes later: a run that is
// recorded up to its middle lacks choices, and has not decided otherwise. The order is that of x;
// positions in y are not compared, for the branches of a fan-out end in any order.
func findParting(x, y *walk) (int, *Parting) {
	others := map[place]*choice{}
	for i := range y.choices {
		others[y.choices[i].place] = &y.choices[i]
	}
	first, seen := -1, map[place]bool{}
	for i := range x.choices {
		c := &x.choices[i]
		seen[c.place] = true
		switch other := others[c.place]; {
		case other == nil:
			if first < 0 {
				first = i
			}
		case other.text != c.text:
			return i, &Parting{Place: c.place.String(), A: shownChoice(c), B: shownChoice(other)}
		}
	}
	if first >= 0 {
		c := &x.choices[first]
		return first, &Parting{Place: c.place.String(), A: shownChoice(c)}
	}
	for i := range y.choices {
		if c := &y.choices[i]; !seen[c.place] {
			return len(x.choices), &Parting{Place: c.place.String(), B: shownChoice(c)}
		}
	}
	return len(x.choices), nil
}

func shownChoice(c *choice) *Choice {
	return &Choice{Seq: c.seq, At: c.at, Message: c.message, Text: c.text, Why: c.why}
}

// firstValue returns the first value of x that y was given otherwise; nil without one.
//
// A value that only one of the runs was given is no difference here: it is missing because the run
// went elsewhere, which the parting shows. Names are as noteValue makes them; among equal names the first
// counts.
func firstValue(x, y *walk) *ValueDifference {
	others := map[string]*given{}
	for i := range y.values {
		if v := &y.values[i]; others[v.name] == nil {
			others[v.name] = v
		}
	}
	for _, v := range x.values {
		other := others[v.name]
		if other == nil {
			continue
		}
		if path, a, b, differs := firstDifference(v.value, other.value); differs {
			return &ValueDifference{Place: v.name + path, SeqA: v.seq, SeqB: other.seq, A: a, B: b}
		}
	}
	return nil
}

// firstDifference returns where two values differ first, in the order of keys, and what is
// there in each.
//
// path leads from the value to the difference, such as .lines[2].price, and is "" if the whole
// differs. Lists of different lengths that agree as far as the shorter one goes differ as a whole; a
// key that only one object has is nil in the other, or they differ as a whole if it is nil in both.
func firstDifference(a, b any) (path string, inA, inB any, differs bool) {
	if x, ok := a.(map[string]any); ok {
		if y, ok := b.(map[string]any); ok {
			keys := maps.Clone(x)
			maps.Copy(keys, y)
			for _, k := range slices.Sorted(maps.Keys(keys)) {
				if path, p, q, differs := firstDifference(x[k], y[k]); differs {
					return "." + k + path, p, q, true
				}
				if hasKey(x, k) != hasKey(y, k) { // with null in one
					return "", a, b, true
				}
			}
			return "", nil, nil, false
		}
	}
	if x, ok := a.([]any); ok {
		if y, ok := b.([]any); ok {
			for i := range min(len(x), len(y)) {
				if path, p, q, differs := firstDifference(x[i], y[i]); differs {
					return fmt.Sprintf("[%d]%s", i, path), p, q, true
				}
			}
			return "", a, b, len(x) != len(y)
		}
	}
	return "", a, b, !reflect.DeepEqual(a, b)
}

func hasKey(m map[string]any, key string) bool { _, has := m[key]; return has }
