package inspector

import (
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

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
	lanes := v.nodeLanes(stays, timeAxis{begin, 1002 * time.Millisecond})
	require.Equal(t, "400 tokens, at most 20 ran at once", lanes[0].More)
	require.Equal(t, "1 token", lanes[1].More)
	require.Equal(t, "M0 24H0V2H5V24H1000V24Z", lanes[1].Area[0].Path, "it is shown, though it took no time")
	require.Equal(t, "3 tokens, at most 3 ran at once", lanes[2].More)
	require.Equal(t, "M0 24H0V24H995V2H1000V24Z", lanes[2].Area[1].Path)
	require.Equal(t, "100 tokens, at most 5 ran at once, 100 with those held back", lanes[3].More)
}

// A fork itself dispatches what was out in the other run: the time in that run is no part of the fork's attempt.
func TestAForkBeginsWhatIsOut(t *testing.T) {
	at := func(s int) time.Time { return time.Date(2026, 11, 1, 12, 0, s, 0, time.UTC) }
	out := &stay{parts: []stayPart{{status: workflow.Pending, from: at(0), to: at(1)}, {status: workflow.Dispatched, from: at(1)}}}
	done := &stay{parts: []stayPart{{status: workflow.Completed, from: at(1)}}}
	out.sendAgain(at(50))
	done.sendAgain(at(50))
	require.Equal(t, []stayPart{{status: workflow.Pending, from: at(0), to: at(1)}, {status: workflow.Dispatched, from: at(1), to: at(50)}, {status: workflow.Dispatched, from: at(50)}}, out.parts)
	require.Len(t, done.parts, 1)
}

// A bar says what came of an attempt by class, shape and word: a failed attempt does not look like one that runs. The words are those
// that a lane says to a reader who does not see it.
func TestABarSaysWhatCameOfIt(t *testing.T) {
	begin := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	at := func(s int) time.Time { return begin.Add(time.Duration(s) * time.Second) }
	axis := timeAxis{begin, 100 * time.Second}
	st := &stay{token: 6, node: "ship", parts: []stayPart{
		{workflow.Dispatched, at(0), at(10), false}, {workflow.Retrying, at(10), at(12), true}, {workflow.Dispatched, at(12), at(90), true}, {workflow.Failed, at(90), time.Time{}, true},
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
