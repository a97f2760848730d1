package inspector

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/internal/diagram"
	"github.com/pawl-run/pawl/replay"
	"github.com/pawl-run/pawl/workflow"
)

// A past is how the tokens of a run came to where they are: record by record, which node has
// one more of a standing, and which has one less.
//
// serveSteps sends it to the browser as it is, which adds the steps up to the record of the slider: a list of differences is far smaller
// than the counts after each record. The second number of a step is a place in Nodes, the third a standing. Steps are in the order of
// records.
type past struct {
	Seq   int64             `json:"seq"` // of the last record
	Nodes []workflow.NodeID `json:"nodes"`
	Steps [][4]int          `json:"steps"` // record, node, standing, more by
}

// maxSteps bounds a past: if a run has more, only its end is shown.
//
// readPast fails with errTooLong at that bound.
const maxSteps = 400_000

// keptPasts is how many runs have theirs in memory.
const keptPasts = 8

// A pastOfRun is a past that is read when it is asked for, and a stepper for what else was so.
//
// mu is held while either is made or used: a Stepper is for one goroutine, and two readers of the same run share the work. Both are nil
// until somebody asks, and are made anew when the run has more records than they cover.
type pastOfRun struct {
	mu   sync.Mutex
	past *past
	step *replay.Stepper
}

// errTooLong says that a run has done too much to be looked at record by record.
var errTooLong = fmt.Errorf("the run has done too much to be looked at record by record here: use the journal")

// readPast returns the past of a run up to a record at least.
//
// It plays the whole journal, which takes long for a run of many records, and keeps the result for the next reader. The result is not
// changed any more.
func (v *viewer) readPast(ctx context.Context, life runLife, seq int64) (*past, error) {
	h := v.s.findHistory(life)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.past != nil && h.past.Seq >= seq {
		return h.past, nil
	}
	rec, err := v.recording(ctx, life.run)
	if err != nil {
		return nil, err
	}
	// at is where each token stands after the records so far. A record that leaves a token where it stands makes no step, even if its
	// status is another one of the same standing.
	type stood struct{ node, standing int }
	at := map[workflow.TokenID]stood{}
	places := map[workflow.NodeID]int{}
	p := &past{Nodes: []workflow.NodeID{}, Steps: [][4]int{}}
	for m, err := range replay.Moves(rec) {
		if err != nil {
			return nil, err
		}
		p.Seq = m.Seq
		for _, t := range m.Tokens {
			node, ok := places[t.Node]
			if !ok {
				node = len(p.Nodes)
				places[t.Node] = node
				p.Nodes = append(p.Nodes, t.Node)
			}
			now := stood{node, int(diagram.StandingOf(t.Status))}
			before, known := at[t.Token]
			if known && before == now {
				continue
			}
			// It leaves one place and comes to another: two steps of the same record.
			if known {
				p.Steps = append(p.Steps, [4]int{int(m.Seq), before.node, before.standing, -1})
			}
			p.Steps = append(p.Steps, [4]int{int(m.Seq), node, now.standing, 1})
			at[t.Token] = now
		}
		if len(p.Steps) > maxSteps {
			return nil, errTooLong
		}
	}
	// The stepper of the shorter journal is dropped with it.
	h.past, h.step = p, nil
	return p, nil
}

// findHistory returns the history of a run, an empty one if nobody has asked yet. Two callers at once get the same one.
func (s *server) findHistory(life runLife) *pastOfRun {
	if h, ok := s.pasts.find(life); ok {
		return h
	}
	return s.pasts.keepValue(life, &pastOfRun{})
}

// talliesAt returns how many tokens of each standing each node had after a record.
//
// Nodes without tokens are left out. The browser does the same sum for the slider.
func (p *past) talliesAt(seq int64) map[workflow.NodeID]tally {
	counts := make([]tally, len(p.Nodes))
	for _, step := range p.Steps {
		if int64(step[0]) > seq {
			break
		}
		counts[step[1]][step[2]] += step[3]
	}
	out := map[workflow.NodeID]tally{}
	for i, t := range counts {
		if t.Total() > 0 {
			out[p.Nodes[i]] = t
		}
	}
	return out
}

// statusFor returns a status of each standing, for those that have statuses only.
//
// A past knows standings only, and a diagram takes statuses, which it turns into standings again: StandingOf of each of these must be the
// standing that it stands for.
var statusFor = [standings]workflow.TokenStatus{
	failed: workflow.Failed, parked: workflow.WaitingForOperator, retrying: workflow.Retrying, running: workflow.Dispatched,
	waiting: workflow.Pending, done: workflow.Completed, cancelled: workflow.Cancelled,
}

// tokensFor returns tallies as a diagram has them.
//
// The statuses are representatives: they are good for drawing and for nothing else.
func tokensFor(tallies map[workflow.NodeID]tally) map[workflow.NodeID]map[workflow.TokenStatus]int {
	out := map[workflow.NodeID]map[workflow.TokenStatus]int{}
	for node, t := range tallies {
		out[node] = map[workflow.TokenStatus]int{}
		for s, n := range t {
			if n > 0 {
				out[node][statusFor[s]] = n
			}
		}
	}
	return out
}

// A moment is a run as it stood after one record.
//
// Seq of Of records is shown; Back and On lead to the records beside it, "" at the ends. More counts decisions that are not listed. The
// page of a run as it is has one too, for the slider alone: see graphData.Slider.
type moment struct {
	Seq       int64
	Waits     []whyLine // what its tokens waited for
	Of        int64
	At        instant
	Clock     string
	Status    workflow.RunStatus
	Message   string
	Decisions []string
	Why       []string
	State     *shownValue
	Back      string
	On        string
	Now       string // leads to the run as it is
	Fork      string // asks for a run that begins here; "" for those who may not
	Steps     string // where the browser gets the past from
	More      int
	Hidden    string // id of the run, where no path can name it
}

// frameAt returns a run after a record, with what was decided there.
//
// The stepper is kept, since a reader mostly goes to the record before or after next.
func (v *viewer) frameAt(ctx context.Context, life runLife, seq int64) (*replay.Frame, error) {
	h := v.s.findHistory(life)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.step == nil || h.step.Len() < seq {
		rec, err := v.recording(ctx, life.run)
		if err != nil {
			return nil, err
		}
		if h.step, err = replay.NewStepper(rec); err != nil {
			return nil, err
		}
	}
	return h.step.At(seq)
}

// viewAt shows the graph of a run as it stood after a record, and what happened in it.
//
// A record that the run does not have is the first or the last one: a link may be of an earlier run with this id.
func (v *viewer) viewAt(seq int64) (any, error) {
	seq = min(max(seq, 1), v.ov.Seq)
	// Where tokens stood comes from the past, what was decided from the stepper.
	p, err := v.readPast(v.ctx, v.lifeOf(), seq)
	if err != nil {
		return nil, err
	}
	f, err := v.frameAt(v.ctx, v.lifeOf(), seq)
	if err != nil {
		return nil, err
	}
	// The definition is that of now: what a patch has removed since is in the table of nodes, but not in the graph.
	g, err := v.graphOf()
	if err != nil {
		return nil, err
	}
	tallies := p.talliesAt(seq)
	link := func(id workflow.NodeID) string { return v.link("view", "tokens", "node", string(id)) }
	run := &diagram.Run{ID: v.id, Status: f.Status, Seq: seq, Tokens: tokensFor(tallies)}
	data := graphData{picture: v.drawGraph(g, run, link), Live: len(f.Tokens), Moment: v.momentOf(f)}
	v.addNodes(&data, g, tallies, link)
	return data, v.addPastWaits(data.Moment)
}

// addPastWaits says what the tokens of a run waited for after the record of a moment. It leaves them out for a moment after many records:
// that would play the journal twice, and a hand that moves the slider rests often.
func (v *viewer) addPastWaits(m *moment) error {
	if m.Seq > quickRecords || v.redacted {
		return nil
	}
	rec, err := v.recording(v.ctx, v.id)
	if err != nil {
		return err
	}
	x, err := replay.Why(rec.Until(m.Seq))
	if err != nil {
		return err
	}
	if !x.Status.Final() { // its end stands there already
		m.Waits = v.whyLines(&x, false)
	}
	for i := range m.Waits { // what one would do about them now is another matter
		m.Waits[i].Try = nil
	}
	return nil
}

// momentOf describes a record: its message, its decisions, and why the planner made them. Texts in which values may stand are left out for
// those who do not see them.
func (v *viewer) momentOf(f *replay.Frame) *moment {
	m := &moment{
		Seq: f.Seq, Of: v.ov.Seq, At: v.instantOf(f.At), Clock: clockText(f.At), Status: f.Status, Message: v.decisionAt(f.Message),
		Now: v.link(), Steps: v.link("view", "steps"), Hidden: hiddenID(v.id),
	}
	if f.Seq > 1 {
		m.Back = v.atLink(f.Seq - 1)
	}
	if f.Seq < v.ov.Seq {
		m.On = v.atLink(f.Seq + 1)
	}
	// A fork from a record at which the run had ended would have nothing left to do.
	if v.rights&api.Act != 0 && !f.Status.Final() {
		m.Fork = v.pageLink("act", "do", "fork", "target", targetText(pawl.Target{Run: v.id}), "at", strconv.FormatInt(f.Seq, 10))
	}
	// The first of the decisions are shown; the journal has all of them.
	for i, d := range f.Decisions {
		if i == shownSteps {
			m.More = len(f.Decisions) - i
			break
		}
		m.Decisions = append(m.Decisions, v.decisionAt(d))
	}
	if v.seesTexts() {
		m.Why = f.Why[:min(len(f.Why), shownSteps)]
	}
	if len(f.State) > 0 {
		m.State = v.valueAt(v.id, "state", f.State, largeValue)
	}
	return m
}

// hiddenID returns the id of a run whose address has it as a parameter, which forms would drop.
//
// A form that is sent by GET replaces the whole query of its address, so it needs the id as a hidden field. It is "" of most runs.
func hiddenID(id workflow.RunID) string {
	if strings.HasPrefix(runAddress(id), "run/?") {
		return string(id)
	}
	return ""
}

// atLink leads to the run as it was after a record.
func (v *viewer) atLink(seq int64) string { return v.link("at", strconv.FormatInt(seq, 10)) }

// serveSteps answers the past of the run, which the browser folds while the slider moves.
//
// Nodes and numbers are no values, so everybody who may look gets it.
func (v *viewer) serveSteps() error {
	p, err := v.readPast(v.ctx, v.lifeOf(), v.ov.Seq)
	if err != nil {
		return err
	}
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	v.w.Header().Set("Content-Type", "application/json")
	_, _ = v.w.Write(text) // whom it does not reach has gone
	return nil
}

// nextFailed leads to the token of the next branch of a group that needs somebody, from the first
// one on again after the last.
//
// It answers with an address, which is found when the link is followed and not when the page is made: meanwhile others may have mended
// the branch. If nobody is needed any more it leads to the group.
func (v *viewer) nextFailed() error {
	g, err := v.findGroup()
	if err != nil {
		return err
	}
	known, err := v.branchesOf([]pawl.Group{*g})
	if err != nil {
		return err
	}
	to := []string{"view", "group", "group", strconv.FormatInt(int64(g.ID), 10)}
	if b := known[g.ID]; b != nil {
		after, err := strconv.Atoi(v.r.URL.Query().Get("after"))
		if err != nil {
			after = -1
		}
		// Branches are looked at behind the one that the reader comes from, then from the first one on.
		urgent := func(s standing) bool { return s == failed || s == parked }
		i := -1
		if after+1 < len(b.standing) && after >= -1 {
			if k := slices.IndexFunc(b.standing[after+1:], urgent); k >= 0 {
				i = after + 1 + k
			}
		}
		if i < 0 {
			i = slices.IndexFunc(b.standing, urgent)
		}
		if i >= 0 {
			to = []string{"view", "token", "token", strconv.FormatInt(int64(b.token[i]), 10)}
		}
	}
	return v.goTo(runAddress(v.id, to...))
}
