package inspector

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/history"
	"github.com/pawl-run/pawl/replay"
	"github.com/pawl-run/pawl/workflow"
)

// The bounds of what is kept for the runs that were looked at last.
// The first is a number of runs, the second one of definitions of runs: a run that was patched may have several.
const (
	keptExplanations = 64
	keptGraphs       = 64
)

// A runHead is what every view of a run begins with.
//
// Why is only there in the views that begin with it, Parent and Short only of children. WhyAs may be less than Seq: the answer is then of
// an earlier record, and the page says so.
type runHead struct {
	ID       workflow.RunID
	Short    string // of a child, what its own id adds
	Parent   *runLink
	Workflow string
	Revision int
	Status   workflow.RunStatus
	Started  instant
	Took     string
	Seq      int64
	Views    []viewLink
	Why      []whyLine
	WhyAs    int64 // the record that the answer is of; 0 without an answer yet
	WhyHref  string
	Alarm    instant
	Kinds    string // of the definition
	Acts     []actLink
	Past     bool   // the page shows the run as it was
	Hidden   string // id, where no path can name the run
	Version  int    // of the definition that it began with; 0 if that is not known
	Tenant   string
	Labels   []labelLink
	Forked   *forkLink // nil of a run that was started
	Reported string    // by its results and those of runs below it
}

// A runLink is a run with its address from the page.
type runLink struct {
	ID   workflow.RunID
	Href string
}

// A viewLink leads to a view of the run. Here marks the one that is shown.
type viewLink struct {
	Name, Text, Href string
	Here             bool
}

// A runView is a page of one run.
//
// Data is what the template of the view knows.
type runView struct {
	Head runHead
	View string
	Data any
}

// runViews are the views of a run, in the order of their links.
var runViews = []struct{ name, text string }{
	{"", "Graph"}, {"timeline", "Timeline"}, {"tokens", "Threads"}, {"groups", "Fan-outs"}, {"events", "Events"},
	{"journal", "Journal"}, {"data", "Data"}, {"family", "Family"}, {"definition", "Definition"}, {"whatif", "What if"},
}

// A viewer answers one view of a run.
//
// It is made for one request or one frame. ov is the run as it was read at the beginning: its sequence is the record that the page is of,
// though what is read later may be newer.
type viewer struct {
	*page
	id    workflow.RunID
	ov    pawl.Overview
	sum   pawl.RunSummary
	began time.Time // of a fork, when it was forked
	ctx   context.Context

	status int                     // of the answer, if it is not that all is well
	queued map[workflow.NodeID]int // tasks that nobody performs yet, as the answer why the run waits has them
}

// showRun answers all addresses below a run. Views return what their templates take, and showRun adds the head; views that answer something
// else, such as a picture, numbers or another address, return from within.
func (s *server) showRun(p *page, id workflow.RunID) error {
	v, err := s.readViewer(p, id)
	if err != nil {
		return err
	}
	name, _, _ := strings.Cut(p.r.URL.Query().Get("view"), "?") // what follows is a place in a picture
	var data any
	at, past, err := v.readMoment(name)
	if err != nil {
		return err
	}
	switch name {
	case "":
		data, err = v.viewMoment(at, past)
	case "steps":
		return v.serveSteps()
	case "nextfailed":
		return v.nextFailed()
	case "timeline":
		data, err = v.viewTimeline()
	case "trace":
		return v.serveTrace()
	case "tokens":
		data, err = v.viewTokens()
	case "token":
		data, err = v.viewToken()
	case "groups":
		data, err = v.viewGroups()
	case "group":
		data, err = v.viewGroup()
	case "cells":
		return v.drawCells()
	case "events":
		data, err = v.viewEvents()
	case "journal":
		data, err = v.viewJournal()
	case "data":
		data, err = v.viewData()
	case "artifact":
		return v.serveArtifact()
	case "family":
		data, err = v.viewFamily()
	case "definition":
		data, err = v.viewDefinition()
	case "whatif":
		if err = replay.ErrRedacted; !v.redacted {
			data, err = v.viewWhatIf()
		}
	case "why":
	default:
		err = errNoPage
	}
	if err != nil {
		return err
	}
	return v.showView(name, past, data)
}

// readViewer reads a run of which a page is made.
func (s *server) readViewer(p *page, id workflow.RunID) (*viewer, error) {
	v := &viewer{page: p, id: id, ctx: p.r.Context()}
	var err error
	if v.ov, err = s.engine.Overview(v.ctx, id); errors.Is(err, pawl.ErrRunNotFound) {
		s.forgetRun(id)
	}
	if err == nil {
		v.sum, err = s.engine.Summary(v.ctx, id)
	}
	if err == nil {
		v.began, err = p.readBegin(&v.sum)
	}
	return v, err
}

// showView writes a view of the run, as it is or was, with what all views begin with.
func (v *viewer) showView(name string, past bool, data any) error {
	// The name at is no view that is live, so a page of the past does not change under its reader.
	if past { // what is said of it now does not belong there
		name = "at"
	}
	head, err := v.headOf(name)
	if err != nil {
		return err
	}
	if d, ok := data.(graphData); ok && !past {
		for i := range d.Nodes {
			d.Nodes[i].Queued = v.queued[d.Nodes[i].Node]
		}
	}
	v.markLive(liveViews[name], v.ov.Status.Final(), v.ov.Seq)
	template := "run_" + name + ".html"
	if name == "" || past {
		template = "run.html"
	}
	return v.showStatus(cmp.Or(v.status, http.StatusOK), template, string(v.id), "runs", runView{Head: head, View: name, Data: data})
}

// viewMoment shows the graph of the run as it was after a record, or as it is.
func (v *viewer) viewMoment(at int64, past bool) (any, error) {
	if past {
		return v.viewAt(at)
	}
	return v.viewGraph()
}

// readMoment returns the record after which the run is to be shown; false if it is to be shown as it is.
//
// Only the graph can be shown so. A number that no record has is mended by viewAt, a text that is no number is no page.
func (v *viewer) readMoment(view string) (at int64, past bool, err error) {
	q := v.r.URL.Query()
	if view != "" || !q.Has("at") {
		return 0, false, nil
	}
	if at, err = strconv.ParseInt(q.Get("at"), 10, 64); err != nil {
		return 0, false, fmt.Errorf("%w: at is not the number of a record", errNoPage)
	}
	return at, true, nil
}

// link returns the address of a view of the run.
//
// The page itself may be of another view: all links have the whole address.
func (v *viewer) link(pairs ...string) string { return v.runLink(v.id, pairs...) }

// headOf describes the run above a view. Only the graph and the view why ask why it stands there, as the answer may take long; the first
// shows what is known after a moment, the second waits.
func (v *viewer) headOf(view string) (runHead, error) {
	h := runHead{
		ID: v.id, Short: string(v.id), Workflow: v.ov.Workflow, Revision: v.ov.Revision, Status: v.ov.Status, Seq: v.ov.Seq,
		Started: v.instantOf(v.ov.StartedAt), Alarm: v.instantOf(v.ov.Alarm), WhyHref: v.link("view", "why"), Kinds: v.pageLink("definitions", "workflow", v.ov.Workflow),
	}
	h.Past = view == "at"
	h.Hidden = hiddenID(v.id)
	h.Acts = v.runActs(v.id, v.ov.Status)
	if s := v.ov.Status; len(v.ov.MetaLimits) > 0 && (s == workflow.RunRunning || s == workflow.RunPaused) {
		h.Acts = append(h.Acts, v.actLinks(pawl.Target{Run: v.id}, "raise")...)
	}
	h.Reported = v.reportText(v.ov.Meta, v.ov.MetaBelow, v.ov.MetaLimits)
	if !v.ov.StartedAt.IsZero() && !v.ov.EndedAt.IsZero() { // until then "started" says it
		h.Took = spanText(v.ov.EndedAt.Sub(v.ov.StartedAt))
	}
	v.addOrigin(&h)
	// The id of a child is that of its parent, a slash, and what ChildID adds.
	if i := strings.LastIndex(string(v.id), "/"); i > 0 {
		parent := v.id[:i]
		h.Parent, h.Short = &runLink{parent, v.runLink(parent)}, string(v.id[i+1:])
	}
	for _, view := range runViews {
		if view.name == "whatif" && (v.rights&api.Values == 0 || v.redacted) {
			continue
		}
		h.Views = append(h.Views, viewLink{Name: view.name, Text: view.text, Href: v.link("view", view.name)})
	}
	// The page of a token belongs to the tokens, that of a fan-out to the fan-outs.
	for i := range h.Views {
		name := h.Views[i].Name
		h.Views[i].Here = name == view || name == "" && view == "at" || name == "tokens" && view == "token" || name == "groups" && view == "group"
	}
	if view != "" && view != "why" {
		return h, nil
	}
	if v.ov.Status == workflow.RunCompleted { // there is nothing to be worked out
		h.Why, h.WhyAs = v.whyLines(&history.Explanation{Status: workflow.RunCompleted}, false), v.ov.Seq
		h.Why = append(h.Why, v.toleratedLines()...)
		return h, nil
	}
	if v.redacted { // what stands for its values would explain something else
		h.Why, h.WhyAs = []whyLine{{Class: "none", Word: "not known", Place: "The run", Href: v.link(), Text: "was exported without its values: why it stands here is not known."}}, v.ov.Seq
		return h, nil
	}
	x, ok, err := v.explainNow(view == "why")
	if err != nil {
		return h, err
	}
	if ok {
		h.Why, h.WhyAs = v.whyLines(&x, view == "why"), x.Seq
		v.addDue(h.Why)
		v.noteQueued(&x)
	}
	for i := range h.Why {
		if h.Why[i].Until.Machine == h.Alarm.Machine { // it is said there
			h.Alarm = instant{}
		}
	}
	return h, nil
}

// How long a page waits for an answer: for a run of quickRecords until it is there. A frame of one that has more than
// fewRecords asks when the run rests.
const (
	quickRecords = 1500
	fewRecords   = 100 // of a run that is asked about with each frame, and live tokens in it
	waitForWhy   = 300 * time.Millisecond
	workOnWhy    = time.Minute
	whyRest      = time.Second     // that a run of many records has not moved: before, an answer would be old when it is there
	whyMoving    = 5 * time.Second // after which a run that moves all the time is asked about all the same
)
