package browsertest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/workflow"
)

// nodesTable reads what the page says of every node.
const nodesTable = `[...document.querySelectorAll("#nodes tr[data-node]")].map(r => r.dataset.node + ": " + r.querySelector("td").innerText.replace(/\s+/g, " ").trim()).join(" | ")`

// moveSlider moves the slider to a record, as a hand does, and waits for nothing.
func (p *tab) moveSlider(at int64) {
	p.t.Helper()
	p.do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`(() => {
		const range = document.getElementById("record");
		range.value = %d;
		range.dispatchEvent(new Event("input", {bubbles: true}));
	})()`, at)))
}

// slideTo moves the slider to a record, as a hand does, and returns what the page says of the nodes then.
func (p *tab) slideTo(at int64) string {
	p.t.Helper()
	p.moveSlider(at)
	return evaluate[string](p, readAfterFrames)
}

// readAfterFrames reads what the page says of every node when all that has been asked of it is drawn.
const readAfterFrames = `new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(` + nodesTable + `))))`

// hasAnswer is an expression that is true when a page has the whole answer to a request of a script, whose address ends in a text.
func hasAnswer(address string) string {
	return fmt.Sprintf(`performance.getEntriesByType("resource").some(e => e.name.endsWith(%q) && e.responseEnd > 0)`, address)
}

// TestSlider: while the slider moves, the page counts the tokens of every node itself, without a request, and says after each
// record what the server says of it. Below the level release a third of the records has its day.
func TestSlider(t *testing.T) {
	s := openShop(t, forAnn())
	s.startImport(t, "import", 12)
	o, err := s.engine.Overview(t.Context(), workflow.RunID("import"))
	require.NoError(t, err)
	require.Greater(t, o.Seq, int64(6))
	p := openTab(t, openBrowser(t), view{width: 1400})
	p.open(s.url + "run/import")
	p.slideTo(1) // which asks for all that it needs, and for the record when the hand rests
	p.await(hasAnswer("view=steps"))
	p.await(hasAnswer("?at=1") + ` && location.search === "?at=1"`)
	const requests = `performance.getEntriesByType("resource").length`
	var folded []string
	before, rests := evaluate[int](p, requests), 1 // behind the last step
	for at := int64(1); at <= o.Seq; at++ {
		began := time.Now()
		folded = append(folded, p.slideTo(at))
		if time.Since(began) > 50*time.Millisecond { // as a busy machine has it, the hand may have rested for the page
			rests += 2
		}
	}
	asked := evaluate[int](p, requests) - before
	require.LessOrEqual(t, asked, rests)
	require.Empty(t, p.heard())
	var between []int64
	for at := int64(2); at < o.Seq; at++ {
		between = append(between, at)
	}
	for _, at := range append(harness.SampleOfDay(t, harness.Figure(3, 3, 1), between), 1, o.Seq) {
		p.open(fmt.Sprintf("%srun/import?at=%d", s.url, at))
		require.Equal(t, evaluate[string](p, nodesTable), folded[at-1], "record %d", at)
	}
	require.NotEqual(t, folded[0], folded[len(folded)-1])
}

// TestSliderWhileTheServerIsBusy: a page whose server refuses a record says so, asks again as the server has asked for, and shows the record
// then. A record that is refused for good is refused as by a link.
func TestSliderWhileTheServerIsBusy(t *testing.T) {
	s := openShop(t, forAnn())
	var refusal atomic.Int64
	followed := make(chan int, 16)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if status := int(refusal.Load()); status != 0 && r.URL.Query().Has("at") {
			switch {
			case r.Header.Get("Sec-Fetch-Mode") == "navigate":
				followed <- status
			case status == http.StatusServiceUnavailable:
				w.Header().Set("Retry-After", "1")
			}
			http.Error(w, "not now", status)
			return
		}
		s.handler.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	p := openTab(t, openBrowser(t), view{width: 1400})
	p.open(front.URL + "/ops/run/done")
	refusal.Store(http.StatusServiceUnavailable)
	p.slideTo(1)
	p.await(`document.getElementById("band").checkVisibility()`)
	require.Equal(t, "Record 1 is not shown whole yet, as the server is busy; the page keeps trying.", evaluate[string](p, `document.getElementById("band").innerText`))
	require.Empty(t, evaluate[string](p, `location.search`))
	p.shoot("slider-busy")
	refusal.Store(0)
	p.await(`!document.getElementById("band").checkVisibility() && location.search === "?at=1" && document.querySelector("#moment .seq").textContent === "1"`)
	refusal.Store(http.StatusNotFound)
	p.moveSlider(2) // the page is left, and with it all that would wait in it
	require.Equal(t, http.StatusNotFound, receive(t, followed))
}

// TestSliderMovesOn: the answer about a record that comes when the hand has moved on to another one is not shown.
func TestSliderMovesOn(t *testing.T) {
	s := openShop(t, forAnn())
	asked, answer := make(chan struct{}, 1), make(chan struct{})
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RawQuery == "at=1" {
			asked <- struct{}{}
			select {
			case <-answer:
			case <-r.Context().Done(): // the test has failed
			}
		}
		s.handler.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	p := openTab(t, openBrowser(t), view{width: 1400})
	p.open(front.URL + "/ops/run/done")
	whole := evaluate[string](p, nodesTable)
	p.moveSlider(1)
	p.await(fmt.Sprintf(`%s !== %q`, nodesTable, whole))
	first := evaluate[string](p, nodesTable)
	receive(t, asked)
	// The hand never rests again, so that no later question decides which answer counts.
	evaluate[chromedp.Void](p, `window.setTimeout = () => 0; void 0`)
	last := evaluate[int64](p, `Number(document.getElementById("record").max)`)
	moved := p.slideTo(last)
	require.NotEqual(t, first, moved)
	close(answer)
	p.await(hasAnswer("?at=1"))
	require.Equal(t, moved, evaluate[string](p, readAfterFrames))
	require.Empty(t, evaluate[string](p, `location.search`))
	require.Equal(t, fmt.Sprint(last), evaluate[string](p, `document.body.dataset.at`))
}
