package inspector

import (
	"fmt"
	"maps"
	"strings"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/workflow"
)

// The kinds of things that an act can be done to all of, as the parameter all has them.
const (
	allOfRuns      = "1"
	allOfLetters   = "letters"
	allOfApprovals = "approvals"
)

// waitingFields are the parameters that choose parked tasks and approvals: of one run, workflow, node, and of parked tasks with one code.
//
// The shape of their messages, with numbers taken out, is chosen by the inspector itself.
var waitingFields = []string{"where", "run", "workflow", "node", "code", "like"}

// filterNames returns the parameters that choose them.
func (a *allTargets) filterNames() []string {
	if a.Kind == allOfRuns {
		return filterFields
	}
	return waitingFields
}

// readCursor reads up to which one it was done: a run by its id, what waits in a run as a target.
func (a *allTargets) readCursor(text string) (pawl.Target, error) {
	if text == "" || a.Kind == allOfRuns {
		return pawl.Target{Run: workflow.RunID(text)}, nil
	}
	t, ok := targetOf(text)
	if !ok {
		return t, fmt.Errorf("%w: cursor is %q: it must be a thread and a run", errAct, text)
	}
	return t, nil
}

// Passed says up to which one it was done, as readCursor reads it; "" if to none yet.
func (a *allTargets) Passed() string {
	if a.Cursor.Run == "" || a.Kind == allOfRuns {
		return string(a.Cursor.Run)
	}
	return targetText(a.Cursor)
}

// listAddress returns the page that lists them, from the first page, with more parameters for it.
func (a *allTargets) listAddress(more ...string) string {
	page := "inbox"
	if a.Kind == allOfRuns {
		page = "runs"
	}
	return page + queryOf(maps.Clone(a.query), more)
}

// Noun returns what they are called, if there are so many.
func (a *allTargets) Noun(n int) string {
	words := map[string][2]string{allOfRuns: {"run", "runs"}, allOfLetters: {"parked task", "parked tasks"}, allOfApprovals: {"request", "requests"}}[a.Kind]
	if n == 1 {
		return words[0]
	}
	return words[1]
}

// Gone says what has become of those that an act has left as they were.
func (a *allTargets) Gone() string {
	if a.Kind == allOfRuns {
		return "had ended meanwhile"
	}
	return "waited no longer"
}

// Meanwhile says what becomes of those that come to be like that after the page is made. The instant at which an approval was asked for is not
// known: newcomers are told apart only from those that the page shows.
func (a *allTargets) Meanwhile() (text string) {
	switch {
	case a.Kind == allOfRuns:
		text = "Runs that start meanwhile are left out."
	case a.Kind == allOfLetters:
		text = "Tasks that are parked meanwhile are left out."
	case len(a.Shown) > 0:
		return "Requests that are made meanwhile are left out."
	}
	if a.Counted >= 0 {
		text += " If more are like that when it is sent, it asks again, unless you say to how many of them."
	}
	return text
}

// noneChosen says that there is nothing to do anything to.
func (a *allTargets) noneChosen() string {
	if a.Kind == allOfRuns {
		return "no run that has not ended is chosen"
	}
	return "there are no " + a.Noun(0) + " like that"
}

// describeWaiting says which parked tasks or requests for approval those are.
func (a *allTargets) describeWaiting() string {
	var parts []string
	for _, name := range []string{"run", "workflow", "node", "code"} {
		if of := a.query.Get(name); of != "" {
			parts = append(parts, fmt.Sprintf("of the %s %s", name, of))
		}
	}
	if like := a.query.Get("like"); like != "" {
		parts = append(parts, fmt.Sprintf("with a message like %q", like))
	}
	if a.Filter.Where != "" {
		parts = append(parts, "of runs that fit the condition "+a.Filter.Where)
	}
	if len(parts) == 0 {
		return fmt.Sprintf("Those are all %s of this engine.", a.Noun(0))
	}
	return fmt.Sprintf("Those are the %s %s.", a.Noun(0), strings.Join(parts, ", "))
}

// selectTargets returns those behind the cursor, at most limit, 0 being all.
func (a *allTargets) selectTargets(limit int) (s pawl.Selection) {
	switch s.After = a.Cursor; a.Kind {
	case allOfLetters:
		f := a.letterFilter()
		f.Limit, s.DeadLetters = limit, &f
	case allOfApprovals:
		f := a.approvalFilter()
		f.Limit, s.Approvals = limit, &f
	default:
		f := a.Filter
		f.Limit, s.Runs = limit, &f
		if !a.Asked.IsZero() {
			f.Until = a.untilAsked()
		}
	}
	return s
}

// letterFilter returns which parked tasks those are.
func (a *allTargets) letterFilter() pawl.DeadLetterFilter {
	q := a.query
	return pawl.DeadLetterFilter{Where: a.Filter.Where, Run: workflow.RunID(q.Get("run")), Workflow: q.Get("workflow"), Node: workflow.NodeID(q.Get("node")), Code: q.Get("code")}
}

// approvalFilter returns which approvals those are. They have no code.
func (a *allTargets) approvalFilter() pawl.ApprovalFilter {
	q := a.query
	return pawl.ApprovalFilter{Where: a.Filter.Where, Run: workflow.RunID(q.Get("run")), Workflow: q.Get("workflow"), Node: workflow.NodeID(q.Get("node"))}
}

// allWaitingLinks returns the links to what can be done to all parked tasks, or all approvals, that parameters of waitingFields choose. text
// says how many they are, as " all 12"; "" stands for one.
func (p *page) allWaitingLinks(kind, text string, pairs ...string) (links []actLink) {
	if p.rights&api.Act == 0 {
		return nil
	}
	of := " " + nounOf(kind)[0]
	if text != "" {
		of = text + " " + nounOf(kind)[1]
	}
	for _, a := range pageActs() {
		if a.ofAll == kind {
			links = append(links, actLink{a.Title + of + "…", p.pageLink("act", append([]string{"do", a.Name, "all", kind}, pairs...)...), a.Danger})
		}
	}
	return links
}
