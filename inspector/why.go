package inspector

import (
	"fmt"
	"strings"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/history"
	"github.com/pawl-run/pawl/replay"
	"github.com/pawl-run/pawl/workflow"
)

// A whyLine is one reason why a run stands where it stands.
//
// Class, Word and Place say who stands how and where; Text says for what it waits, or what failed; Until, when it will go on by itself, if
// that is known. Came and Notes say how the token came there, Try what an operator may do.
type whyLine struct {
	Class   string
	Word    string
	Place   string
	Href    string // its token
	Text    string
	Until   instant
	More    string
	Failure string
	Child   *runLink
	Below   []belowLine
	Came    string
	Notes   []string
	Try     []string     // commands
	Asked   *approvalRow // what people are asked; nil of what is no approval
	Acts    []actLink    // what can be done about it
	wait    *history.Wait
}

// A belowLine is what failed in a run below.
type belowLine struct {
	Run   runLink
	Place string
	Href  string // its token
	Text  string
}

// shownReasons is how many of them a page begins with.
const shownReasons = 4

// whyLines makes lines of an answer: how the run has ended, then what failed, then what it waits for. Without all there are at most
// shownReasons, and a last line that leads to the others.
func (v *viewer) whyLines(x *history.Explanation, all bool) (lines []whyLine) {
	if x.Status.Final() || x.Status == workflow.RunSuspended {
		if line := v.endLine(x); !v.isSaidBelow(x) {
			lines = append(lines, line)
		}
	}
	for i := range x.Failed {
		f := &x.Failed[i]
		line := whyLine{Class: "failed", Word: "failed", Place: f.Place, Href: v.tokenLink(v.id, f.Token), Text: v.failureAt(f.Failure), Try: f.Try}
		v.addArrival(&line, f.Came)
		line.Child = v.childLink(f.Child)
		line.Acts = v.actLinks(pawl.Target{Run: v.id, Token: f.Token}, "rerun")
		// A subworkflow may have failed: the reasons are in the runs below, as deep as they go.
		for j := range f.Below {
			b := &f.Below[j]
			line.Below = append(line.Below, belowLine{*v.childLink(b.Run), b.Place, v.tokenLink(b.Run, b.Token), v.failureAt(b.Failure)})
		}
		lines = append(lines, line)
	}
	for i := range x.Waits {
		w := &x.Waits[i]
		line := whyLine{wait: w, Class: statusClass(w.Status), Word: statusWord(w.Status), Place: w.Place, Href: v.tokenLink(v.id, w.Token), Text: waitText(w.For), Until: v.instantOf(w.Until), Try: w.Try}
		if w.Count > 1 {
			line.More = fmt.Sprintf("and %s more like it", groupDigits(w.Count-1))
		}
		// It looks like a failure: waiting longer will not help.
		if w.Hopeless {
			line.Class, line.More = "failed", strings.TrimSpace(line.More+" Nothing in the run can bring that any more.")
		}
		if w.Failure != nil {
			line.Failure = v.failureAt(w.Failure)
		}
		if w.Rejected != nil {
			line.Text += "; the last error: " + v.failureAt(w.Rejected)
		}
		v.addArrival(&line, w.Came)
		line.Child = v.childLink(w.Child)
		lines = append(lines, line)
	}
	// The three indexes keep append from writing into the lines behind.
	if !all && len(lines) > shownReasons {
		more := fmt.Sprintf("All %d reasons", len(lines))
		lines = append(lines[:shownReasons:shownReasons], whyLine{Class: "none", Word: "more", Place: more, Href: v.link("view", "why")})
	}
	return lines
}

// noteQueued counts at each node the tasks that nobody performs yet, if the answer is of the record of the page.
func (v *viewer) noteQueued(x *history.Explanation) {
	v.queued = map[workflow.NodeID]int{}
	for i := range x.Waits {
		w := &x.Waits[i]
		if w.Waiting == 0 || x.Seq != v.ov.Seq {
			continue
		}
		if node, ok := v.nodeOf(w); ok {
			v.queued[node] += w.Waiting
		}
	}
}

// endLine says how the run ended.
//
// It is also for a run that is suspended, which goes on only if somebody resumes it.
func (v *viewer) endLine(x *history.Explanation) whyLine {
	line := whyLine{Class: statusClass(x.Status), Word: statusWord(x.Status), Place: "The run", Href: v.link()}
	switch {
	case x.Failure != nil:
		line.Text = statusWord(x.Status) + ": " + v.failureAt(x.Failure)
	case x.Status == workflow.RunCompleted:
		line.Text = "completed"
	default:
		line.Text = "is " + statusWord(x.Status)
	}
	if x.Status == workflow.RunSuspended {
		line.Acts = v.actLinks(pawl.Target{Run: v.id}, "resume")
	}
	return line
}

// isSaidBelow reports whether a run has failed as a token of it says: to say it twice would make two failures of one.
func (v *viewer) isSaidBelow(x *history.Explanation) bool {
	if x.Status != workflow.RunFailed || x.Failure == nil || len(x.Failed) == 0 {
		return false
	}
	return v.failureAt(x.Failure) == v.failureAt(x.Failed[0].Failure)
}

// childLink leads to a run below; nil for the id "".
func (v *viewer) childLink(id workflow.RunID) *runLink {
	if id == "" {
		return nil
	}
	return &runLink{id, v.runLink(id)}
}

// addArrival says by which transitions a token came to where it is, and what the planner noted there, without values for those who do not
// see them.
func (v *viewer) addArrival(w *whyLine, a *replay.Arrival) {
	if a == nil {
		return
	}
	names := make([]string, len(a.Transitions))
	for i, id := range a.Transitions {
		names[i] = string(id)
	}
	by := strings.Join(names, ", ")
	if by == "" {
		// A token that a join has made came by none.
		by = "a join"
	}
	w.Came = fmt.Sprintf("It came from %s by %s in record %s.", a.From, by, groupDigits(a.Seq))
	for _, n := range a.Notes {
		// A note has values that were read and found; that there was a condition is not a value.
		if !v.seesTexts() {
			n.Reads, n.Text = nil, ""
		}
		w.Notes = append(w.Notes, shortText(n.String(), 300))
	}
}

// waitText makes a sentence of what a token waits for.
//
// "to begin" becomes "waits to begin", for example, and a thing gets "waits for" before it.
func waitText(what string) string {
	switch {
	case strings.HasPrefix(what, "to "):
		return "waits " + what
	case strings.HasPrefix(what, "the run is"):
		return "is held: " + what
	}
	return "waits for " + what
}
