package inspector

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/acts"
	"github.com/pawl-run/pawl/internal/alike"
)

// An inboxGroup are the parked tasks or approvals that are alike, as one row.
//
// First and Newest are since when the oldest and the newest of them waits; of approvals, when the first and the last of them times out.
type inboxGroup struct {
	N      int
	What   string // the message, its numbers taken out if they differ, or what is asked
	Code   string
	Node   string
	Of     string // the workflow
	First  instant
	Newest instant
	Href   string // its members
	Acts   []actLink
}

// inboxGroups are the groups of what waits for people.
type inboxGroups struct {
	alike.Groups

	more bool // there are more than were looked at
}

// countText says how many there are.
func (g *inboxGroups) countText() string {
	return countText(g.N) + textIf(g.more && g.N < countedNeeds, "+")
}

// groupRows bounds the rows of groups.
const groupRows = 50

// rowsOf returns the groups as the page shows them, the largest first.
func (p *page) rowsOf(kind, where string, g *inboxGroups, most int) (rows []inboxGroup) {
	groups := g.Rows()
	for _, of := range groups[:min(len(groups), most)] {
		r := inboxGroup{
			N: of.N, Code: of.Code, Node: of.Node, Of: of.Workflow, What: p.textAt(of.Message, 160), First: p.instantOf(of.From), Newest: p.instantOf(of.To),
		}
		choose := []string{"where", where, "workflow", r.Of, "node", r.Node, "code", r.Code, "like", of.Shape}
		r.Href = p.pageLink("inbox", append([]string{"of", kind}, choose...)...) + "#" + kind
		text := ""
		if r.N > 1 {
			text = fmt.Sprintf(" all %s", groupDigits(r.N))
		}
		r.Acts = p.allWaitingLinks(kind, text, choose...)
		rows = append(rows, r)
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
		g.Add(p.keyOfLetter(&l), l.Failure.Message, l.At)
	}
	return g, nil
}

// keyOfLetter returns what a parked task has in common with those of its group, as far as the reader may see it.
func (p *page) keyOfLetter(l *pawl.DeadLetter) alike.Key { return p.seenKey(alike.KeyOfLetter(l)) }

// seenKey returns a key without what comes from a message, for readers who do not see messages.
func (p *page) seenKey(key alike.Key) alike.Key {
	if !p.seesTexts() {
		key.Shape = ""
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
		g.Add(p.keyOfApproval(&a), a.Message, a.Due)
	}
	return g, nil
}

func (p *page) keyOfApproval(a *pawl.Approval) alike.Key { return p.seenKey(alike.KeyOfApproval(a)) }

// doAll does an act to all targets, or counts them. The engine chooses by all but the message: where that counts, the members are chosen
// here, and each is left alone that does not wait any more.
func (s *server) doAll(ctx context.Context, p *page, a *allTargets, chosen pawl.Selection, act pawl.Act) (pawl.Report, error) {
	if a.like() == "" {
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
				if err == nil && p.keyOfLetter(&l).Shape != a.like() {
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
			if err == nil && p.keyOfApproval(&l).Shape != a.like() {
				continue
			}
			if !yield(pawl.Target{Run: l.Run, Token: l.Token}, err) {
				return
			}
		}
	}
}

// like returns the shape of the messages that count, "" if all do. readAll refuses one of a reader who does not see messages.
func (a *allTargets) like() string { return a.query.Get("like") }

// openedKind returns which kind of the inbox is opened to the members of a group, "" if none is.
func (p *page) openedKind() string {
	switch kind := p.r.URL.Query().Get("of"); kind {
	case allOfLetters, allOfApprovals:
		return kind
	}
	return ""
}
