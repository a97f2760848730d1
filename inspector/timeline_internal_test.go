package inspector

import (
	"net/http/httptest"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/pawl-run/pawl/replay"
	"github.com/pawl-run/pawl/workflow"
)

// A lane of a node counts the tokens that were alive at once: a token that goes from one part to the next counts once, and so do two
// tokens if one begins when the other ends.
func TestALaneCountsNoTokenTwice(t *testing.T) {
	begin := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	at := func(ms int) time.Time { return begin.Add(time.Duration(ms) * time.Millisecond) }
	stayOf := func(id int, node workflow.NodeID, parts ...stayPart) *stay {
		return &stay{token: workflow.TokenID(id), node: node, parts: parts}
	}
	var stays []*stay
	for i := range 400 { // twenty at once, each after the one before it
		from := i / 20 * 50
		stays = append(stays, stayOf(i, "load",
			stayPart{status: workflow.Pending, from: at(from), to: at(from + 10)}, stayPart{status: workflow.Dispatched, from: at(from + 10), to: at(from + 50)}, stayPart{status: workflow.Completed, from: at(from + 50)}))
	}
	stays = append(stays, stayOf(401, "split", stayPart{status: workflow.Pending, from: at(0), to: at(0)}, stayPart{status: workflow.Completed, from: at(0)}))
	for i := range 3 { // none has ended, and all are in the last piece of the time
		stays = append(stays, stayOf(402+i, "late", stayPart{status: workflow.Dispatched, from: at(1000 + i)}))
	}
	for i := range 100 { // five at once, by maxConcurrency, and the others held back until then
		from := i / 5 * 50
		stays = append(stays, stayOf(405+i, "held",
			stayPart{status: workflow.Pending, from: at(0), to: at(from)}, stayPart{status: workflow.Dispatched, from: at(from), to: at(from + 50)}, stayPart{status: workflow.Completed, from: at(from + 50)}))
	}
	v := &viewer{page: newServerForTest().newPage(httptest.NewRecorder(), httptest.NewRequest("GET", "/run/r", nil)), id: "r"}
	lanes := v.nodeLanes(groupStays(stays), timeAxis{begin, 1002 * time.Millisecond})
	require.Equal(t, "400 threads, at most at once: 20 running, 20 held back", lanes[0].More)
	require.Equal(t, "1 thread", lanes[1].More)
	require.Equal(t, []area{{"waiting", "M0 40H0V2H5V40H1000V40Z"}}, lanes[1].Area, "it is shown, though it took no time, and nothing was held back")
	require.Equal(t, "3 threads, at most at once: 3 running", lanes[2].More)
	require.Equal(t, area{"running", "M0 40H0V40H995V2H1000V40Z"}, lanes[2].Area[1])
	require.Equal(t, "100 threads, at most at once: 5 running, 95 held back", lanes[3].More)
	require.Equal(t, "M0 40H0V2H1000V40Z", lanes[3].Ran, "on its own scale")
	require.Equal(t, []string{"waiting", "held", "running"}, []string{lanes[3].Area[0].Class, lanes[3].Area[1].Class, lanes[3].Area[2].Class})
}

// A part that has taken no time is over before the one behind it begins: threads that ran for an instant and are held back since are not
// counted twice, and no area is higher than its lane.
func TestAnInstantIsNotCountedWithWhatFollowsIt(t *testing.T) {
	begin := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	at := func(ms int) time.Time { return begin.Add(time.Duration(ms) * time.Millisecond) }
	v := &viewer{page: newServerForTest().newPage(httptest.NewRecorder(), httptest.NewRequest("GET", "/run/r", nil)), id: "r"}
	var stays []*stay
	for i := range 50 {
		stays = append(stays, &stay{token: workflow.TokenID(i), node: "load", parts: []stayPart{
			{status: workflow.Dispatched, from: at(0), to: at(0)}, {status: workflow.WaitingForLock, from: at(0), to: at(5)}, {status: workflow.Completed, from: at(5)},
		}})
	}
	l := v.nodeLanes(groupStays(stays), timeAxis{begin, 10 * time.Millisecond})[0]
	require.Equal(t, "50 threads, at most at once: 50 running, 50 held back", l.More)
	require.Equal(t, []area{{"waiting", "M0 40H0V2H505V40H1000V40Z"}, {"held", "M0 40H0V2H505V40H1000V40Z"}, {"running", "M0 40H0V2H5V40H1000V40Z"}}, l.Area)
}

// No layer of a band ever has more tokens than the one above it, and none more than lived.
func TestLayersOfABandLieOnEachOther(t *testing.T) {
	begin := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	statuses := []workflow.TokenStatus{workflow.Pending, workflow.Dispatched, workflow.WaitingForLock, workflow.WaitingForTimer, workflow.Retrying}
	rapid.Check(t, func(t *rapid.T) {
		p := profile{begin: begin}
		n := rapid.IntRange(1, 20).Draw(t, "tokens")
		for range n {
			st, at := &stay{}, begin.Add(time.Duration(rapid.IntRange(0, 3).Draw(t, "ms"))*time.Millisecond)
			for range rapid.IntRange(0, 5).Draw(t, "parts") {
				to := at.Add(time.Duration(rapid.IntRange(0, 2).Draw(t, "took")) * time.Millisecond)
				st.parts = append(st.parts, stayPart{status: rapid.SampledFrom(statuses).Draw(t, "status"), from: at, to: to, queued: rapid.Bool().Draw(t, "queued")})
				at = to
			}
			st.parts = append(st.parts, stayPart{status: workflow.Completed, from: at})
			p.addStay(st)
		}
		peaks := p.peaksOn(timeAxis{begin, 14 * time.Millisecond}) // a millisecond more than any of them lives
		for piece, most := range peaks.layers[lived] {
			require.LessOrEqual(t, most, n)
			for i := range lived {
				require.LessOrEqual(t, peaks.layers[i][piece], peaks.layers[i+1][piece])
				require.LessOrEqual(t, peaks.alone[i][piece], peaks.layers[i][piece])
			}
		}
		require.Zero(t, peaks.layers[lived][lanePieces-1], "all have ended")
		require.Positive(t, slices.Max(peaks.layers[lived][:]))
	})
}

// BenchmarkBand draws the band of a node with 100,000 threads that were held back, queued and performed.
func BenchmarkBand(b *testing.B) {
	begin := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	at := func(ms int) time.Time { return begin.Add(time.Duration(ms) * time.Millisecond) }
	v := &viewer{page: newServerForTest().newPage(httptest.NewRecorder(), httptest.NewRequest("GET", "/run/r", nil)), id: "r"}
	var stays []*stay
	for i := range 100_000 {
		stays = append(stays, &stay{token: workflow.TokenID(i), node: "load", parts: []stayPart{
			{status: workflow.Pending, from: at(0), to: at(2 * i)}, {status: workflow.Dispatched, from: at(2 * i), to: at(2*i + 40), queued: true},
			{status: workflow.Dispatched, from: at(2*i + 40), to: at(2*i + 90)}, {status: workflow.Completed, from: at(2*i + 90)},
		}})
	}
	b.ReportAllocs()
	for b.Loop() {
		v.nodeLanes(groupStays(stays), timeAxis{begin, 201 * time.Second})
	}
}

// A task is queued from its dispatch until somebody begins to perform it, and runs from then on; what is not known of that says nothing.
func TestATaskIsQueuedUntilSomebodyBegins(t *testing.T) {
	at := func(s int) time.Time { return time.Date(2026, 11, 1, 12, 0, s, 0, time.UTC) }
	for _, c := range []struct {
		began time.Time
		want  []stayPart
	}{
		{at(30), []stayPart{{status: workflow.Dispatched, from: at(0), to: at(30), queued: true}, {status: workflow.Dispatched, from: at(30), to: at(50)}}},
		{time.Time{}, []stayPart{{status: workflow.Dispatched, from: at(0), to: at(50)}}},
		{at(0), []stayPart{{status: workflow.Dispatched, from: at(0), to: at(50)}}},
		{at(51), []stayPart{{status: workflow.Dispatched, from: at(0), to: at(50)}}}, // by another clock
	} {
		stays := runStays{known: map[workflow.TokenID]*stay{}}
		stays.addMove(at(0), &replay.MovedToken{Token: 1, Status: workflow.Dispatched})
		stays.addMove(at(50), &replay.MovedToken{Token: 1, Status: workflow.Completed, Began: c.began})
		require.Equal(t, append(c.want, stayPart{status: workflow.Completed, from: at(50)}), stays.stays[0].parts)
	}
	axis := timeAxis{at(0), 50 * time.Second}
	l := lane{Bars: axis.barsOf(&stay{parts: []stayPart{{status: workflow.Pending, from: at(0), to: at(10)}, {status: workflow.Dispatched, from: at(10), to: at(20), queued: true}, {status: workflow.Dispatched, from: at(20)}}})}
	require.Equal(t, " ; held back, 10 s, from 12:00:00.000; queued, 10 s, from 12:00:10.000; running, still, from 12:00:20.000", l.Words())
	require.Equal(t, []mark{marks[1], marks[2], marks[3]}, legendOf([]lane{l}))
}

// A fork begins when it was forked: what had ended is of the other run, and what was out is sent again.
func TestAForkBeginsWhenItWasForked(t *testing.T) {
	at := func(s int) time.Time { return time.Date(2026, 11, 1, 12, 0, s, 0, time.UTC) }
	out := &stay{parts: []stayPart{{status: workflow.Pending, from: at(0), to: at(1)}, {status: workflow.Dispatched, from: at(1)}}}
	done := &stay{parts: []stayPart{{status: workflow.Completed, from: at(1)}}}
	s := runStays{begin: at(0), stays: []*stay{out, done}}
	s.beginAt(at(50))
	require.Equal(t, []*stay{{parts: []stayPart{{status: workflow.Dispatched, from: at(50)}}}}, s.stays)
	require.Equal(t, at(50), s.begin)
	require.Equal(t, 1, s.copied)
}

// Few tokens of a node have lanes of their own, many are a band where the first of them stands; of too many lanes each is a node.
func TestManyTokensOfANodeAreABand(t *testing.T) {
	at := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	v := &viewer{page: newServerForTest().newPage(httptest.NewRecorder(), httptest.NewRequest("GET", "/run/r", nil)), id: "r"}
	add := func(stays []*stay, node workflow.NodeID, n int) []*stay {
		for range n {
			stays = append(stays, &stay{node: node, parts: []stayPart{{status: workflow.Dispatched, from: at}}})
		}
		return stays
	}
	few := add(add(add(nil, "split", 1), "load", bandTokens+1), "sum", 2)
	var data timelineData
	lanes := v.lanesOf(&data, few, timeAxis{at, time.Second})
	require.False(t, data.ByNode)
	require.Equal(t, []string{"split", "load", "sum", "sum"}, labelsOf(lanes))
	require.Equal(t, "41 threads, at most at once: 41 running", lanes[1].More)
	require.Contains(t, lanes[1].Href, "view=timeline")
	require.Contains(t, lanes[1].Href, "node=load")
	lanes = v.lanesOf(&data, add(few, "sum", bandTokens-2), timeAxis{at, time.Second})
	require.False(t, data.ByNode)
	require.Len(t, lanes, 2+bandTokens)
	many := few
	for i := range laneTokens {
		many = add(many, workflow.NodeID("n"+strconv.Itoa(i)), 1)
	}
	lanes = v.lanesOf(&data, many, timeAxis{at, time.Second})
	require.True(t, data.ByNode)
	require.Len(t, lanes, shownLanes)
	require.Equal(t, "../run/r?from=100&view=timeline", data.Later)
}

func labelsOf(lanes []lane) (out []string) {
	for i := range lanes {
		out = append(out, lanes[i].Label)
	}
	return out
}

// A bar says what came of an attempt by class, shape and word: a failed attempt does not look like one that runs. The words are those
// that a lane says to a reader who does not see it.
func TestABarSaysWhatCameOfIt(t *testing.T) {
	begin := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	at := func(s int) time.Time { return begin.Add(time.Duration(s) * time.Second) }
	axis := timeAxis{begin, 100 * time.Second}
	st := &stay{token: 6, node: "ship", parts: []stayPart{
		{status: workflow.Dispatched, from: at(0), to: at(10)}, {status: workflow.Retrying, from: at(10), to: at(12), failed: true},
		{status: workflow.Dispatched, from: at(12), to: at(90), failed: true}, {status: workflow.Failed, from: at(90), failed: true},
	}}
	l := lane{Label: "ship", More: "t6", Bars: axis.barsOf(st)}
	require.Equal(t, "ship t6; ran and failed, 10 s, from 12:00:00.000; retrying, 2 s, from 12:00:10.000; ran and failed, 1 min 18 s, from 12:00:12.000; failed at 12:01:30.000", l.Words())
	var classes []string
	for i := range l.Bars {
		classes = append(classes, l.Bars[i].Class)
	}
	require.Equal(t, []string{"failed", "retrying", "failed", "failed"}, classes)
	require.Equal(t, "12%", l.Bars[2].Percent(l.Bars[2].X))
	require.True(t, l.Bars[0].HasShape())
	require.False(t, l.Bars[1].HasShape(), "it has no room")
	require.True(t, l.Bars[3].HasShape(), "it stands beside the mark")

	one := lane{Bars: axis.barsOf(&stay{parts: []stayPart{{status: workflow.Dispatched, from: at(0), to: at(10)}, {status: workflow.Completed, from: at(10)}}})}
	require.Equal(t, "  ; ran and was done, 10 s, from 12:00:00.000", " "+one.Words())
	for range 30 {
		one.Bars = append(one.Bars, one.Bars[0])
	}
	require.Contains(t, one.Words(), "; and 11 more")
}

func newServerForTest() *server { return Handler(nil, Options{}).(*server) }
