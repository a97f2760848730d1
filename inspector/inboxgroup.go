package inspector

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"regexp"
	"slices"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/acts"
)

// numbers are what a message has that tells apart what is alike otherwise: digits, and words of hexadecimal digits.
var numbers = regexp.MustCompile(`\b[0-9a-fA-F]*[0-9][0-9a-fA-F]*\b|[0-9]+`)

// messageShape returns a message with its numbers taken out, in short: "line # has # fields".
func messageShape(text string) string { return shortText(numbers.ReplaceAllString(text, "#"), 200) }

// An inboxKey is what parked tasks or approvals of a group have in common. Code is "" of approvals; shape is "" for readers who do not see
// messages.
type inboxKey struct{ workflow, node, code, shape string }

// An inboxGroup are the parked tasks or approvals that are alike, as one row.
//
// First and Newest are since when the oldest and the newest of them waits; of approvals, when the first and the last of them times out.
type inboxGroup struct {
	N       int
	What    string // the message, its numbers taken out if they differ, or what is asked
	Code    string
	Node    string
	Of      string // the workflow
	First   instant
	Newest  instant
	Href    string // its members
	Acts    []actLink
	key     inboxKey
	from    time.Time
	to      time.Time
	message string
}

// inboxGroups gathers what waits for people into groups.
type inboxGroups struct {
	byKey map[inboxKey]*inboxGroup
	n     int
	more  bool // there are more than were looked at
}

// addMember counts one that waits since an instant, or, of approvals, until one.
func (g *inboxGroups) addMember(key inboxKey, message string, at time.Time) {
	if g.byKey == nil {
		g.byKey = map[inboxKey]*inboxGroup{}
	}
	row := g.byKey[key]
	if row == nil {
		row = &inboxGroup{key: key, message: message, from: at, to: at}
		g.byKey[key] = row
	}
	if row.message != message && key.shape != "" { // they differ by their numbers
		row.message = key.shape
	}
	row.N++
	g.n++
	if row.from.IsZero() || !at.IsZero() && at.Before(row.from) {
		row.from = at
	}
	if at.After(row.to) {
		row.to = at
	}
}

// areAlike reports whether grouping says less than a list: something is there more than once.
func (g *inboxGroups) areAlike() bool { return g.n > len(g.byKey) }

// countText says how many there are.
func (g *inboxGroups) countText() string {
	return countText(g.n) + textIf(g.more && g.n < countedNeeds, "+")
}

// groupRows bounds the rows of groups.
const groupRows = 50

// rowsOf returns the groups as the page shows them, the largest first.
func (p *page) rowsOf(kind, where string, g *inboxGroups, most int) (rows []inboxGroup) {
	for _, row := range g.byKey {
		rows = append(rows, *row)
	}
	slices.SortFunc(rows, func(a, b inboxGroup) int {
		return cmp.Or(b.N-a.N, a.from.Compare(b.from), cmp.Compare(fmt.Sprint(a.key), fmt.Sprint(b.key)))
	})
	rows = rows[:min(len(rows), most)]
	for i := range rows {
		r := &rows[i]
		r.Code, r.Node, r.Of, r.What = r.key.code, r.key.node, r.key.workflow, p.textAt(r.message, 160)
		r.First, r.Newest = p.instantOf(r.from), p.instantOf(r.to)
		choose := []string{"where", where, "workflow", r.Of, "node", r.Node, "code", r.Code, "like", r.key.shape}
		r.Href = p.pageLink("inbox", append([]string{"of", kind}, choose...)...) + "#" + kind
		text := ""
		if r.N > 1 {
			text = fmt.Sprintf(" all %s", groupDigits(r.N))
		}
		r.Acts = p.allWaitingLinks(kind, text, choose...)
	}
	return rows
}

// groupLetters groups the parked tasks that fit a condition, of the first countedNeeds.
func (s *server) groupLetters(p *page, where string) (g inboxGroups, err error) {
	for l, err := range s.engine.DeadLetters(p.r.Context(), pawl.DeadLetterFilter{Where: where, Limit: countedNeeds, Effort: s.effort}) {
		if stoppedAt(err) != nil {
			g.more = true
			return g, nil
		}
		if err != nil {
			return g, err
		}
		g.addMember(p.keyOfLetter(&l), l.Failure.Message, l.At)
	}
	return g, nil
}

// keyOfLetter returns what a parked task has in common with those of its group.
func (p *page) keyOfLetter(l *pawl.DeadLetter) inboxKey {
	key := inboxKey{l.Workflow, string(l.Node), l.Failure.Code, ""}
	if p.seesTexts() {
		key.shape = messageShape(l.Failure.Message)
	}
	return key
}

// groupApprovals groups the open approvals, as groupLetters does parked tasks.
func (s *server) groupApprovals(p *page, where string) (g inboxGroups, err error) {
	for a, err := range s.engine.Approvals(p.r.Context(), pawl.ApprovalFilter{Where: where, Limit: countedNeeds, Effort: s.effort}) {
		if stoppedAt(err) != nil {
			g.more = true
			return g, nil
		}
		if err != nil {
			return g, err
		}
		g.addMember(p.keyOfApproval(&a), a.Message, a.Due)
	}
	return g, nil
}

func (p *page) keyOfApproval(a *pawl.Approval) inboxKey {
	key := inboxKey{workflow: a.Workflow, node: string(a.Node)}
	if p.seesTexts() {
		key.shape = messageShape(a.Message)
	}
	return key
}

// doAll does an act to all targets, or counts them. The engine chooses by all but the message: where that counts, the members are chosen
// here, and each is left alone that does not wait any more.
func (s *server) doAll(ctx context.Context, p *page, a *allTargets, chosen pawl.Selection, act pawl.Act) (pawl.Report, error) {
	if a.like(p) == "" {
		return s.engine.DoAll(ctx, chosen, act)
	}
	limit := 0
	if f := chosen.DeadLetters; f != nil {
		limit, f.Limit = f.Limit, 0
	}
	if f := chosen.Approvals; f != nil {
		limit, f.Limit = f.Limit, 0
	}
	report := pawl.Report{Applied: !chosen.DryRun, Cursor: chosen.After}
	for t, err := range s.membersOf(ctx, p, a, &chosen) {
		if err := cmp.Or(err, ctx.Err()); err != nil {
			return report, err
		}
		if limit > 0 && report.Found == limit {
			return report, nil
		}
		report.Found++
		if chosen.DryRun {
			if len(report.Targets) < triedTargets {
				report.Targets = append(report.Targets, t)
			}
			continue
		}
		switch err := s.engine.Do(ctx, t.Run, acts.At(act, t)); {
		case err == nil:
			report.Changed++
		case errors.Is(err, pawl.ErrNotLive), errors.Is(err, pawl.ErrEnded):
			report.Left++
		case ctx.Err() != nil:
			report.Found--
			return report, err
		default:
			report.Refused = append(report.Refused, pawl.Refusal{Run: t.Run, Token: t.Token, Err: err})
		}
		report.Cursor = t
	}
	report.Cursor = pawl.Target{}
	return report, nil
}

// membersOf yields what the engine chooses and has a message of that shape.
func (s *server) membersOf(ctx context.Context, p *page, a *allTargets, chosen *pawl.Selection) iter.Seq2[pawl.Target, error] {
	return func(yield func(pawl.Target, error) bool) {
		if f := chosen.DeadLetters; f != nil {
			f.After, f.AfterToken = chosen.After.Run, chosen.After.Token
			for l, err := range s.engine.DeadLetters(ctx, *f) {
				if err == nil && p.keyOfLetter(&l).shape != a.like(p) {
					continue
				}
				if !yield(pawl.Target{Run: l.Run, Token: l.Token, Parked: true}, err) {
					return
				}
			}
			return
		}
		f := chosen.Approvals
		f.After, f.AfterToken = chosen.After.Run, chosen.After.Token
		for l, err := range s.engine.Approvals(ctx, *f) {
			if err == nil && p.keyOfApproval(&l).shape != a.like(p) {
				continue
			}
			if !yield(pawl.Target{Run: l.Run, Token: l.Token}, err) {
				return
			}
		}
	}
}

// like returns the shape of the messages that count, "" if all do: readers who do not see messages choose by none, or they could guess them.
func (a *allTargets) like(p *page) string {
	if a.Kind == allOfRuns || !p.seesTexts() {
		return ""
	}
	return a.query.Get("like")
}

// openedKind returns which kind of the inbox is opened to the members of a group, "" if none is.
func (p *page) openedKind() string {
	switch kind := p.r.URL.Query().Get("of"); kind {
	case allOfLetters, allOfApprovals:
		return kind
	}
	return ""
}
