// Package alike groups what waits for people: parked tasks, approvals and runs that are blocked, of one workflow, node and code, whose
// messages differ by numbers alone.
package alike

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/acts"
	"github.com/pawl-run/pawl/workflow"
)

// numbers are what a message has that tells apart what is alike otherwise: digits, and words of hexadecimal digits.
var numbers = regexp.MustCompile(`\b[0-9a-fA-F]*[0-9][0-9a-fA-F]*\b|[0-9]+`)

// shapeLength bounds the characters of a shape.
const shapeLength = 200

// shapeOf returns a message with its numbers taken out, in short: "line # has # fields".
func shapeOf(text string) string {
	runes := []rune(numbers.ReplaceAllString(text, "#"))
	if len(runes) > shapeLength {
		return string(runes[:shapeLength-1]) + "…"
	}
	return string(runes)
}

// A Key is what the members of a group have in common. Code is "" of approvals. Shape is the message without its numbers; a caller empties
// it for readers who do not see messages.
type Key struct{ Workflow, Node, Code, Shape string }

// KeyOfLetter returns the key of a parked task.
func KeyOfLetter(l *pawl.DeadLetter) Key {
	return Key{l.Workflow, string(l.Node), l.Failure.Code, shapeOf(l.Failure.Message)}
}

// ActsOf returns the acts that end the wait of a parked task. Where what its run may report leaves no room for it, a retry would be refused, and
// Raise begins it.
func ActsOf(l *pawl.DeadLetter) []string {
	if l.Failure.Code == workflow.CodeLimit && strings.HasPrefix(l.Failure.Message, "limit meta.") {
		return []string{"raise", "skip"}
	}
	return []string{"retry", "skip"}
}

// KeyOfApproval returns the key of an approval.
func KeyOfApproval(a *pawl.Approval) Key {
	return Key{Workflow: a.Workflow, Node: string(a.Node), Shape: shapeOf(a.Message)}
}

// A Group are N members that are alike. Message is theirs, without numbers if they differ. From and To are the earliest and the latest
// instant of a member; zero if no member has one.
type Group struct {
	Key
	N        int
	Message  string
	From, To time.Time
}

// Groups gathers members into groups. The zero value has none.
type Groups struct {
	N     int // members
	byKey map[Key]*Group
}

// Add counts a member with an instant of its own, or the zero time.
func (g *Groups) Add(key Key, message string, at time.Time) {
	if g.byKey == nil {
		g.byKey = map[Key]*Group{}
	}
	group := g.byKey[key]
	if group == nil {
		group = &Group{Key: key, Message: message, From: at, To: at}
		g.byKey[key] = group
	}
	if group.Message != message && key.Shape != "" { // they differ by their numbers
		group.Message = key.Shape
	}
	group.N++
	g.N++
	if group.From.IsZero() || !at.IsZero() && at.Before(group.From) {
		group.From = at
	}
	if at.After(group.To) {
		group.To = at
	}
}

// AreAlike reports whether groups say less than a list of all members: a group has more than one.
func (g *Groups) AreAlike() bool { return g.N > len(g.byKey) }

// Rows returns the groups, the largest first, then those with the earliest member.
func (g *Groups) Rows() (rows []Group) {
	for _, group := range g.byKey {
		rows = append(rows, *group)
	}
	slices.SortFunc(rows, func(a, b Group) int {
		return cmp.Or(b.N-a.N, a.From.Compare(b.From), cmp.Compare(fmt.Sprint(a.Key), fmt.Sprint(b.Key)))
	})
	return rows
}

// A Member is one thing that waits: an approval, a parked task, or a run with a join that can no longer be met, whose failure says at which
// node. None of them is set of a run that cannot be read, which Trouble says. At is since when a task waits, or when an approval times out.
type Member struct {
	Approval   *pawl.Approval
	DeadLetter *pawl.DeadLetter
	Incident   *pawl.RunSummary

	Key     Key
	Run     workflow.RunID
	Message string
	At      time.Time
	Trouble string
}

// A Source lists what waits.
type Source interface {
	Approvals(context.Context, pawl.ApprovalFilter) iter.Seq2[pawl.Approval, error]
	DeadLetters(context.Context, pawl.DeadLetterFilter) iter.Seq2[pawl.DeadLetter, error]
	Runs(context.Context, pawl.RunFilter) iter.Seq2[pawl.RunSummary, error]
}

// Members yields approvals, then parked tasks, then blocked runs, as far as the workflow, node, code and condition of a filter choose
// them. An error ends the list.
func Members(ctx context.Context, from Source, f pawl.DeadLetterFilter) iter.Seq2[Member, error] {
	return func(yield func(Member, error) bool) {
		for _, yieldKind := range []func(context.Context, Source, *pawl.DeadLetterFilter, func(Member, error) bool) bool{yieldApprovals, yieldLetters, yieldIncidents} {
			if !yieldKind(ctx, from, &f, yield) {
				return
			}
		}
	}
}

// yieldApprovals yields open approvals, and reports whether the list goes on. No approval has a code.
func yieldApprovals(ctx context.Context, from Source, f *pawl.DeadLetterFilter, yield func(Member, error) bool) bool {
	if f.Code != "" {
		return true
	}
	for a, err := range from.Approvals(ctx, pawl.ApprovalFilter{Workflow: f.Workflow, Node: f.Node, Where: f.Where}) {
		if !yield(Member{Approval: &a, Key: KeyOfApproval(&a), Run: a.Run, Message: a.Message, At: a.Due, Trouble: a.Trouble}, err) || err != nil {
			return false
		}
	}
	return true
}

// yieldLetters is yieldApprovals for parked tasks.
func yieldLetters(ctx context.Context, from Source, f *pawl.DeadLetterFilter, yield func(Member, error) bool) bool {
	for l, err := range from.DeadLetters(ctx, *f) {
		if !yield(Member{DeadLetter: &l, Key: KeyOfLetter(&l), Run: l.Run, Message: l.Failure.Message, At: l.At, Trouble: l.Trouble}, err) || err != nil {
			return false
		}
	}
	return true
}

// yieldIncidents is yieldApprovals for blocked runs. Their filter has no node and no code, so those of the failure are compared.
func yieldIncidents(ctx context.Context, from Source, f *pawl.DeadLetterFilter, yield func(Member, error) bool) bool {
	for run, err := range from.Runs(ctx, acts.IncidentFilter(pawl.RunFilter{Workflow: f.Workflow, Where: f.Where})) {
		m := Member{Run: run.Run, Trouble: run.Trouble}
		if of := run.Failure; of != nil {
			if f.Node != "" && of.Node != f.Node || f.Code != "" && of.Code != f.Code {
				continue
			}
			m.Incident, m.Key, m.Message = &run, Key{run.Workflow, string(of.Node), of.Code, shapeOf(of.Message)}, of.Message
		}
		if !yield(m, err) || err != nil {
			return false
		}
	}
	return true
}
