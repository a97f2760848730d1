package pawltest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/acts"
	"github.com/pawl-run/pawl/internal/amount"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/workflow"
)

// A history is what has happened in a scenario: its run and the runs below it.
type history struct {
	runs   []*runHistory // the scenario's first, if it was started
	forks  []*runHistory // that the scenario makes, with the runs below them; nothing else counts them
	order  []runRecord   // of all runs, as they happened
	steps  []step        // likewise
	events map[string]int
}

// A runHistory is what has happened in one run.
type runHistory struct {
	pawl.Snapshot
	records []decision.Record
	left    []decision.Record // not merged yet
	nodes   map[workflow.TokenID]workflow.NodeID
	queued  map[workflow.TokenID]bool // waited at a join, or had or awaited a lock
	events  []string                  // their types
	meta    amount.Sums               // what it and all below it have reported
}

// A runRecord is a record and the run that it is of.
type runRecord struct {
	decision.Record
	run workflow.RunID
}

// A step is one thing that has happened to a node.
type step struct {
	node string
	kind stepKind
}

// A stepKind says what has happened to a node.
type stepKind int

// The kinds of step.
const (
	begun   stepKind = iota // a token was put there, its join had fired and it had its lock
	started                 // its task was handed out
	completed
)

// readHistory reads what has happened from the engine.
func (d *driver) readHistory() (*history, error) {
	h := &history{events: map[string]int{}}
	for r, err := range d.engine.Runs(d.ctx, pawl.RunFilter{}) {
		if err != nil {
			return nil, err
		}
		run, err := d.readRun(r.Run)
		if err != nil {
			return nil, fmt.Errorf("run %q: %w", string(r.Run), err)
		}
		if d.scenario.isFork(r.Run) {
			h.forks = append(h.forks, run)
			continue
		}
		h.runs = append(h.runs, run)
		for _, typ := range run.events {
			h.events[typ]++
		}
	}
	slices.SortFunc(h.runs, func(a, b *runHistory) int { return compareRuns(a.Run, b.Run) })
	h.mergeRecords()
	return h, nil
}

func (d *driver) readRun(id workflow.RunID) (*runHistory, error) {
	snap, err := d.engine.Inspect(d.ctx, id)
	if err != nil {
		return nil, err
	}
	run := &runHistory{Snapshot: snap, nodes: map[workflow.TokenID]workflow.NodeID{}, queued: map[workflow.TokenID]bool{}}
	o, err := d.engine.Overview(d.ctx, id)
	if err != nil {
		return nil, err
	}
	run.meta = amount.FromFloats(o.Meta).Plus(amount.FromFloats(o.MetaBelow))
	for i := range snap.Tokens {
		run.nodes[snap.Tokens[i].ID] = snap.Tokens[i].Node
	}
	for r, err := range acts.Records(d.engine.Journal(d.ctx, id, pawl.EventsOptions{})) {
		if err != nil {
			return nil, err
		}
		run.records = append(run.records, r)
		run.noteQueued(r)
	}
	for e, err := range d.engine.Events(d.ctx, id, pawl.EventsOptions{}) {
		if err != nil {
			return nil, err
		}
		run.events = append(run.events, string(e.Type))
	}
	return run, nil
}

// noteQueued notes the tokens that did not begin at their node as they came: those that
// waited at a join, where another token begins in their place, and those with a lock.
func (r *runHistory) noteQueued(record decision.Record) {
	for _, x := range record.Decisions {
		switch x := x.(type) {
		case decision.AwaitJoin:
			r.queued[x.Token] = true
		case decision.AwaitLock:
			r.queued[x.Token] = true
		case decision.TakeLock:
			r.queued[x.Token] = true
		default: // a token begins as it comes
		}
	}
}

// mergeRecords puts the records of all runs in order: by their time, and at one instant
// what a parent does before what its child does, except that a parent hears of
// its child's end after that.
func (h *history) mergeRecords() {
	for _, r := range h.runs {
		r.left = r.records
	}
	for {
		first := h.nextRun()
		if first == nil {
			return
		}
		h.order = append(h.order, runRecord{first.left[0], first.Run})
		for _, x := range first.left[0].Decisions {
			h.steps = append(h.steps, first.stepsOf(x)...)
		}
		first.left = first.left[1:]
	}
}

// nextRun returns the run whose next record comes first; nil if none is left.
func (h *history) nextRun() *runHistory {
	var first, held *runHistory
	for _, r := range h.runs {
		if len(r.left) == 0 {
			continue
		}
		if h.waitsForChild(r) {
			held = r
			continue
		}
		if first == nil || r.left[0].At.Before(first.left[0].At) {
			first = r
		}
	}
	if first == nil {
		return held
	}
	return first
}

// waitsForChild reports whether the next record of a run is the end of a child that still
// has records.
func (h *history) waitsForChild(r *runHistory) bool {
	m, ok := r.left[0].Message.(state.ChildEnded)
	if !ok {
		return false
	}
	child := state.ChildID(r.Run, m.Token, m.Attempt)
	return slices.ContainsFunc(h.runs, func(x *runHistory) bool {
		return x.Run == child && len(x.left) > 0 && !x.left[0].At.After(r.left[0].At)
	})
}

// stepsOf returns what a decision does to nodes. A node completes with
// CompleteToken, or with AwaitSiblings where that says that it completes its
// node.
func (r *runHistory) stepsOf(x decision.Decision) []step {
	switch x := x.(type) {
	case decision.CreateToken:
		return r.beginSteps(x.Token.ID, x.Token.Node)
	case decision.CreateBranches:
		var out []step
		for i := range x.Group.Total {
			id := x.Group.TokenOf(i)
			out = append(out, r.beginSteps(id, r.nodes[id])...)
		}
		return out
	case decision.TakeLock:
		return []step{{string(r.nodes[x.Token]), begun}}
	case decision.DispatchTask:
		return []step{{string(r.nodes[x.Token]), started}}
	case decision.CompleteToken:
		return []step{{string(r.nodes[x.Token]), completed}}
	case decision.AwaitSiblings:
		if x.Completes {
			return []step{{string(r.nodes[x.Token]), completed}}
		}
		return nil
	default: // says nothing of a node's beginning or end
		return nil
	}
}

// beginSteps returns the beginning of a node at which a token was put; nothing if the
// token had to wait before it.
func (r *runHistory) beginSteps(id workflow.TokenID, node workflow.NodeID) []step {
	if r.queued[id] {
		return nil
	}
	return []step{{string(node), begun}}
}

// countSteps returns how often something has happened to a node.
func (h *history) countSteps(node string, kind stepKind) (n int) {
	for _, s := range h.steps {
		if s.node == node && s.kind == kind {
			n++
		}
	}
	return n
}

// firstStart returns the place of the first start of a node, -1 without one. A task
// starts with its first dispatch, any other node when it has begun: at its first token,
// or, with a join, when that fires, with a lock, when a token has it.
func (h *history) firstStart(node string, task bool) int {
	kind := begun
	if task {
		kind = started
	}
	return slices.Index(h.steps, step{node, kind})
}

// completionPath returns the nodes in the order of their completions.
func (h *history) completionPath() []string {
	out := []string{}
	for _, s := range h.steps {
		if s.kind == completed {
			out = append(out, s.node)
		}
	}
	return out
}

// childStatuses returns how the child runs of each definition have ended,
// in the order of their starts.
func (h *history) childStatuses() map[string][]string {
	out := map[string][]string{}
	below := slices.DeleteFunc(slices.Clone(h.runs), func(r *runHistory) bool { return !strings.Contains(string(r.Run), "/") })
	slices.SortStableFunc(below, func(a, b *runHistory) int { return a.StartedAt.Compare(b.StartedAt) })
	for _, r := range below {
		out[r.Workflow] = append(out[r.Workflow], r.Status.String())
	}
	return out
}

// traceLines lists the messages of all runs as they came, and what was decided, one line
// each.
func (h *history) traceLines(began time.Time) (out []string) {
	order := slices.Clone(h.order)
	for _, r := range h.forks {
		order = append(order, r.ownRecords()...)
	}
	for _, r := range order {
		out = append(out, fmt.Sprintf("+%v %s %d %s", r.At.Sub(began), r.run, r.Seq, state.DescribeMessage(r.Message)))
		for _, x := range r.Decisions {
			out = append(out, decisionIndent+value.Shorten(x.String(), maxLine))
		}
	}
	return out
}

// ownRecords returns the records of a run, of a fork those behind the ones that it has of the
// other run.
func (r *runHistory) ownRecords() (out []runRecord) {
	for _, x := range r.records {
		if x.Seq > r.ForkedFrom.Record {
			out = append(out, runRecord{x, r.Run})
		}
	}
	return out
}

// decisionIndent begins the line of a decision in a trace.
const decisionIndent = "    "

// maxLine bounds a line of a trace, in bytes.
const maxLine = 400
