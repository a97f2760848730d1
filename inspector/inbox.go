package inspector

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
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
	Target   string // for a form; "" where there is none
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
	Target   string // for a form; "" where there is none
	target   string
	Acts     []actLink
}

// shownInbox bounds what the inbox lists of each kind.
const shownInbox = 200

// An inboxBody lists at most shownInbox of each kind; the counts go up to countedNeeds.
type inboxBody struct {
	Letters       []letterRow
	LetterCount   string
	Approvals     []approvalRow
	ApprovalCount string
	MoreLetters   bool
	MayAct        bool
	MoreApprovals bool
	Where         string // a condition on the runs
	Wrong         string // why it is none; then there are no rows
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
	if err := pawl.CheckWhere(where); err != nil {
		return p.showStatus(http.StatusBadRequest, "inbox.html", "Inbox", "inbox", inboxBody{Where: where, Wrong: wrongText(err)})
	}
	letters, nLetters, err := s.listLetters(p, shownInbox, where)
	if err != nil {
		return err
	}
	approvals, nApprovals, err := s.listApprovals(p, shownInbox, where)
	if err != nil {
		return err
	}
	mayAct := p.rights&api.Act != 0
	for i := range letters {
		letters[i].Target = textIf(mayAct, letters[i].target)
	}
	for i := range approvals {
		approvals[i].Target = textIf(mayAct, approvals[i].target)
	}
	p.markLive(true, false, 0)
	return p.showPage("inbox.html", "Inbox", "inbox", inboxBody{
		letters, countText(nLetters), approvals, countText(nApprovals), nLetters > len(letters), mayAct, nApprovals > len(approvals), where, "",
	})
}

// tokenLink leads to the page of a token.
func (p *page) tokenLink(run workflow.RunID, id workflow.TokenID) string {
	return p.runLink(run, "view", "token", "token", strconv.FormatInt(int64(id), 10))
}

// listLetters returns the first dead letters, and how many there are up to countedNeeds.
//
// It lists the first most of them. The first page calls it for a few, the inbox for many; n is the same for both.
func (s *server) listLetters(p *page, most int, where string) (rows []letterRow, n int, err error) {
	for l, err := range s.engine.DeadLetters(p.r.Context(), pawl.DeadLetterFilter{Where: where}) {
		if err != nil {
			return nil, 0, err
		}
		if n++; n > countedNeeds {
			break
		}
		if n > most {
			continue
		}
		row := letterRow{
			target: targetText(l.Run, l.Token), Acts: p.inboxLinks(l.Run, l.Token, "retry", "skip"), Token: l.Token,
			Run: l.Run, Node: l.Node, Href: p.tokenLink(l.Run, l.Token), RunHref: p.runLink(l.Run), Workflow: l.Workflow, Task: l.Task,
			Attempts: l.Attempts, Code: l.Failure.Code, Failure: p.textAt(l.Failure.Message, 240), Since: p.instantOf(l.At),
		}
		if l.Input != nil { // by which tasks of one fan-out are told apart
			row.Input = p.valueAt(l.Run, "input", l.Input, smallValue)
		}
		rows = append(rows, row)
	}
	return rows, n, nil
}

// listApprovals returns the first approvals, and how many there are up to countedNeeds.
//
// It lists the first most of them, as listLetters does.
func (s *server) listApprovals(p *page, most int, where string) (rows []approvalRow, n int, err error) {
	for a, err := range s.engine.Approvals(p.r.Context(), pawl.ApprovalFilter{Where: where}) {
		if err != nil {
			return nil, 0, err
		}
		if n++; n > countedNeeds {
			break
		}
		if n > most {
			continue
		}
		rows = append(rows, p.approvalRowOf(&a))
	}
	return rows, n, nil
}

// approvalRowOf describes an approval: its message and input as far as the reader may see them.
func (p *page) approvalRowOf(a *pawl.Approval) approvalRow {
	row := approvalRow{
		target: targetText(a.Run, a.Token), Acts: p.inboxLinks(a.Run, a.Token, "approve", "reject"),
		Run: a.Run, Node: a.Node, Href: p.tokenLink(a.Run, a.Token), RunHref: p.runLink(a.Run), Workflow: a.Workflow,
		Message: p.textAt(a.Message, 400), Approved: a.Approved, Rejected: a.Rejected, Due: p.instantOf(a.Due),
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

// inboxLinks is actLinks of what stands in the inbox, to which the forms lead back.
func (p *page) inboxLinks(run workflow.RunID, token workflow.TokenID, names ...string) []actLink {
	links := p.actLinks(run, token, names...)
	for i := range links {
		links[i].Href += "&return=inbox"
	}
	return links
}
