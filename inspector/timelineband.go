package inspector

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/pawl-run/pawl/workflow"
)

// The measures of a band: into how many pieces the time is cut, and how wide and high its areas are, in their own units.
const (
	lanePieces = 200
	areaWidth  = 1000
	areaHeight = 40
)

// An area is how many tokens of a node were in a standing, or in one drawn before it, over the time.
type area struct{ Class, Path string }

// A change is when a token of a node comes to be counted in a layer, or ceases to be.
type change struct {
	at    time.Duration // since the begin of the axis
	order uint8         // among the changes of an instant
	layer int8
	by    int8
}

// The order of what changes at one instant. A part that ends at an instant is over when another one begins at it. Parts that have taken no
// time are in between: the begin of the first of a token, its end, the begin of the next one, and so on, up to orderBegin.
const (
	orderEnd     = 0
	orderInstant = 1
	orderBegin   = 255
)

// bandLayers are the standings whose tokens a band counts, from the ground up: each is drawn on those before it, and what is on top is
// all that lived.
var bandLayers = []mark{{"running", "running"}, {"queued", "queued"}, {"held", "held back"}, {"waiting", ""}}

// lived is the layer that counts tokens for as long as they live, whatever they do.
const lived = 3

// A profile counts the tokens of a node over the time.
type profile struct {
	begin   time.Time // of the axis
	changes []change
	counted [lived]bool // which layers have tokens
}

// addStay adds a token: the parts of its life, each to its layer, and all of it to the last one.
func (p *profile) addStay(st *stay) {
	instants := uint8(0) // parts without time that follow each other
	var from, to change
	for i := range st.parts {
		part := &st.parts[i]
		if part.status.Terminal() && i > 0 {
			break
		}
		begin, end := change{p.sinceBegin(part.from), orderBegin, 0, 1}, change{math.MaxInt64, orderEnd, 0, -1}
		if !part.to.IsZero() {
			end.at = p.sinceBegin(part.to)
		}
		if end.at > begin.at && !part.status.Terminal() {
			instants = 0
		} else {
			begin.order = orderInstant + 2*instants
			end.at, end.order = begin.at, begin.order+1
			instants = min(instants+1, (orderBegin-orderInstant)/2-1)
		}
		if to = end; i == 0 {
			from = begin
		}
		if of := part.layerOf(); of >= 0 {
			p.counted[of] = true
			p.addChanges(of, begin, end)
		}
	}
	p.addChanges(lived, from, to)
}

// layerOf returns the layer in which a part is counted by itself; -1 if it is not.
func (p *stayPart) layerOf() int8 {
	if p.isNothing() {
		return -1
	}
	class := p.class()
	return int8(slices.IndexFunc(bandLayers[:lived], func(m mark) bool { return m.Class == class })) //nolint:gosec // there are few
}

func (p *profile) sinceBegin(t time.Time) time.Duration { return t.Sub(p.begin) }

// addChanges adds where a part begins and, unless it goes on, where it ends.
func (p *profile) addChanges(layer int8, begin, end change) {
	begin.layer, end.layer = layer, layer
	if p.changes = append(p.changes, begin); end.at < math.MaxInt64 {
		p.changes = append(p.changes, end)
	}
}

// groupStays returns the tokens of each node, in the order in which the run has come to the nodes.
func groupStays(stays []*stay) (nodes [][]*stay) {
	place := map[workflow.NodeID]int{}
	for _, st := range stays {
		i, ok := place[st.node]
		if !ok {
			i = len(nodes)
			place[st.node] = i
			nodes = append(nodes, nil)
		}
		nodes[i] = append(nodes[i], st)
	}
	return nodes
}

// nodeLanes returns a band for each node: how many of its tokens ran, were queued, were held back and waited, over the time. All
// areas of a band have the same scale.
func (v *viewer) nodeLanes(nodes [][]*stay, axis timeAxis) (lanes []lane) {
	for _, members := range nodes {
		id := string(members[0].node)
		l := lane{Label: id, Href: v.link("view", "timeline", "node", id), Total: len(members)}
		profileOf(members, axis.begin).drawAreas(&l, axis)
		lanes = append(lanes, l)
	}
	return lanes
}

// profileOf counts the tokens of a node.
func profileOf(stays []*stay, begin time.Time) *profile {
	parts := 0
	for _, st := range stays {
		parts += len(st.parts)
	}
	p := &profile{begin: begin, changes: make([]change, 0, 2*(parts+len(stays)))}
	for _, st := range stays {
		p.addStay(st)
	}
	return p
}

// drawAreas makes the areas of a band, the highest first, and says in words what they show.
//
// Tokens that ran have a scale of their own: few of them could not be seen on that of many that wait.
func (p *profile) drawAreas(l *lane, axis timeAxis) {
	peaks := p.peaksOn(axis)
	most := max(1, slices.Max(peaks.layers[lived][:]))
	l.Area = []area{{bandLayers[lived].Class, areaPath(&peaks.layers[lived], most)}}
	l.More = "1 thread"
	var at []string
	for i := lived - 1; i >= 0; i-- {
		if !p.counted[i] {
			continue
		}
		atOnce := slices.Max(peaks.alone[i][:])
		at = append(at, groupDigits(atOnce)+" "+bandLayers[i].Word)
		l.Area = append(l.Area, area{bandLayers[i].Class, areaPath(&peaks.layers[i], most)})
		if i == 0 {
			l.Ran = areaPath(&peaks.alone[i], atOnce)
		}
	}
	if l.Total == 1 {
		return
	}
	slices.Reverse(at) // what ran is said first
	if len(at) == 0 {
		at = []string{groupDigits(most)}
	}
	l.More = fmt.Sprintf("%s threads, at most at once: %s", groupDigits(l.Total), strings.Join(at, ", "))
}

// pieceCounts has a count for each piece of the time.
type pieceCounts [lanePieces]int

// bandPeaks are how many tokens were counted at once, at most, in each piece of the time: in a layer or in one below it, and in a layer alone.
type bandPeaks struct {
	layers [lived + 1]pieceCounts
	alone  [lived]pieceCounts
}

// peaksOn counts all layers in one sweep. It sorts the changes.
//
// A piece in which nothing changes has what the one before it ended with.
func (p *profile) peaksOn(axis timeAxis) *bandPeaks {
	slices.SortFunc(p.changes, func(x, y change) int {
		if x.at != y.at {
			return cmp.Compare(x.at, y.at)
		}
		return cmp.Compare(x.order, y.order)
	})
	peaks, last := &bandPeaks{}, 0
	var layers [lived + 1]int
	var alone [lived]int
	advanceTo := func(piece int) {
		for ; last < piece; last++ {
			for i, n := range layers {
				peaks.layers[i][last+1] = n
			}
			for i, n := range alone {
				peaks.alone[i][last+1] = n
			}
		}
	}
	for _, c := range p.changes {
		advanceTo(min(axis.placeOffset(c.at, lanePieces), lanePieces-1))
		// The piece keeps the most that it had, also if that was only for a moment.
		raise := func(n *int, of *pieceCounts) {
			*n += int(c.by)
			of[last] = max(of[last], *n)
		}
		if c.layer == lived {
			raise(&layers[lived], &peaks.layers[lived])
			continue
		}
		raise(&alone[c.layer], &peaks.alone[c.layer])
		for i := c.layer; i < lived; i++ {
			raise(&layers[i], &peaks.layers[i])
		}
	}
	advanceTo(lanePieces - 1)
	return peaks
}

// areaPath draws counts as steps from the ground of a lane.
//
// A count that is not 0 is at least one high: one of a thousand is seen. None is higher than the lane.
func areaPath(counts *pieceCounts, most int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "M0 %d", areaHeight)
	last := -1
	for i, n := range counts {
		if n != last {
			h := min(n, most) * (areaHeight - 2) / most
			if n > 0 {
				h = max(h, 1)
			}
			fmt.Fprintf(&b, "H%dV%d", i*areaWidth/lanePieces, areaHeight-h)
			last = n
		}
	}
	fmt.Fprintf(&b, "H%dV%dZ", areaWidth, areaHeight)
	return b.String()
}
