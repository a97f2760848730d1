package inspector

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-run/pawl/replay"
	"github.com/pawl-run/pawl/workflow"
)

// The measures of a timeline: how wide its bars are in its own units, up to how many tokens each
// has a lane, and into how many pieces the time is cut where it has not.
// A run of 100,000 tokens is drawn by node, so the drawing is never larger than the definition.
const (
	laneWidth   = 1000
	laneTokens  = 120
	lanePieces  = 200
	laneHeight  = 24
	timelineTop = 4  // parts between ticks; a narrow page shows every other tick
	laneMark    = 30 // how wide a bar is that has room for its shape
	laneWords   = 20 // bars that the words of a lane name
)

// A lane is a line of a timeline: a token, or all tokens of a node.
//
// Bars are of a token, and Area, Total and Most of a node. Most is how many tokens it had at once, and the height of the lane stands for
// it.
type lane struct {
	Label string
	More  string
	Href  string
	Bars  []bar
	Area  []area // instead, of a node with many tokens
	Total int
	Most  int
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

// An area is how many tokens of a node were in a standing, over the time.
type area struct{ Class, Path string }

// A timelineData is what the timeline shows. ByNode says that its lanes are nodes.
type timelineData struct {
	Lanes  []lane
	Ticks  []tick
	Tokens int
	ByNode bool
	Live   bool
}

// A tick says how long after the start of the run a place is.
type tick struct {
	X    int
	Text string
}

// A stay is a token with what became of it, as the timeline draws it.
//
// parts follow each other without gaps, each with another status; there is at least one.
type stay struct {
	token workflow.TokenID
	node  workflow.NodeID
	scope workflow.Scope
	parts []stayPart
}

// A stayPart is a time in which a token had the same status.
type stayPart struct {
	status workflow.TokenStatus
	from   time.Time
	to     time.Time // zero while it lasts
	failed bool      // the token had a failure as the part began: a retry has one, a snooze none
}

// readStays returns the stays of all tokens, by id.
//
// It plays the journal: how long a token was in which status is stored nowhere else.
func (v *viewer) readStays() ([]*stay, error) {
	rec, err := v.recording(v.ctx, v.id)
	if err != nil {
		return nil, err
	}
	sum, err := v.s.engine.Summary(v.ctx, v.id)
	if err != nil {
		return nil, err
	}
	from := sum.ForkedFrom // up to that record it is the journal of the other run
	var stays []*stay
	known := map[workflow.TokenID]*stay{}
	for m, err := range replay.Moves(rec) {
		if err != nil {
			return nil, err
		}
		if from.Record > 0 && m.Seq == from.Record+1 {
			for _, st := range stays {
				st.sendAgain(m.At)
			}
		}
		for _, t := range m.Tokens {
			st := known[t.Token]
			if st == nil {
				st = &stay{token: t.Token, node: t.Node, scope: t.Scope}
				known[t.Token] = st
				stays = append(stays, st)
			}
			// A record may change a token without changing its status: that is no new part.
			if last := len(st.parts) - 1; last >= 0 {
				if st.parts[last].status == t.Status {
					continue
				}
				st.parts[last].to = m.At
			}
			st.parts = append(st.parts, stayPart{status: t.Status, from: m.At, failed: t.Failed})
		}
	}
	return stays, nil
}

// sendAgain lets a task that is out begin anew: a fork dispatches by itself what was out in the other run.
func (st *stay) sendAgain(at time.Time) {
	if last := len(st.parts) - 1; st.parts[last].status == workflow.Dispatched {
		st.parts[last].to = at
		st.parts = append(st.parts, stayPart{status: workflow.Dispatched, from: at})
	}
}

// viewTimeline shows when which token was where.
//
// If the run goes on, the time ends now.
func (v *viewer) viewTimeline() (any, error) {
	stays, err := v.readStays()
	if err != nil {
		return nil, err
	}
	begin, end := v.ov.StartedAt, v.ov.EndedAt
	if end.IsZero() {
		end = v.now
	}
	// A run that begins and ends in the same millisecond has a span too, by which places are divided.
	axis := timeAxis{begin, max(end.Sub(begin), time.Millisecond)}
	data := timelineData{Tokens: len(stays), ByNode: len(stays) > laneTokens, Live: v.ov.EndedAt.IsZero()}
	for i := range timelineTop + 1 {
		data.Ticks = append(data.Ticks, tick{i * laneWidth / timelineTop, spanText(axis.span * time.Duration(i) / timelineTop)})
	}
	if data.ByNode {
		data.Lanes = v.nodeLanes(stays, axis)
		return data, nil
	}
	for _, st := range stays {
		l := lane{Label: string(st.node), Href: v.tokenLink(v.id, st.token), Bars: axis.barsOf(st)}
		l.More = st.token.String()
		if st.scope.Group != 0 {
			l.More += " · " + st.scope.String()
		}
		data.Lanes = append(data.Lanes, l)
	}
	return data, nil
}

// A timeAxis places instants between the begin of a run and its end, or now.
//
// span is more than 0.
type timeAxis struct {
	begin time.Time
	span  time.Duration
}

// placeInstant returns where an instant is on an axis of this width; an instant outside is at one of its ends.
func (a timeAxis) placeInstant(t time.Time, width int) int {
	return min(max(int(float64(t.Sub(a.begin))/float64(a.span)*float64(width)), 0), width)
}

// barsOf returns the bars of a token; its end is a mark of its own.
//
// A bar has the class of its status, but for one that ran: if that was followed by success it is done, and no mark is needed at its end; if it
// was followed by a back-off, by an operator or by failure, that attempt has failed. A handler that asked to be called again has not failed.
func (a timeAxis) barsOf(st *stay) (bars []bar) {
	for i, part := range st.parts {
		x, class := a.placeInstant(part.from, laneWidth), statusClass(part.status)
		// A branch that has arrived has done its part, but for the timeline it waits for the others.
		if part.status == workflow.WaitingForSiblings {
			class = "waiting"
		}
		if len(bars) > 0 && bars[len(bars)-1].Class == "running" {
			bars[len(bars)-1].endRun(part, class)
		}
		// The end has no length: it is a mark, unless the bar before it says the same by being green.
		if part.status.Terminal() {
			if i == 0 || part.status != workflow.Completed {
				bars = append(bars, bar{X: min(x, laneWidth-4), Width: 4, Class: class, End: true, word: statusWord(part.status), when: " at " + clockText(part.from)})
			}
			continue
		}
		// A part without an end goes on until now. Even the shortest is 3 wide, or it could not be seen, nor met by a mouse.
		end, took := laneWidth, "still"
		if !part.to.IsZero() {
			end, took = a.placeInstant(part.to, laneWidth), spanText(part.to.Sub(part.from))
		}
		width := max(end-x, 3)
		bars = append(bars, bar{X: min(x, laneWidth-width), Width: width, Class: class, word: statusWord(part.status), when: fmt.Sprintf(", %s, from %s", took, clockText(part.from))})
	}
	return bars
}

// endRun says of a bar that ran what the attempt has come to, by the part after it, which has this class.
func (b *bar) endRun(next stayPart, class string) {
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

// A change is when a token of a node comes to be counted, or ceases to be.
type change struct {
	at time.Time
	by int
}

// nodeLanes returns a lane for each node: how many of its tokens ran and waited, over the time.
//
// The order is that in which the run has come to the nodes. Both areas of a lane have the same scale, so what ran is part of what was
// alive.
func (v *viewer) nodeLanes(stays []*stay, axis timeAxis) (lanes []lane) {
	place := map[workflow.NodeID]int{}
	var running, alive [][]change // by lane
	for _, st := range stays {
		i, ok := place[st.node]
		if !ok {
			i = len(lanes)
			place[st.node] = i
			lanes = append(lanes, lane{Label: string(st.node), Href: v.link("view", "tokens", "node", string(st.node))})
			running, alive = append(running, nil), append(alive, nil)
		}
		lanes[i].Total++
		// The two counts of a lane are of tokens at work, and of tokens that live.
		for _, part := range st.parts {
			if part.status == workflow.Dispatched {
				running[i] = part.addChanges(running[i])
			}
		}
		alive[i] = st.wholeLife().addChanges(alive[i])
	}
	for i := range lanes {
		ran, lived := axis.peaksOf(running[i]), axis.peaksOf(alive[i])
		most := max(1, slices.Max(lived[:]))
		lanes[i].Most = most
		lanes[i].More = "1 token"
		if lanes[i].Total > 1 {
			lanes[i].More = groupDigits(lanes[i].Total) + " tokens, at most " + mostText(slices.Max(ran[:]), most)
		}
		lanes[i].Area = []area{{"waiting", areaPath(lived, most)}, {"running", areaPath(ran, most)}}
	}
	return lanes
}

// mostText says how many tokens of a node ran at once, at most, and how many there were with those that were held back or waited.
func mostText(ran, most int) string {
	switch {
	case ran == 0:
		return groupDigits(most) + " at once"
	case ran >= most:
		return groupDigits(ran) + " ran at once"
	}
	return groupDigits(ran) + " ran at once, " + groupDigits(most) + " with those held back"
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

// addChanges adds where the part begins and where it ends. A part that has taken no measurable time counts for an instant.
func (p stayPart) addChanges(to []change) []change {
	to = append(to, change{p.from, 1})
	if p.to.IsZero() {
		return to
	}
	end := p.to
	if !end.After(p.from) {
		end = p.from.Add(1)
	}
	return append(to, change{end, -1})
}

// peaksOf returns how many tokens were counted at once, at most, in each piece of the time. A part that ends at an instant is over when
// another one begins at it.
//
// It sorts its argument. A piece in which nothing changes has what the one before it ended with.
func (a timeAxis) peaksOf(changes []change) (peaks [lanePieces]int) {
	slices.SortFunc(changes, func(x, y change) int { return cmp.Or(x.at.Compare(y.at), x.by-y.by) })
	n, last := 0, 0
	for _, c := range changes {
		piece := min(a.placeInstant(c.at, lanePieces), lanePieces-1)
		for ; last < piece; last++ {
			peaks[last+1] = n
		}
		// The piece keeps the most that it had, also if that was only for a moment.
		n += c.by
		peaks[piece] = max(peaks[piece], n)
	}
	for ; last < lanePieces-1; last++ {
		peaks[last+1] = n
	}
	return peaks
}

// areaPath draws counts as steps from the ground of a lane.
//
// A count that is not 0 is at least one high: one of a thousand is seen.
func areaPath(counts [lanePieces]int, most int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "M0 %d", laneHeight)
	last := -1
	for i, n := range counts {
		if n != last {
			h := n * (laneHeight - 2) / most
			if n > 0 {
				h = max(h, 1)
			}
			fmt.Fprintf(&b, "H%dV%d", i*laneWidth/lanePieces, laneHeight-h)
			last = n
		}
	}
	fmt.Fprintf(&b, "H%dV%dZ", laneWidth, laneHeight)
	return b.String()
}
