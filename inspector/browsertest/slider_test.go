package browsertest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/workflow"
)

// nodesTable reads what the page says of every node.
const nodesTable = `[...document.querySelectorAll("#nodes tr[data-node]")].map(r => r.dataset.node + ": " + r.querySelector("td").innerText.replace(/\s+/g, " ").trim()).join(" | ")`

// slideTo moves the slider to a record, as a hand does, and returns what the page says of the nodes then.
func (p *tab) slideTo(at int64) string {
	return evaluate[string](p, fmt.Sprintf(`new Promise(done => {
		const range = document.getElementById("record");
		range.value = %d;
		range.dispatchEvent(new Event("input", {bubbles: true}));
		requestAnimationFrame(() => requestAnimationFrame(() => done(%s)));
	})`, at, nodesTable))
}

// TestSlider: while the slider moves, the page counts the tokens of every node itself, without a request, and says after each
// record what the server says of it.
func TestSlider(t *testing.T) {
	s := openShop(t, forAnn())
	s.startImport(t, "import", 12)
	o, err := s.engine.Overview(t.Context(), workflow.RunID("import"))
	require.NoError(t, err)
	require.Greater(t, o.Seq, int64(6))
	p := openTab(t, openBrowser(t), view{width: 1400})
	p.open(s.url + "run/import")
	p.slideTo(1) // which asks for all that it needs
	p.await(`performance.getEntriesByType("resource").some(e => e.name.includes("view=steps") && e.responseEnd > 0)`)
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
	for i, got := range folded {
		p.open(fmt.Sprintf("%srun/import?at=%d", s.url, i+1))
		require.Equal(t, evaluate[string](p, nodesTable), got, "record %d", i+1)
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
	p.slideTo(2)
	require.Equal(t, http.StatusNotFound, receive(t, followed))
}
