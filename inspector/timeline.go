package inspector

import (
	"fmt"
	"strings"
	"time"

	"github.com/pawl-run/pawl/replay"
	"github.com/pawl-run/pawl/workflow"
)

// The measures of a timeline: how wide its bars are in its own units, up to how many tokens each
// has a lane, and into how many pieces the time is cut where it has not.
const (
	laneWidth   = 1000
	laneTokens  = 120
	lanePieces  = 200
	laneHeight  = 24
	timelineTop = 5 // ticks
)

// A lane is a line of a timeline: a token, or all tokens of a node.
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
type bar struct {
	X, Width int
	Class    string
	Title    string
}

// An area is how many tokens of a node were in a standing, over the time.
type area struct{ Class, Path string }

type timelineData struct {
	Lanes  []lane
	Ticks  []tick
	Tokens int
	ByNode bool
	Live   bool
}

type tick struct {
	X    int
	Text string
}

// A stay is a token with what became of it, as the timeline draws it.
type stay struct {
	token workflow.TokenID
	node  workflow.NodeID
	scope workflow.Scope
	parts []stayPart
}

type stayPart struct {
	status workflow.TokenStatus
	from   time.Time
	to     time.Time // zero while it lasts
}

// readStays returns the stays of all tokens, by id.
func (v *viewer) readStays() ([]*stay, error) {
	rec, err := v.s.engine.Recording(v.ctx, v.id)
	if err != nil {
		return nil, err
	}
	var stays []*stay
	known := map[workflow.TokenID]*stay{}
	for m, err := range replay.Moves(rec) {
		if err != nil {
			return nil, err
		}
		for _, t := range m.Tokens {
			st := known[t.Token]
			if st == nil {
				st = &stay{token: t.Token, node: t.Node, scope: t.Scope}
				known[t.Token] = st
				stays = append(stays, st)
			}
			if last := len(st.parts) - 1; last >= 0 {
				if st.parts[last].status == t.Status {
					continue
				}
				st.parts[last].to = m.At
			}
			st.parts = append(st.parts, stayPart{status: t.Status, from: m.At})
		}
	}
	return stays, nil
}

// viewTimeline shows when which token was where.
func (v *viewer) viewTimeline() (any, error) {
	stays, err := v.readStays()
	if err != nil {
		return nil, err
	}
	begin, end := v.ov.StartedAt, v.ov.EndedAt
	if end.IsZero() {
		end = v.now
	}
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
type timeAxis struct {
	begin time.Time
	span  time.Duration
}

func (a timeAxis) placeInstant(t time.Time, width int) int {
	return min(max(int(float64(t.Sub(a.begin))/float64(a.span)*float64(width)), 0), width)
}

// barsOf returns the bars of a token; its end is a mark of its own.
func (a timeAxis) barsOf(st *stay) (bars []bar) {
	for i, part := range st.parts {
		x, class := a.placeInstant(part.from, laneWidth), statusClass(part.status)
		if part.status == workflow.WaitingForSiblings {
			class = "waiting"
		}
		if (part.status == workflow.Completed || class == "waiting") && len(bars) > 0 && bars[len(bars)-1].Class == "running" {
			bars[len(bars)-1].Class = "done"
		}
		if part.status.Terminal() {
			if i == 0 || part.status != workflow.Completed {
				bars = append(bars, bar{min(x, laneWidth-4), 4, class, statusWord(part.status) + " at " + clockText(part.from)})
			}
			continue
		}
		end, took := laneWidth, "still"
		if !part.to.IsZero() {
			end, took = a.placeInstant(part.to, laneWidth), spanText(part.to.Sub(part.from))
		}
		width := max(end-x, 3)
		bars = append(bars, bar{min(x, laneWidth-width), width, class, fmt.Sprintf("%s, %s, from %s", statusWord(part.status), took, clockText(part.from))})
	}
	return bars
}

// nodeLanes returns a lane for each node: how many of its tokens ran and waited, over the time.
func (v *viewer) nodeLanes(stays []*stay, axis timeAxis) (lanes []lane) {
	place := map[workflow.NodeID]int{}
	var active [][2][lanePieces + 1]int // running and all that live, as differences
	for _, st := range stays {
		i, ok := place[st.node]
		if !ok {
			i = len(lanes)
			place[st.node] = i
			lanes = append(lanes, lane{Label: string(st.node), Href: v.link("view", "tokens", "node", string(st.node))})
			active = append(active, [2][lanePieces + 1]int{})
		}
		lanes[i].Total++
		for _, part := range st.parts {
			if part.status.Terminal() {
				continue
			}
			from, to := axis.placeInstant(part.from, lanePieces-1), lanePieces
			if !part.to.IsZero() {
				to = axis.placeInstant(part.to, lanePieces-1) + 1
			}
			active[i][1][from]++
			active[i][1][to]--
			if part.status == workflow.Dispatched {
				active[i][0][from]++
				active[i][0][to]--
			}
		}
	}
	for i := range lanes {
		running, alive := sumUp(active[i][0]), sumUp(active[i][1])
		most := 1
		for _, n := range alive {
			most = max(most, n)
		}
		lanes[i].Most = most
		lanes[i].More = groupDigits(lanes[i].Total) + " tokens, at most " + groupDigits(most) + " at once"
		lanes[i].Area = []area{{"waiting", areaPath(alive, most)}, {"running", areaPath(running, most)}}
	}
	return lanes
}

func sumUp(differences [lanePieces + 1]int) (out [lanePieces]int) {
	n := 0
	for i := range out {
		n += differences[i]
		out[i] = n
	}
	return out
}

// areaPath draws counts as steps from the ground of a lane.
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
