package inspector

import (
	"fmt"
	"maps"
	"net/url"

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

// filterNames returns the parameters that choose them. The inbox has no other filter than the condition.
func (a *allTargets) filterNames() []string {
	if a.Kind == allOfRuns {
		return filterFields
	}
	return []string{"where"}
}

// readCursor reads up to which one it was done: a run by its id, what waits in a run as a target.
func (a *allTargets) readCursor(text string) (pawl.Target, error) {
	if text == "" || a.Kind == allOfRuns {
		return pawl.Target{Run: workflow.RunID(text)}, nil
	}
	t, ok := targetOf(text)
	if !ok {
		return t, fmt.Errorf("%w: cursor is %q: it must be a token and a run", errAct, text)
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
	words := map[string][2]string{allOfRuns: {"run", "runs"}, allOfLetters: {"parked task", "parked tasks"}, allOfApprovals: {"approval", "approvals"}}[a.Kind]
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

// noneChosen says that there is nothing to do anything to.
func (a *allTargets) noneChosen() string {
	if a.Kind == allOfRuns {
		return "no run that has not ended is chosen"
	}
	return "there are no " + a.Noun(0) + " like that"
}

// describeWaiting says which parked tasks or approvals those are.
func (a *allTargets) describeWaiting() string {
	if a.Filter.Where == "" {
		return fmt.Sprintf("Those are all %s of this engine.", a.Noun(0))
	}
	return fmt.Sprintf("Those are the %s of runs that fit the condition %s.", a.Noun(0), a.Filter.Where)
}

// selectTargets returns those behind the cursor, at most limit, 0 being all.
func (a *allTargets) selectTargets(limit int) (s pawl.Selection) {
	switch s.After = a.Cursor; a.Kind {
	case allOfLetters:
		s.DeadLetters = &pawl.DeadLetterFilter{Where: a.Filter.Where, Limit: limit}
	case allOfApprovals:
		s.Approvals = &pawl.ApprovalFilter{Where: a.Filter.Where, Limit: limit}
	default:
		f := a.Filter
		f.Limit, s.Runs = limit, &f
	}
	return s
}

// allWaitingLinks returns the links to what can be done to all parked tasks, or all approvals, that fit a condition.
func (p *page) allWaitingLinks(kind, where string) (links []actLink) {
	if p.rights&api.Act == 0 {
		return nil
	}
	for _, a := range pageActs() {
		if a.ofAll == kind {
			all := url.Values{"do": {a.Name}, "all": {kind}}
			if where != "" {
				all.Set("where", where)
			}
			links = append(links, actLink{a.Title + " all…", p.root + "act" + queryOf(all, nil), a.Danger})
		}
	}
	return links
}
