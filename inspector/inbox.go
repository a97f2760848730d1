package inspector

import (
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/internal/acts"
	"github.com/pawl-run/pawl/internal/alike"
	"github.com/pawl-run/pawl/workflow"
)

// A letterRow is a task that has used up its attempts.
//
// Code is always shown, Failure and Input only to those who may see values. Target is set for forms, from target, if the reader may act.
type letterRow struct {
	Run      workflow.RunID
	Node     workflow.NodeID
	Href     string // its token
	RunHref  string
	Workflow string
	Task     string
	Token    workflow.TokenID
	Input    *shownValue
	Attempts int
	Failure  string
	Code     string
	Since    instant
	Target   string // for a form; "" without a form
	target   string
	Acts     []actLink
}

// An approvalRow is an approval that waits for people.
//
// Approved and Rejected count the votes so far. Due is when it times out. Target is set as that of a letterRow.
type approvalRow struct {
	Run      workflow.RunID
	Node     workflow.NodeID
	Href     string
	RunHref  string
	Workflow string
	Message  string
	Input    *shownValue
	Approved int
	Rejected int
	Due      instant
	Target   string // for a form; "" without a form
	target   string
	Acts     []actLink
}

// shownInbox bounds what the inbox lists of each kind.
const shownInbox = 200

// An inboxBody lists groups of what is alike, and, of the kind and group that is opened or where nothing is alike, the members, at most
// shownInbox of each kind; the counts go up to countedNeeds.
type inboxBody struct {
	Letters        []letterRow
	LetterCount    string
	LetterPages    inboxPages
	LetterGroups   []inboxGroup
	Approvals      []approvalRow
	ApprovalCount  string
	ApprovalPages  inboxPages
	ApprovalGroups []inboxGroup
	Blocked        []runRow // runs with a join that can no longer be met
	BlockedCount   string
	BlockedHref    string // lists all of them
	MayAct         bool
	Opened         string // in words, the group that is opened
	Of             string // the kind of that
	All            string // leads back to all groups
	Where          string // a condition on the runs
	Wrong          string // why it is not a condition; then there are no rows
	Help           conditionHelp
}

// inboxPages lead from a page of one kind to others, and to what can be done to all of that kind. The other kind stays on its page.
type inboxPages struct {
	Of          string // what that kind is called
	First, Next string // "" where there is no such page
	AllActs     []actLink
}

// textIf returns a text for those to whom it is shown, and "" for others.
func textIf(shown bool, text string) string {
	if shown {
		return text
	}
	return ""
}

// showInbox lists what waits for people.
//
// A condition on the runs may narrow both lists. A wrong one is shown with what is wrong with it, in place of rows.
func (s *server) showInbox(p *page) error {
	where := strings.TrimSpace(p.r.URL.Query().Get("where"))
	err := acts.CheckWhere(where)
	if err == nil {
		err = s.showMatches(p, where)
	}
	if errors.As(err, new(*pawl.WhereError)) { // some can be said of no run, others not of one
		return p.showStatus(http.StatusBadRequest, "inbox.html", "Inbox", "inbox", inboxBody{Where: where, Wrong: wrongText(err), Help: conditionHelpAt(p.now)})
	}
	return err
}

// showMatches lists what waits for people in the runs that fit a condition.
func (s *server) showMatches(p *page, where string) error {
	if err := p.takeWhere(where); err != nil {
		return err
	}
	b := inboxBody{Where: where, Help: conditionHelpAt(p.now), MayAct: p.rights&api.Act != 0, Of: p.openedKind(), All: p.pageLink("inbox", "where", where)}
	a, err := p.openedGroup(b.Of, where)
	if err != nil {
		return err
	}
	b.Opened = a.Words
	var letters, approvals inboxGroups
	if b.Of != allOfApprovals {
		letters, err = s.groupLetters(p, a.letterFilter(), a.like())
	}
	if err == nil && b.Of != allOfLetters {
		approvals, err = s.groupApprovals(p, a.approvalFilter(), a.like())
	}
	if err != nil {
		return err
	}
	b.LetterCount, b.ApprovalCount = letters.countText(), approvals.countText()
	afterLetter, afterApproval, err := p.inboxCursors()
	if err != nil {
		return err
	}
	if b.Of == "" && letters.AreAlike() && afterLetter.Run == "" {
		b.LetterGroups = p.rowsOf(allOfLetters, where, &letters, groupRows)
		b.LetterPages = p.inboxPagesOf(allOfLetters, where, letters.N, pawl.Target{})
	}
	if b.Of == "" && approvals.AreAlike() && afterApproval.Run == "" {
		b.ApprovalGroups = p.rowsOf(allOfApprovals, where, &approvals, groupRows)
		b.ApprovalPages = p.inboxPagesOf(allOfApprovals, where, approvals.N, pawl.Target{})
	}
	err = s.addMembers(p, &b, a, afterLetter, afterApproval)
	if err == nil && b.Of == "" {
		err = s.addBlocked(p, &b)
	}
	if errors.Is(err, pawl.ErrRunNotFound) { // the run that a page began after was purged: nobody knows where that was
		return p.goTo("inbox" + queryOf(nil, []string{"where", where}))
	}
	if err != nil {
		return err
	}
	// Later pages would move under their reader, as those of runs.
	p.markLive(afterLetter.Run == "" && afterApproval.Run == "", false, 0)
	return p.showPage("inbox.html", "Inbox", "inbox", b)
}

// addMembers lists what is not shown in groups: the members of the one that is opened, or of a kind of which nothing is alike.
func (s *server) addMembers(p *page, b *inboxBody, a *allTargets, afterLetter, afterApproval pawl.Target) error {
	if b.Of != allOfApprovals && b.LetterGroups == nil {
		f := a.letterFilter()
		f.After, f.AfterToken = afterLetter.Run, afterLetter.Token
		rows, next, err := s.listLetters(p, shownInbox, f, a.like())
		if err != nil {
			return err
		}
		for i := range rows {
			rows[i].Target = textIf(b.MayAct, rows[i].target)
		}
		b.Letters, b.LetterPages = rows, p.inboxPagesOf(allOfLetters, b.Where, len(rows), next)
	}
	if b.Of != allOfLetters && b.ApprovalGroups == nil {
		f := a.approvalFilter()
		f.After, f.AfterToken = afterApproval.Run, afterApproval.Token
		rows, next, err := s.listApprovals(p, shownInbox, f, a.like())
		if err != nil {
			return err
		}
		for i := range rows {
			rows[i].Target = textIf(b.MayAct, rows[i].target)
		}
		b.Approvals, b.ApprovalPages = rows, p.inboxPagesOf(allOfApprovals, b.Where, len(rows), next)
	}
	return nil
}

// addBlocked lists the runs with a join that can no longer be met.
func (s *server) addBlocked(p *page, b *inboxBody) error {
	f := acts.IncidentFilter(pawl.RunFilter{Where: b.Where, Limit: countedNeeds, Effort: s.effort})
	n := 0
	for r, err := range s.engine.Runs(p.r.Context(), f) {
		if stoppedAt(err) != nil {
			break
		}
		if err != nil {
			return err
		}
		if n++; n <= shownInbox {
			b.Blocked = append(b.Blocked, p.rowOf(&r))
		}
	}
	b.BlockedCount, b.BlockedHref = countText(n), p.blockedLink(&f)
	return nil
}

// blockedLink leads to the list of the runs that a filter of blocked runs finds.
func (p *page) blockedLink(f *pawl.RunFilter) string {
	return p.pageLink("runs", "where", `status in ["running", "paused"] && `+f.Where)
}

// openedGroup returns the group of a kind that is opened; of no kind, all that waits in the runs that fit a condition, without words.
func (p *page) openedGroup(kind, where string) (*allTargets, error) {
	if kind == "" {
		return &allTargets{Filter: pawl.RunFilter{Where: where}}, nil
	}
	return p.readAll(kind, p.r.URL.Query())
}

// inboxCursors reads after which tokens the two lists begin.
func (p *page) inboxCursors() (letter, approval pawl.Target, err error) {
	q := p.r.URL.Query()
	for name, at := range map[string]*pawl.Target{allOfLetters: &letter, allOfApprovals: &approval} {
		if text := q.Get(name); text != "" {
			var ok bool
			if *at, ok = targetOf(text); !ok {
				return letter, approval, errNoPage
			}
		}
	}
	return letter, approval, nil
}

// inboxPagesOf returns where the pages of a kind lead, if so many rows are on this one. The kind is the name of its parameter.
func (p *page) inboxPagesOf(kind, where string, rows int, next pawl.Target) (out inboxPages) {
	out.Of = (&allTargets{Kind: kind}).Noun(0)
	q := p.r.URL.Query()
	q.Del("told") // what was done is told once
	if q.Get(kind) != "" {
		q.Del(kind)
		out.First = p.root + "inbox" + queryOf(q, nil)
	}
	if next.Run != "" {
		q.Set(kind, targetText(next))
		out.Next = p.root + "inbox" + queryOf(q, nil)
	}
	if rows > 1 || out.First != "" { // one alone has its own links
		choose := []string{"where", where}
		if p.openedKind() == kind {
			for _, name := range waitingFields[1:] {
				choose = append(choose, name, q.Get(name))
			}
		}
		out.AllActs = p.allWaitingLinks(kind, " all", choose...)
	}
	return out
}

// tokenLink leads to the page of a token.
func (p *page) tokenLink(run workflow.RunID, id workflow.TokenID) string {
	return p.runLink(run, "view", "token", "token", strconv.FormatInt(int64(id), 10))
}

// listLetters returns the first dead letters that fit a filter, and the last of them if there are more.
func (s *server) listLetters(p *page, most int, f pawl.DeadLetterFilter, like string) (rows []letterRow, next pawl.Target, err error) {
	if f.Effort = s.effort; like == "" {
		f.Limit = most + 1 // one more says that there is a next page
	}
	for l, err := range s.engine.DeadLetters(p.r.Context(), f) {
		if stopped := stoppedAt(err); stopped != nil {
			return rows, pawl.Target{Run: stopped.Run, Token: stopped.Token}, nil
		}
		if err != nil {
			return nil, next, err
		}
		if like != "" && p.keyOfLetter(&l).Shape != like {
			continue
		}
		if len(rows) == most {
			return rows, next, nil
		}
		t := pawl.Target{Run: l.Run, Token: l.Token, Parked: true}
		row := letterRow{
			target: targetText(t), Acts: p.letterLinks(&l), Token: l.Token,
			Run: l.Run, Node: l.Node, Href: p.tokenLink(l.Run, l.Token), RunHref: p.runLink(l.Run), Workflow: l.Workflow, Task: l.Task,
			Attempts: l.Attempts, Code: l.Failure.Code, Failure: p.textAt(l.Failure.Message, 240), Since: p.instantOf(l.At),
		}
		if l.Trouble != "" {
			row.Failure = shortText(l.Trouble, 240)
		}
		if l.Input != nil { // by which tasks of one fan-out are told apart
			row.Input = p.valueAt(l.Run, "input", l.Input, smallValue)
		}
		rows, next = append(rows, row), pawl.Target{Run: l.Run, Token: l.Token}
	}
	return rows, pawl.Target{}, nil
}

// listApprovals returns the first approvals that fit a filter, and the last of them if there are more.
func (s *server) listApprovals(p *page, most int, f pawl.ApprovalFilter, like string) (rows []approvalRow, next pawl.Target, err error) {
	if f.Effort = s.effort; like == "" {
		f.Limit = most + 1
	}
	for a, err := range s.engine.Approvals(p.r.Context(), f) {
		if stopped := stoppedAt(err); stopped != nil {
			return rows, pawl.Target{Run: stopped.Run, Token: stopped.Token}, nil
		}
		if err != nil {
			return nil, next, err
		}
		if like != "" && p.keyOfApproval(&a).Shape != like {
			continue
		}
		if len(rows) == most {
			return rows, next, nil
		}
		rows, next = append(rows, p.approvalRowOf(&a)), pawl.Target{Run: a.Run, Token: a.Token}
	}
	return rows, pawl.Target{}, nil
}

// approvalRowOf describes an approval: its message and input as far as the reader may see them.
func (p *page) approvalRowOf(a *pawl.Approval) approvalRow {
	t := pawl.Target{Run: a.Run, Token: a.Token}
	row := approvalRow{
		target: targetText(t), Acts: p.inboxLinks(t, "approve", "reject"),
		Run: a.Run, Node: a.Node, Href: p.tokenLink(a.Run, a.Token), RunHref: p.runLink(a.Run), Workflow: a.Workflow,
		Message: p.textAt(a.Message, 400), Approved: a.Approved, Rejected: a.Rejected, Due: p.instantOf(a.Due),
	}
	if a.Trouble != "" {
		row.Message = shortText(a.Trouble, 400)
	}
	if a.Input != nil {
		row.Input = p.valueAt(a.Run, "input", a.Input, smallValue)
	}
	return row
}

// findApproval returns an approval as the inbox lists it, without what can be done; nil if it is open no more.
//
// It looks at the approvals of one run only.
func (s *server) findApproval(p *page, t pawl.Target) (*approvalRow, error) {
	for a, err := range s.engine.Approvals(p.r.Context(), pawl.ApprovalFilter{Run: t.Run}) {
		if err != nil {
			return nil, err
		}
		if a.Token == t.Token {
			row := p.approvalRowOf(&a)
			row.Acts = nil
			return &row, nil
		}
	}
	return nil, nil //nolint:nilnil // somebody else has answered
}

// letterLinks returns what can be done to a parked task, or to its run.
func (p *page) letterLinks(l *pawl.DeadLetter) (links []actLink) {
	for _, name := range alike.ActsOf(l) {
		t := pawl.Target{Run: l.Run, Token: l.Token, Parked: true}
		if name == "raise" {
			t = pawl.Target{Run: l.Run}
		}
		links = append(links, p.inboxLinks(t, name)...)
	}
	return links
}

// inboxLinks is actLinks of what stands in the inbox, to which the forms lead back.
func (p *page) inboxLinks(t pawl.Target, names ...string) []actLink {
	links := p.actLinks(t, names...)
	for i := range links {
		links[i].Href += "&return=inbox"
	}
	return links
}
