package inspector

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/acts"
	"github.com/pawl-run/pawl/internal/alike"
	"github.com/pawl-run/pawl/internal/refusal"
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

// groupLetters groups the parked tasks that fit a filter and have a message like that, "" being any: the first countedNeeds of them.
func (s *server) groupLetters(p *page, f pawl.DeadLetterFilter, like string) (g inboxGroups, err error) {
	f.Effort = s.effort
	for l, err := range s.engine.DeadLetters(p.r.Context(), f) {
		if stoppedAt(err) != nil {
			g.more = true
			return g, nil
		}
		if err != nil {
			return g, err
		}
		if key := p.keyOfLetter(&l); like == "" || key.Shape == like {
			g.Add(key, l.Failure.Message, l.At)
		}
		if g.N == countedNeeds {
			break
		}
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
func (s *server) groupApprovals(p *page, f pawl.ApprovalFilter, like string) (g inboxGroups, err error) {
	f.Effort = s.effort
	for a, err := range s.engine.Approvals(p.r.Context(), f) {
		if stoppedAt(err) != nil {
			g.more = true
			return g, nil
		}
		if err != nil {
			return g, err
		}
		if key := p.keyOfApproval(&a); like == "" || key.Shape == like {
			g.Add(key, a.Message, a.Due)
		}
		if g.N == countedNeeds {
			break
		}
	}
	return g, nil
}

func (p *page) keyOfApproval(a *pawl.Approval) alike.Key { return p.seenKey(alike.KeyOfApproval(a)) }

// doAll does an act to all targets, or counts them. The engine chooses by all but the message, the instant at which a task was parked, and what
// the page has shown: where those count, the members are chosen here.
func (s *server) doAll(ctx context.Context, p *page, a *allTargets, chosen pawl.Selection, act pawl.Act) (pawl.Report, error) {
	limit := 0
	switch {
	case chosen.DeadLetters != nil && (a.like() != "" || !a.Asked.IsZero()):
		limit, chosen.DeadLetters.Limit = chosen.DeadLetters.Limit, 0
	case chosen.Approvals != nil && (a.like() != "" || len(a.Shown) > 0):
		limit, chosen.Approvals.Limit = chosen.Approvals.Limit, 0
	default:
		return s.engine.DoAll(ctx, chosen, act)
	}
	report := pawl.Report{Applied: !chosen.DryRun, Cursor: chosen.After}
	for one, err := range s.membersOf(ctx, p, a, &chosen) {
		if err := cmp.Or(err, ctx.Err()); err != nil {
			return report, err
		}
		if limit > 0 && report.Found == limit {
			return report, nil
		}
		err = one.trouble
		if err == nil && report.Applied {
			err = s.doMember(ctx, one.at, act)
		}
		switch {
		case !report.Applied:
			if err == nil && len(report.Targets) < triedTargets {
				report.Targets = append(report.Targets, one.at)
			}
		case err == nil:
			report.Changed++
		case errors.Is(err, pawl.ErrNotLive), errors.Is(err, pawl.ErrEnded):
			report.Left++
		case refusal.ConcernsAll(err):
			return report, err
		default:
			report.Refused = append(report.Refused, pawl.Refusal{Run: one.at.Run, Token: one.at.Token, Err: err})
		}
		report.Found++
		report.Cursor = one.at
	}
	report.Cursor = pawl.Target{}
	return report, nil
}

// doMember does an act to one of many. It is finished though ctx ends meanwhile.
func (s *server) doMember(ctx context.Context, at pawl.Target, act pawl.Act) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), allTime)
	defer cancel()
	err := s.engine.Do(ctx, at.Run, acts.At(act, at))
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", pawl.ErrUnknown, err)
	}
	return err
}

// A member is one of what the engine chooses. Nothing is done to one whose row is damaged, which trouble says.
type member struct {
	at      pawl.Target
	trouble error
}

// newMember returns a member that is shown with some trouble, if that is not empty.
func newMember(at pawl.Target, trouble string) member {
	if trouble == "" {
		return member{at: at}
	}
	return member{at, &pawl.CorruptError{Run: at.Run, File: "pawl.db", What: trouble}}
}

// membersOf yields what the engine chooses and the reader means: what has a message of that shape and was seen.
func (s *server) membersOf(ctx context.Context, p *page, a *allTargets, chosen *pawl.Selection) iter.Seq2[member, error] {
	return func(yield func(member, error) bool) {
		if f := chosen.DeadLetters; f != nil {
			f.After, f.AfterToken = chosen.After.Run, chosen.After.Token
			for l, err := range s.engine.DeadLetters(ctx, *f) {
				if err == nil && (a.like() != "" && p.keyOfLetter(&l).Shape != a.like() || a.isLater(l.At)) {
					continue
				}
				if !yield(newMember(pawl.Target{Run: l.Run, Token: l.Token, Parked: true}, l.Trouble), err) {
					return
				}
			}
			return
		}
		f := chosen.Approvals
		f.After, f.AfterToken = chosen.After.Run, chosen.After.Token
		for l, err := range s.engine.Approvals(ctx, *f) {
			at := pawl.Target{Run: l.Run, Token: l.Token}
			if err == nil && (a.like() != "" && p.keyOfApproval(&l).Shape != a.like() || len(a.Shown) > 0 && !slices.Contains(a.Shown, at)) {
				continue
			}
			if !yield(newMember(at, l.Trouble), err) {
				return
			}
		}
	}
}

// isLater reports whether an instant is after the page was made that asked, which was perhaps within this millisecond.
func (a *allTargets) isLater(at time.Time) bool {
	return !a.Asked.IsZero() && !at.Before(a.untilAsked())
}

// untilAsked returns the instant from which on nothing was seen by the page that asked.
func (a *allTargets) untilAsked() time.Time { return a.Asked.Add(time.Millisecond) }

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
