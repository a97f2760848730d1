package browsertest

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/inspector"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/workflow"
)

// TestAWideRun: the pages of a live fan-out of 10,000 are small and quick when half of it has arrived.
func TestAWideRun(t *testing.T) {
	s := openShop(t, inspector.Options{})
	s.start(t, "wide", "import", map[string]any{"files": slices.Repeat([]any{"a.csv"}, 10_000)})
	s.await(t, "wide", workflow.EventTaskCompleted, 5_000)
	p := openTab(t, openBrowser(t), view{width: 1400})
	t.Run("is small", func(t *testing.T) { p.isSmall(t, s) })
	t.Run("is quick", func(t *testing.T) { p.isQuick(t, s) })
}

// isSmall: the pages of a fan-out of 10,000 hold few elements and little text.
func (p *tab) isSmall(t *testing.T, s *shop) {
	for _, page := range []string{"", "runs", "run/wide", "run/wide?view=groups", "run/wide?view=group&group=1", "run/wide?view=tokens", "run/wide?view=timeline", "run/wide?view=journal"} {
		status, html := get(t, s.url+page)
		require.Equal(t, http.StatusOK, status, page)
		require.Less(t, len(html), 200_000, page)
		p.open(s.url + page)
		require.Less(t, evaluate[int](p, `document.getElementsByTagName("*").length`), 3_000, page)
		require.Empty(t, p.heard(), page)
		p.shoot("wide-" + fileName(page))
	}
}

// isQuick: the page is painted within a second, and none of its tasks holds the browser for
// 50 ms; the best of up to five visits, since others may use the machine. Below the level
// release, where they surely do, it may take twenty times as long.
func (p *tab) isQuick(t *testing.T, s *shop) {
	harness.MeasuresTime(t)
	factor := harness.Figure[time.Duration](20, 20, 1)
	for _, page := range []string{"run/wide", "run/wide?view=group&group=1"} {
		paint, task := time.Hour, time.Hour
		for i := 0; i < 5 && (paint > time.Second || task > 50*time.Millisecond); i++ {
			p.open(s.url + page)
			paint = min(paint, milliseconds(evaluate[float64](p, `new Promise(done => new PerformanceObserver(list => {
				for (const e of list.getEntries()) if (e.name === "first-contentful-paint") done(e.startTime);
			}).observe({type: "paint", buffered: true}))`)))
			p.do(chromedp.Evaluate[chromedp.Void](`new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done())))`, chromedp.EvalAwaitPromise))
			task = min(task, milliseconds(evaluate[float64](p, `(() => {
				const o = new PerformanceObserver(() => {});
				o.observe({type: "longtask", buffered: true});
				return Math.max(0, ...o.takeRecords().map(e => e.duration));
			})()`)))
		}
		t.Logf("%s: painted after %v, longest task %v", page, paint, task)
		require.Less(t, paint, factor*time.Second, page)
		require.Less(t, task, factor*50*time.Millisecond, page)
	}
}

// TestAMovingFanOut: while branches of a fan-out of 10,000 arrive the page gets frame after frame, none of its tasks holds the
// browser for 50 ms, and at rest it shows the last record. The best of up to three times counts. Below the level release, where others use
// the machine, a task may take twenty times as long.
func TestAMovingFanOut(t *testing.T) {
	harness.MeasuresTime(t)
	s := openShop(t, forAnn())
	p := openTab(t, openBrowser(t), view{width: 1400})
	bar := harness.Figure[time.Duration](20, 20, 1) * 50 * time.Millisecond
	for i, view := range []string{"", "?view=group&group=1"} {
		id := workflow.RunID(fmt.Sprint("moving-", i))
		s.startImport(t, id, 10_000)
		keys := s.openTasks(t, id)
		p.open(s.url + "run/" + string(id) + view)
		evaluate[chromedp.Void](p, `window.arrived = 0; window.tasks = [];
			document.addEventListener("pawl:frame", () => window.arrived++);
			new PerformanceObserver(list => { for (const e of list.getEntries()) window.tasks.push(e.duration) }).observe({type: "longtask"});
			setTimeout(() => { const end = performance.now() + 80; while (performance.now() < end); }); void 0`)
		p.await(`window.tasks.some(took => took >= 80)`) // so that it is known that long tasks are seen
		longest := time.Hour
		for try := 0; try < 3 && longest > bar; try++ {
			evaluate[chromedp.Void](p, `window.arrived = 0; window.tasks = []; void 0`)
			for range 3 { // a frame or more for each
				arrived := evaluate[int](p, `window.arrived`)
				for _, key := range keys[:200] {
					require.NoError(t, s.engine.Complete(t.Context(), key, nil))
				}
				keys = keys[200:]
				p.await(fmt.Sprintf(`window.arrived > %d`, arrived))
			}
			longest = milliseconds(evaluate[float64](p, `Math.max(0, ...window.tasks)`))
			t.Logf("run/%s%s: longest task %v in 3 frames or more, %d branches are open", id, view, longest, len(keys))
		}
		require.Less(t, longest, bar)
		o, err := s.engine.Overview(t.Context(), id)
		require.NoError(t, err)
		p.await(fmt.Sprintf(`Number(document.getElementById("as-of").textContent.replace(/\D/g, "")) === %d`, o.Seq))
		require.Empty(t, p.heard())
	}
}

func milliseconds(n float64) time.Duration { return time.Duration(n * float64(time.Millisecond)) }
