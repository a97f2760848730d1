package inspector

import (
	"strconv"
	"strings"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/workflow"
)

// targetOf reads what a form is about: the number of a token, 0 for the run itself, a space, and
// the run.
//
// "7 order-42" is token 7 of the run order-42, and "p7 order-42" the same as long as its task is parked. The number comes first, as an id
// may have spaces in it.
func targetOf(text string) (pawl.Target, bool) {
	number, run, ok := strings.Cut(text, " ")
	number, parked := strings.CutPrefix(number, "p")
	n, err := strconv.ParseInt(number, 10, 64)
	return pawl.Target{Run: workflow.RunID(run), Token: workflow.TokenID(n), Parked: parked}, ok && err == nil && n >= 0 && run != ""
}

// targetText writes what targetOf reads. Lists have it as the value of a check box, links as the parameter target.
func targetText(t pawl.Target) string {
	text := strconv.FormatInt(int64(t.Token), 10) + " " + string(t.Run)
	if t.Parked {
		return "p" + text
	}
	return text
}

// An actLink leads to the page that asks whether to do it.
type actLink struct {
	Text, Href string
	Danger     bool
}

// actLinks returns the links to some acts, for those who may.
//
// It only leaves out what would be refused in any case: serveAct checks the rights again.
func (p *page) actLinks(t pawl.Target, names ...string) (links []actLink) {
	if p.rights&api.Act == 0 {
		return nil
	}
	for _, name := range names {
		a := actOf(name)
		// A reader who may act may not yet change what a run executes.
		if a.Defines && p.rights&api.Define == 0 {
			continue
		}
		links = append(links, actLink{linkText(name, a.Title, t) + "…", p.pageLink("act", "do", name, "target", targetText(t)), a.Danger})
	}
	return links
}

// linkText returns what a link to an act says: a verb, and what it is done to.
func linkText(name, title string, t pawl.Target) string {
	switch {
	case name == "signal":
		return "Send signal"
	case name == "raise":
		return "Raise limits"
	case name == "rerun" && t.Token == 0:
		return "Rerun from a node"
	case name == "rerun":
		return "Rerun from here"
	}
	return title + " " + nounOf(actOf(name).ofAll)[0]
}

// nounOf returns what an act is done to, one of them and several, by what it can be done to all of.
func nounOf(kind string) [2]string {
	switch kind {
	case allOfLetters:
		return [2]string{"task", "tasks"}
	case allOfApprovals:
		return [2]string{"request", "requests"}
	}
	return [2]string{"run", "runs"}
}

// runActs returns what can be done to a run.
//
// These are the acts that a run of this status takes. A suspended run takes no signal. A run that has ended takes none: only a new run can
// be made of it. A run that goes on can be forked where it is shown as it was.
func (p *page) runActs(id workflow.RunID, s workflow.RunStatus) []actLink {
	switch s {
	case workflow.RunRunning:
		return p.actLinks(pawl.Target{Run: id}, "signal", "pause", "cancel")
	case workflow.RunPaused:
		return p.actLinks(pawl.Target{Run: id}, "resume", "signal", "cancel")
	case workflow.RunSuspended:
		return p.actLinks(pawl.Target{Run: id}, "resume", "fork", "cancel")
	default:
		return p.actLinks(pawl.Target{Run: id}, "rerun", "fork")
	}
}

// tokenActs returns what can be done to a token.
//
// To skip a task that is dispatched helps where its result will never come. A reader who sees a parked task means to end no attempt that
// somebody has begun meanwhile.
func (p *page) tokenActs(id workflow.RunID, t *pawl.Token) []actLink {
	target := pawl.Target{Run: id, Token: t.ID, Parked: t.Status == workflow.WaitingForOperator}
	switch t.Status {
	case workflow.Pending:
		if t.Attempt == 0 {
			return nil
		}
		return p.actLinks(target, "retry", "skip") // a pause holds back its next attempt
	case workflow.WaitingForOperator, workflow.Retrying:
		return p.actLinks(target, "retry", "skip")
	case workflow.WaitingForApproval:
		return p.actLinks(target, "approve", "reject")
	case workflow.Dispatched, workflow.WaitingForBudget:
		return p.actLinks(target, "skip")
	case workflow.Completed, workflow.Failed, workflow.TimedOut, workflow.Cancelled:
		return p.actLinks(target, "rerun")
	default:
		return nil
	}
}

// targetLink leads to what an act is about: a token, or the run if it names none.
func (p *page) targetLink(t pawl.Target) string {
	if t.Token != 0 {
		return p.tokenLink(t.Run, t.Token)
	}
	return p.runLink(t.Run)
}
