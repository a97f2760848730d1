package inspector

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/history"
	"github.com/pawl-run/pawl/workflow"
)

// A labelLink is a label of a run, and leads to the runs that have it.
type labelLink struct{ Text, Href string }

// A forkLink says of what a run was forked: the run, and the record after which.
type forkLink struct {
	Run    runLink
	Record int64
}

// addOrigin says of a run on whose behalf it is, how its caller has labelled it, and of what it was forked.
func (v *viewer) addOrigin(h *runHead) {
	h.Version, h.Tenant = v.sum.Version, v.sum.Tenant
	for _, key := range slices.Sorted(maps.Keys(v.sum.Labels)) {
		text := key + "=" + v.sum.Labels[key]
		h.Labels = append(h.Labels, labelLink{text, v.pageLink("runs", "where", fmt.Sprintf("labels[%s] == %s", strconv.Quote(key), strconv.Quote(v.sum.Labels[key])))})
	}
	from := v.sum.ForkedFrom
	if from.Run == "" {
		return
	}
	h.Forked = &forkLink{Run: runLink{from.Run, v.runLink(from.Run, "at", strconv.FormatInt(from.Record, 10))}, Record: from.Record}
	// The record that makes it follows those of the other run: the times before it are not those of this run.
	h.Started = v.instantOf(v.began)
	if !v.ov.EndedAt.IsZero() {
		h.Took = spanText(v.ov.EndedAt.Sub(v.began))
	}
}

// toleratedLines says of a completed run how many of its steps have failed all the same; nothing if none has.
func (v *viewer) toleratedLines() []whyLine {
	n := 0
	for _, node := range v.ov.Nodes {
		n += tallyOf(node.Tokens)[failed]
	}
	if n == 0 {
		return nil
	}
	what, which := "failures", "which the run tolerated, or took another way for"
	if n == 1 {
		what = "failure"
	}
	return []whyLine{{Class: "failed", Word: "failed", Place: groupDigits(n) + " " + what, Text: which, Href: v.link("view", "tokens", "status", failed.String())}}
}

// addDue adds to each reason what can be done about it, and to an approval what is asked.
func (v *viewer) addDue(lines []whyLine) {
	if v.ov.Status == workflow.RunSuspended { // nothing moves before it is resumed
		return
	}
	for i := range lines {
		if lines[i].wait != nil {
			v.addDueOf(&lines[i])
		}
	}
}

// addDueOf adds what can be done about what a token waits for. Several that wait alike are acted on together.
func (v *viewer) addDueOf(line *whyLine) {
	w := line.wait
	target := pawl.Target{Run: v.id, Token: w.Token, Parked: w.Status == workflow.WaitingForOperator}
	switch w.Status {
	case workflow.WaitingForOperator:
		if line.Acts = v.actLinks(target, "retry", "skip"); w.Count > 1 {
			line.Acts = v.allAlikeLinks(allOfLetters, w)
		}
	case workflow.Retrying:
		line.Acts = v.actLinks(target, "retry", "skip")
	case workflow.WaitingForApproval:
		// The page is complete without what is asked: somebody else may have answered.
		line.Asked, _ = v.s.findApproval(v.page, target)
		if line.Acts = v.actLinks(target, "approve", "reject"); w.Count > 1 {
			line.Acts = v.allAlikeLinks(allOfApprovals, w)
		}
	case workflow.WaitingForBudget:
		line.Acts = v.actLinks(target, "skip")
	case workflow.WaitingForEvent:
		if node, ok := v.nodeOf(w); ok {
			line.Acts = v.signalLinks(node)
		}
	default: // time or the run ends it
	}
	line.Acts = append(v.raiseLinks(w.Status, w.Failure), line.Acts...)
}

// allAlikeLinks leads to what can be done to all that wait at one node of the run. Without the node there are no links: the act would be done to
// all of the run.
func (v *viewer) allAlikeLinks(kind string, w *history.Wait) []actLink {
	node, ok := v.nodeOf(w)
	if !ok {
		return nil
	}
	return v.allWaitingLinks(kind, fmt.Sprintf(" all %s", groupDigits(w.Count)), "run", string(v.id), "node", string(node))
}

// nodeOf returns the node at which a token waits, if the run still has it. The ids of nodes may have brackets, as branches do in the place.
func (v *viewer) nodeOf(w *history.Wait) (workflow.NodeID, bool) {
	if !strings.Contains(w.Place, "[") {
		return workflow.NodeID(w.Place), true
	}
	t, err := v.findToken(w.Token)
	if err != nil {
		return "", false
	}
	return t.Node, true
}

// raiseLinks leads to where the limits of the run are raised, of a token that has no room below them.
func (v *viewer) raiseLinks(status workflow.TokenStatus, f *workflow.Failure) []actLink {
	parked := status == workflow.WaitingForOperator && f != nil && f.Code == workflow.CodeLimit
	if len(v.ov.MetaLimits) == 0 || !parked && status != workflow.WaitingForBudget {
		return nil
	}
	return v.actLinks(pawl.Target{Run: v.id}, "raise")
}

// signalLinks returns links to send the events for which a node waits.
func (v *viewer) signalLinks(id workflow.NodeID) (links []actLink) {
	g, err := v.graphOf()
	if err != nil || g.Node(id) == nil || v.rights&api.Act == 0 {
		return nil
	}
	for _, name := range g.Node(id).Events() {
		href := v.pageLink("act", "do", "signal", "target", targetText(pawl.Target{Run: v.id}), "name", name)
		links = append(links, actLink{Text: "Send " + name + "…", Href: href})
	}
	return links
}
