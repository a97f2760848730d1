package inspector

import (
	"cmp"
	"fmt"
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

// A change is when a token of a node comes to be counted, or ceases to be.
type change struct {
	at time.Time
	by int
}

// bandLayers are the standings whose tokens a band counts, from the ground up: each is drawn on those before it, and what is on top is
// all that lived.
var bandLayers = []mark{{"running", "running"}, {"queued", "queued"}, {"held", "held back"}, {"waiting", ""}}

// A profile counts the tokens of a node over the time: layers those that are in a layer or in one below it, alone those in a layer.
type profile struct {
	layers [4][]change
	alone  [3][]change
}

// addStay adds a token.
func (p *profile) addStay(st *stay) {
	for i := range st.parts {
		part := &st.parts[i]
		of := slices.IndexFunc(bandLayers, func(m mark) bool { return m.Class == part.class() })
		if of < 0 || of == len(bandLayers)-1 || part.isNothing() {
			continue
		}
		p.alone[of] = part.addChanges(p.alone[of])
		for i := of; i < len(bandLayers)-1; i++ {
			p.layers[i] = part.addChanges(p.layers[i])
		}
	}
	life, last := st.wholeLife(), len(bandLayers)-1
	p.layers[last] = life.addChanges(p.layers[last])
}

// nodeLanes returns a band for each node: how many of its tokens ran, were queued, were held back and waited, over the time.
//
// The order is that in which the run has come to the nodes. All areas of a band have the same scale.
func (v *viewer) nodeLanes(stays []*stay, axis timeAxis) (lanes []lane) {
	place := map[workflow.NodeID]int{}
	var profiles []*profile // by lane
	for _, st := range stays {
		i, ok := place[st.node]
		if !ok {
			i = len(lanes)
			place[st.node] = i
			lanes = append(lanes, lane{Label: string(st.node), Href: v.link("view", "timeline", "node", string(st.node))})
			profiles = append(profiles, &profile{})
		}
		lanes[i].Total++
		profiles[i].addStay(st)
	}
	for i := range lanes {
		profiles[i].drawAreas(&lanes[i], axis)
	}
	return lanes
}

// drawAreas makes the areas of a band, the highest first, and says in words what they show.
//
// Tokens that ran have a scale of their own: few of them could not be seen on that of many that wait.
func (p *profile) drawAreas(l *lane, axis timeAxis) {
	top := len(bandLayers) - 1
	lived := axis.peaksOf(p.layers[top])
	most := max(1, slices.Max(lived[:]))
	l.Area = []area{{bandLayers[top].Class, areaPath(lived, most)}}
	l.More = "1 thread"
	var at []string
	for i := top - 1; i >= 0; i-- {
		if len(p.alone[i]) == 0 {
			continue
		}
		peaks := axis.peaksOf(p.alone[i])
		at = append(at, groupDigits(slices.Max(peaks[:]))+" "+bandLayers[i].Word)
		l.Area = append(l.Area, area{bandLayers[i].Class, areaPath(axis.peaksOf(p.layers[i]), most)})
		if i == 0 {
			l.Ran = areaPath(peaks, slices.Max(peaks[:]))
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

// addChanges adds where the part begins and where it ends. A part that has taken no measurable time counts for an instant.
func (p *stayPart) addChanges(to []change) []change {
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
	fmt.Fprintf(&b, "M0 %d", areaHeight)
	last := -1
	for i, n := range counts {
		if n != last {
			h := n * (areaHeight - 2) / most
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
