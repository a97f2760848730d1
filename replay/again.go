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

// A Difference is a record from which the planner makes something else now.
// Either Refused is set, and then Decision, Was and Is are empty, or Decision is 1 or more and at
// least one of Was and Is is a text. The short lines of decisions leave values out; where two short
// lines are equal, Was and Is have the encoded decisions instead, which is how journals compare.
type Difference struct {
	Run      workflow.RunID `json:"run"`
	Seq      int64          `json:"record"`            // its sequence, from 1
	At       time.Time      `json:"at"`                // its instant
	Message  string         `json:"message"`           // what the run was told
	Decision int            `json:"decision"`          // which of its decisions is the first that differs, from 1
	Was      string         `json:"was,omitempty"`     // that decision as it is recorded; "" if there was none
	Is       string         `json:"is,omitempty"`      // the decision in its place now; "" without one
	Refused  string         `json:"refused,omitempty"` // why the message is refused now, or how the planner fails
	Why      []string       `json:"why,omitempty"`     // what the planner says of the record now
	Planner  int            `json:"planner"`           // version of the planner that made the record
}

// String returns the difference in a few lines.
// The version of the planner is told only if it is another one: a difference under the same version is
// a change of the program that should have raised planning.Version, or damage.
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
//
// It is what a journal is recorded for: planners read no clock and do no I/O, so the same message on
// the same state at the same instant gives the same plan. The epoch is part of that state, since the
// keys of tasks and the check for late results have it. The caller applies the record itself, and not
// the plan, so that the states of later records are those that were recorded even if this one differs.
func PlanAgain(s *state.State, r decision.Record) (decision.Plan, *Difference) {
	s.Epoch = r.Epoch
	plan, _, err := planSafely(s, r.Message, r.At, r.Planner)
	return plan, differenceOf(s, &r, plan, err)
}

// planSafely plans a message and makes an error of a panic.
//
// Explain plans like the engine, and also returns the routes and the trace that say why. A state made
// from records that another program wrote may break an invariant on which a planner panics; a checker
// must report such a run and go on with the next one. rules is the version of the planner that made the record, whose
// rules count; 0 for the newest.
func planSafely(s *state.State, m state.Message, now time.Time, rules int) (plan decision.Plan, routes []planning.Route, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the planner fails: %v", p)
		}
		s.Rules = 0
	}()
	s.Rules = rules
	return planning.Explain(s, m, now)
}

// differenceOf compares what was decided with what a plan, or its error, says.
//
// A message that is refused now was accepted then, since a journal has no record of a refusal; so an
// error of the plan always is a difference. s is the state before the record: the message is described
// with the node at which its token stood then.
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
// The order of decisions counts: they are applied one after the other, and later ones may rest on
// earlier ones. Where one list is longer, the first decision that has no partner differs, and its
// partner is nil.
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
//
// Comparing encodings, and not structs, asks the question that matters for a stored journal, and makes
// equal what differs only in memory, such as a nil and an empty list that are written alike. A
// decision that cannot be encoded stands for itself by its error.
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
// For example, a token in branch 0 of a fan-out that began in branch 2 of another one gives [2][0]. It
// is "" at the top of the run, whose group is 0.
func branchText(s *state.State, sc workflow.Scope) (text string) {
	for sc.Group != 0 {
		text = fmt.Sprintf("[%d]", sc.Branch) + text
		sc = s.Group(sc.Group).Scope
	}
	return text
}
