package replay

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/planning"
	"github.com/pawl-run/pawl/workflow"
)

// A Difference is a record of which the planner makes something else now.
type Difference struct {
	Run      workflow.RunID `json:"run"`
	Seq      int64          `json:"record"`            // its sequence, from 1
	At       time.Time      `json:"at"`                // its instant
	Message  string         `json:"message"`           // what the run was told
	Decision int            `json:"decision"`          // which of its decisions is the first that differs, from 1
	Was      string         `json:"was,omitempty"`     // that decision as it is recorded; "" if there was none
	Is       string         `json:"is,omitempty"`      // the decision in its place now; "" if there is none
	Refused  string         `json:"refused,omitempty"` // why the message is refused now, or how the planner fails
	Why      []string       `json:"why,omitempty"`     // what the planner says of the record now
	Planner  int            `json:"planner"`           // version of the planner that made the record
}

// String returns the difference in a few lines.
func (d *Difference) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "record %d, %s: ", d.Seq, d.Message)
	if d.Refused != "" {
		fmt.Fprintf(&b, "now refused: %s", d.Refused)
	} else {
		fmt.Fprintf(&b, "decision %d differs\n  was: %s\n  is:  %s", d.Decision, orNone(d.Was), orNone(d.Is))
	}
	for _, w := range d.Why {
		fmt.Fprintf(&b, "\n  why: %s", w)
	}
	if d.Planner != planning.Version {
		fmt.Fprintf(&b, "\n  version %d of the planner made the record, this is %d", d.Planner, planning.Version)
	}
	return b.String()
}

func orNone(text string) string {
	if text == "" {
		return "nothing"
	}
	return text
}

// PlanAgain plans a record again on s, the state of its run before it. It returns the plan,
// and how that differs from the record; nil if the decisions are the same, byte for byte.
// The state is not changed, but for its epoch, which becomes that of the record.
func PlanAgain(s *state.State, r decision.Record) (decision.Plan, *Difference) {
	s.Epoch = r.Epoch
	plan, _, err := planSafely(s, r.Message, r.At)
	return plan, differenceOf(s, &r, plan, err)
}

// planSafely plans a message and makes an error of a panic.
func planSafely(s *state.State, m state.Message, now time.Time) (plan decision.Plan, routes []planning.Route, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the planner fails: %v", p)
		}
	}()
	return planning.Explain(s, m, now)
}

// differenceOf compares what was decided with what a plan, or its error, says.
func differenceOf(s *state.State, r *decision.Record, plan decision.Plan, refused error) *Difference {
	d := &Difference{Run: s.Run, Seq: r.Seq, At: r.At, Planner: r.Planner}
	if refused != nil {
		d.Refused = refused.Error()
	} else if !findDifference(d, r.Decisions, plan.Decisions) {
		return nil
	}
	d.Message = messageText(s, r.Message)
	for _, n := range plan.Trace {
		d.Why = append(d.Why, n.String())
	}
	return d
}

// findDifference notes the first decision that differs, and reports whether one does.
func findDifference(d *Difference, was, is []decision.Decision) bool {
	for i := range max(len(was), len(is)) {
		var a, b decision.Decision
		if i < len(was) {
			a = was[i]
		}
		if i < len(is) {
			b = is[i]
		}
		textA, textB := encodedDecision(a), encodedDecision(b)
		if bytes.Equal(textA, textB) {
			continue
		}
		d.Decision, d.Was, d.Is = i+1, decisionText(a), decisionText(b)
		if d.Was == d.Is { // the short form leaves something out
			d.Was, d.Is = string(textA), string(textB)
		}
		return true
	}
	return false
}

// encodedDecision returns a decision as a journal keeps it, with all its values in place.
func encodedDecision(d decision.Decision) []byte {
	if d == nil {
		return nil
	}
	data, err := decision.Decisions.AppendAll(nil, []decision.Decision{d}, nil)
	if err != nil {
		return []byte(err.Error())
	}
	return data
}

func decisionText(d decision.Decision) string {
	if d == nil {
		return ""
	}
	return d.String()
}

// messageText describes a message, with the node that it is for.
func messageText(s *state.State, m state.Message) string {
	text := state.DescribeMessage(m)
	if t := s.Token(state.TokenOf(m)); t != nil {
		text += " at " + placeOf(s, t)
	}
	return text
}

// placeOf names where a token is: its node, with the branches that it is in.
func placeOf(s *state.State, t *state.Token) string {
	return string(t.Node) + branchText(s, t.Scope)
}

// branchText returns the branches around a scope, outermost first, as [2][0].
func branchText(s *state.State, sc workflow.Scope) (text string) {
	for sc.Group != 0 {
		text = fmt.Sprintf("[%d]", sc.Branch) + text
		sc = s.Group(sc.Group).Scope
	}
	return text
}
