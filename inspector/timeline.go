package inspector

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/replay"
	"github.com/pawl-run/pawl/workflow"
)

// The measures of a timeline.
// Its bars are placed in units so fine that a part may be made two hundred times as wide. A node with more threads than bandTokens is one
// band; if lanes and bands are still more than laneTokens, each node is one. A page has shownLanes of the nodes, or of the
// members of one.
const (
	laneWidth   = 100_000
	laneTokens  = 120
	bandTokens  = 40
	shownLanes  = 100
	timelineTop = 4                   // parts between ticks; a narrow page shows every other tick
	laneMark    = laneWidth * 3 / 100 // how wide a bar is that has room for its shape
	laneWords   = 20                  // bars that the words of a lane name
)

// A lane is a line of a timeline: a token, or a band of all tokens of a node.
//
// Bars are of a token, Area, Ran and Total of a band: how many tokens there were at once in which standing, and how many ran.
type lane struct {
	Label string
	More  string
	Href  string
	Bars  []bar
	Area  []area
	Ran   string // "" if none ran
	Total int
}

// A bar is how long a token was in a standing.
//
// X and Width are in units of laneWidth. An end is a mark, and not a time: its shape stands beside it.
type bar struct {
	X, Width int
	Class    string
	End      bool
	word     string // what the token did in it
	when     string
}

// Title says in words what a bar shows.
func (b *bar) Title() string { return b.word + b.when }

// HasShape reports whether the shape of the standing is drawn: colours alone do not tell standings apart for everybody.
func (b *bar) HasShape() bool { return b.End || b.Width >= laneMark }

// ShapeLeft reports whether the shape of an end stands before it, as there is no room behind it.
func (b *bar) ShapeLeft() bool { return b.X > laneWidth-2*laneMark }

// Percent writes units of laneWidth as a part of the lane.
func (bar) Percent(n int) string {
	return strconv.FormatFloat(float64(n)*100/laneWidth, 'f', -1, 64) + "%"
}

// Words says what a lane shows, for those who do not see it.
func (l *lane) Words() string {
	words := l.Label + " " + l.More
	for i := range l.Bars[:min(len(l.Bars), laneWords)] {
		words += "; " + l.Bars[i].Title()
	}
	if more := len(l.Bars) - laneWords; more > 0 {
		words += fmt.Sprintf("; and %d more", more)
	}
	return words
}

// A timelineData is what the timeline shows. ByNode says that all its lanes are nodes, and Node that they are the members of that
// node: either way Earlier and Later lead to the lanes that are on other pages.
type timelineData struct {
	Lanes   []lane
	Ticks   []tick
	Tokens  int
	ByNode  bool
	Live    bool
	From    int64 // of the axis, in milliseconds since the run began
	Span    int64 // likewise
	Legend  []mark
	Trace   string // a file of all that happened
	Node    workflow.NodeID
	Whole   string // leads back from the members of a node
	Earlier string
	Later   string
	Copied  int // tokens that ended before the fork, in the run Forked
	Forked  *runLink
}

// A tick says how long after the start of the run a place is.
type tick struct {
	X    int
	Text string
}

// A mark explains a class of bars.
type mark struct{ Class, Word string }

// marks are the classes of bars and areas, in the order of the legend.
var marks = []mark{
	{"done", "done"}, {"running", "running"}, {"queued", "queued: sent out, and nobody performs it yet"}, {"held", "held back: by a limit, a lock or a pause"},
	{"retrying", "between attempts"}, {"waiting", "waits"}, {"parked", "parked"}, {"failed", "failed"}, {"cancelled", "cancelled"},
}

// viewTimeline shows when which token was where.
//
// If the run goes on, the time ends now. A fork begins when it was forked: what ended before that did so in the other run.
func (v *viewer) viewTimeline() (any, error) {
	all, err := v.readStays()
	if err != nil {
		return nil, err
	}
	begin, end := all.begin, v.ov.EndedAt
	if end.IsZero() {
		end = v.now
	}
	stays := all.stays
	data := timelineData{Copied: all.copied, Live: v.ov.EndedAt.IsZero(), Trace: v.link("view", "trace"), Node: workflow.NodeID(v.r.URL.Query().Get("node"))}
	if all.copied > 0 {
		data.Forked = &runLink{all.of, v.runLink(all.of, "view", "timeline")}
	}
	if data.Node != "" {
		stays = slices.DeleteFunc(stays, func(st *stay) bool { return st.node != data.Node })
		data.Whole = v.link("view", "timeline")
		begin, end = lifeOf(stays, begin, end)
	}
	data.Tokens = len(stays)
	// A run that begins and ends in the same millisecond has a span too, by which places are divided.
	axis := timeAxis{begin, max(end.Sub(begin), time.Millisecond)}
	offset := begin.Sub(all.begin)
	data.From, data.Span = offset.Milliseconds(), axis.span.Milliseconds()
	for i := range timelineTop + 1 {
		data.Ticks = append(data.Ticks, tick{i * laneWidth / timelineTop, spanText(offset + axis.span*time.Duration(i)/timelineTop)})
	}
	if data.Node != "" {
		data.Lanes = v.tokenLanes(pageOfLanes(v, &data, stays), axis)
	} else {
		data.Lanes = v.lanesOf(&data, stays, axis)
	}
	data.Legend = legendOf(data.Lanes)
	return data, nil
}

// lifeOf returns from when to when some tokens lived, begin and end if there are none. A token that lives does so until end.
func lifeOf(stays []*stay, begin, end time.Time) (from, to time.Time) {
	for _, st := range stays {
		life := st.wholeLife()
		if from.IsZero() || life.from.Before(from) {
			from = life.from
		}
		if life.to.IsZero() {
			life.to = end
		}
		if life.to.After(to) {
			to = life.to
		}
	}
	if from.IsZero() {
		return begin, end
	}
	return from, to
}

// pageOfLanes returns those of all lanes that the page shows, and links to those before and behind them.
func pageOfLanes[T any](v *viewer, data *timelineData, all []T) []T {
	from, _ := strconv.Atoi(v.r.URL.Query().Get("from"))
	from = min(max(from, 0), max(len(all)-1, 0)) / shownLanes * shownLanes
	to := min(from+shownLanes, len(all))
	link := func(from int) string {
		return v.link("view", "timeline", "node", string(data.Node), "from", strconv.Itoa(from))
	}
	if from > 0 {
		data.Earlier = link(from - shownLanes)
	}
	if to < len(all) {
		data.Later = link(to)
	}
	return all[from:to]
}

// lanesOf returns a lane for each token, and a band for each node of many; of too many, a page of the bands of all nodes.
func (v *viewer) lanesOf(data *timelineData, stays []*stay, axis timeAxis) (lanes []lane) {
	counts := map[workflow.NodeID]int{}
	for _, st := range stays {
		counts[st.node]++
	}
	n := 0
	for _, of := range counts {
		if of > bandTokens {
			of = 1
		}
		n += of
	}
	if n > laneTokens {
		data.ByNode = true
		return v.nodeLanes(pageOfLanes(v, data, groupStays(stays)), axis)
	}
	bands := map[workflow.NodeID]lane{}
	var wide []*stay
	for _, st := range stays {
		if counts[st.node] > bandTokens {
			wide = append(wide, st)
		}
	}
	for _, l := range v.nodeLanes(groupStays(wide), axis) {
		bands[workflow.NodeID(l.Label)] = l
	}
	for _, st := range stays {
		if counts[st.node] <= bandTokens {
			lanes = append(lanes, v.tokenLanes([]*stay{st}, axis)...)
		} else if band, first := bands[st.node]; first { // it stands where its first member is
			lanes = append(lanes, band)
			delete(bands, st.node)
		}
	}
	return lanes
}

// tokenLanes returns a lane for each token.
func (v *viewer) tokenLanes(stays []*stay, axis timeAxis) (lanes []lane) {
	for _, st := range stays {
		l := lane{Label: string(st.node), Href: v.tokenLink(v.id, st.token), Bars: axis.barsOf(st)}
		l.More = st.token.String()
		if st.scope.Group != 0 {
			l.More += " · " + st.scope.String()
		}
		lanes = append(lanes, l)
	}
	return lanes
}

// legendOf explains the classes that are drawn.
func legendOf(lanes []lane) (out []mark) {
	drawn := map[string]bool{}
	for i := range lanes {
		for j := range lanes[i].Bars {
			drawn[lanes[i].Bars[j].Class] = true
		}
		for _, a := range lanes[i].Area {
			drawn[a.Class] = true
		}
	}
	for _, m := range marks {
		if drawn[m.Class] {
			out = append(out, m)
		}
	}
	return out
}

// A stay is a token with what became of it, as the timeline draws it.
//
// parts follow each other without gaps, each with another standing; there is at least one.
type stay struct {
	token workflow.TokenID
	node  workflow.NodeID
	scope workflow.Scope
	parts []stayPart
}

// A stayPart is a time in which a token had the same standing.
type stayPart struct {
	status workflow.TokenStatus
	from   time.Time
	to     time.Time // zero while it lasts
	failed bool      // the token had a failure as the part began: a retry has one, a snooze none
	queued bool      // its task was sent out, and nobody performed it yet
}

// A runStays are the stays of a run.
//
// A fork begins when it was forked; copied are the tokens that had ended by then in the run of, or whose end the fork has kept.
type runStays struct {
	stays  []*stay // by id
	begin  time.Time
	copied int
	of     workflow.RunID
	known  map[workflow.TokenID]*stay
}

// readStays returns the stays of all tokens.
//
// It plays the journal: how long a token was in which status is stored nowhere else.
func (v *viewer) readStays() (*runStays, error) {
	rec, err := v.recording(v.ctx, v.id)
	if err != nil {
		return nil, err
	}
	sum, err := v.s.engine.Summary(v.ctx, v.id)
	if err != nil {
		return nil, err
	}
	from := sum.ForkedFrom // up to that record it is the journal of the other run
	out := &runStays{begin: v.ov.StartedAt, of: from.Run, known: map[workflow.TokenID]*stay{}}
	for m, err := range replay.Moves(rec) {
		if err != nil {
			return nil, err
		}
		for i := range m.Tokens {
			out.addMove(m.At, &m.Tokens[i])
		}
		if from.Record > 0 && m.Seq == from.Record+1 {
			out.beginAt(m.At)
		}
	}
	if v.ov.EndedAt.IsZero() {
		return out, v.addNow(out)
	}
	return out, nil
}

// addMove adds what a record has made of a token.
func (s *runStays) addMove(at time.Time, t *replay.MovedToken) {
	st := s.known[t.Token]
	if st == nil {
		st = &stay{token: t.Token, node: t.Node, scope: t.Scope}
		s.known[t.Token] = st
		s.stays = append(s.stays, st)
	}
	// A record may change a token without changing its status: that is no new part.
	if last := len(st.parts) - 1; last >= 0 {
		if st.parts[last].status == t.Status {
			return
		}
		st.parts[last].to = at
		st.splitQueue(t.Began)
	}
	st.parts = append(st.parts, stayPart{status: t.Status, from: at, failed: t.Failed})
}

// splitQueue says of the last part when somebody began to perform the task: until then it was queued. An instant that is not known, or
// not in the part, says nothing.
func (st *stay) splitQueue(began time.Time) {
	last := &st.parts[len(st.parts)-1]
	if last.status != workflow.Dispatched || !began.After(last.from) || !last.to.IsZero() && began.After(last.to) {
		return
	}
	queued := *last
	queued.queued, queued.to = true, began
	last.from = began
	st.parts = slices.Insert(st.parts, len(st.parts)-1, queued)
}

// beginAt begins a run anew that was forked at an instant: what ended before it is of the other run, and what was out is sent again.
func (s *runStays) beginAt(at time.Time) {
	s.begin = at
	s.stays = slices.DeleteFunc(s.stays, func(st *stay) bool {
		last := &st.parts[len(st.parts)-1]
		if last.status.Terminal() {
			s.copied++
			return true
		}
		last.from, last.queued = at, false
		st.parts = []stayPart{*last}
		return false
	})
}

// addNow says of tasks that are out whether somebody performs them, as the engine knows now.
func (v *viewer) addNow(s *runStays) error {
	for t, err := range v.s.engine.Tokens(v.ctx, v.id, pawl.TokenFilter{Status: []workflow.TokenStatus{workflow.Dispatched}}) {
		if err != nil {
			return err
		}
		st := s.known[t.ID]
		if st == nil || st.parts[len(st.parts)-1].status != workflow.Dispatched { // the run has gone on since
			continue
		}
		if t.Queued != nil {
			st.parts[len(st.parts)-1].queued = true
		} else if t.Executing {
			st.splitQueue(t.Since)
		}
	}
	return nil
}

// wholeLife returns the part of a stay in which the token was alive.
//
// It ends where a part begins that no other follows, such as completed; to is zero while the token lives.
func (st *stay) wholeLife() stayPart {
	life := st.parts[0]
	for _, part := range st.parts {
		if life.to = part.to; part.status.Terminal() {
			life.to = part.from
			break
		}
	}
	return life
}

// class returns how a part looks.
func (p *stayPart) class() string {
	switch {
	case p.queued:
		return "queued"
	case p.status == workflow.Pending, p.status == workflow.WaitingForBudget, p.status == workflow.WaitingForLock:
		return "held"
	case p.status == workflow.WaitingForSiblings: // a branch that has arrived has done its part, but here it waits for the others
		return "waiting"
	}
	return statusClass(p.status)
}

// isNothing reports whether a part is no time in which a token was held back or queued: what can go on at once passes through these as well.
func (p *stayPart) isNothing() bool {
	class := p.class()
	return (class == "held" || class == "queued") && !p.to.IsZero() && p.to.Sub(p.from) < time.Millisecond
}

// word says what a token did in a part.
func (p *stayPart) word() string {
	switch {
	case p.queued:
		return "queued"
	case p.status == workflow.Pending:
		return "held back"
	}
	return statusWord(p.status)
}

// A timeAxis places instants between the begin of what is shown and its end, or now.
//
// span is more than 0.
type timeAxis struct {
	begin time.Time
	span  time.Duration
}

// placeInstant returns where an instant is on an axis of this width; an instant outside is at one of its ends.
func (a timeAxis) placeInstant(t time.Time, width int) int {
	return a.placeOffset(t.Sub(a.begin), width)
}

// placeOffset is placeInstant of a time since the begin of the axis.
func (a timeAxis) placeOffset(d time.Duration, width int) int {
	return min(max(int(float64(d)/float64(a.span)*float64(width)), 0), width)
}

// barsOf returns the bars of a token; its end is a mark of its own.
//
// A bar has the class of its part, but for one that ran: if that was followed by success it is done, and no mark is needed at its end; if it
// was followed by a back-off, by an operator or by failure, that attempt has failed. A handler that asked to be called again has not failed.
func (a timeAxis) barsOf(st *stay) (bars []bar) {
	for i := range st.parts {
		part := &st.parts[i]
		x, class := a.placeInstant(part.from, laneWidth), part.class()
		if len(bars) > 0 && bars[len(bars)-1].Class == "running" {
			bars[len(bars)-1].endRun(part, class)
		}
		// The end has no length: it is a mark, unless the bar before it says the same by being green.
		if part.status.Terminal() {
			if len(bars) == 0 || part.status != workflow.Completed {
				bars = append(bars, bar{X: min(x, laneWidth), Class: class, End: true, word: statusWord(part.status), when: " at " + clockText(part.from)})
			}
			continue
		}
		if part.isNothing() {
			continue
		}
		// A part without an end goes on until now.
		end, took := laneWidth, "still"
		if !part.to.IsZero() {
			end, took = a.placeInstant(part.to, laneWidth), spanText(part.to.Sub(part.from))
		}
		bars = append(bars, bar{X: x, Width: end - x, Class: class, word: part.word(), when: fmt.Sprintf(", %s, from %s", took, clockText(part.from))})
	}
	return bars
}

// endRun says of a bar that ran what the attempt has come to, by the part after it, which has this class.
func (b *bar) endRun(next *stayPart, class string) {
	switch {
	case next.status == workflow.Completed || class == "waiting":
		b.Class, b.word = "done", "ran and was done"
	case next.status == workflow.Retrying && !next.failed:
		b.word = "ran and snoozed"
	case next.status == workflow.Retrying || next.status == workflow.WaitingForOperator || next.status == workflow.Failed:
		b.Class, b.word = "failed", "ran and failed"
	default:
		b.word = "ran"
	}
}
