package browsertest

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/workflow"
)

// trackWidth is how many times as wide as its place a lane is drawn.
const trackWidth = `Math.round(document.querySelector(".lane svg").getBoundingClientRect().width / document.querySelector(".track").getBoundingClientRect().width)`

// A timeline is zoomed by keys, buttons, wheel and a drag; its ticks tell the part that is shown, a frame of the stream leaves it as it is, and
// without JavaScript the whole is there and nothing offers to zoom.
func TestATimelineIsZoomed(t *testing.T) {
	s := openShop(t, forAnn())
	p := openTab(t, openBrowser(t), view{width: 1400})
	p.open(s.url + "run/done?view=timeline")
	ticks := func() []string {
		return evaluate[[]string](p, `[...document.querySelectorAll(".ticks span")].map(e => e.textContent)`)
	}
	width := func() int { return evaluate[int](p, trackWidth) }
	whole := ticks()
	require.Equal(t, 1, width())
	p.press("+")
	p.press("+")
	require.Equal(t, 4, width())
	zoomed := ticks()
	require.NotEqual(t, whole, zoomed)
	p.press(kb.ArrowRight)
	require.NotEqual(t, zoomed, ticks())
	p.do(chromedp.Evaluate[chromedp.Void](`document.dispatchEvent(new CustomEvent("pawl:frame")); void 0`))
	require.Equal(t, 4, width())
	p.press("-")
	require.Equal(t, 2, width())
	p.press("0")
	require.Equal(t, 1, width())
	require.Equal(t, whole[0], ticks()[0])
	p.do(chromedp.Evaluate[chromedp.Void](`document.querySelector("[data-zoom='+']").click(); void 0`))
	require.Equal(t, 2, width())
	p.press("0")
	// The wheel scrolls the page unless Ctrl is held.
	wheel := func(ctrl bool) bool {
		return evaluate[bool](p, `(() => {
			const at = document.querySelector(".track").getBoundingClientRect();
			return document.querySelector(".track svg").dispatchEvent(new WheelEvent("wheel", {deltaY: -200, ctrlKey: `+strconv.FormatBool(ctrl)+`, clientX: at.left + at.width / 2, bubbles: true, cancelable: true}));
		})()`)
	}
	require.True(t, wheel(false))
	require.Equal(t, 1, width())
	require.False(t, wheel(true), "the browser does not zoom the page as well")
	require.Equal(t, 3, width()) // e times
	p.press("0")
	p.do(chromedp.Evaluate[chromedp.Void](`(() => {
		const of = document.querySelector(".track svg"), at = of.getBoundingClientRect(), to = (type, x) => of.dispatchEvent(new PointerEvent(type, {clientX: at.left + x * at.width, bubbles: true, pointerType: "mouse"}));
		to("pointerdown", 0.2);
		to("pointermove", 0.4);
		to("pointerup", 0.4);
	})()`))
	require.Equal(t, 5, width())
	// A drag that the system takes over leaves no mark, and what the pointer does later zooms nothing.
	require.Equal(t, []int{1, 0, 0}, evaluate[[]int](p, `(() => {
		const of = document.querySelector(".track svg"), at = of.parentElement.getBoundingClientRect(), marks = () => document.querySelectorAll(".zoom-mark").length;
		const to = (type, x) => { of.dispatchEvent(new PointerEvent(type, {clientX: at.left + x * at.width, bubbles: true, pointerType: "pen"})); return marks(); };
		to("pointerdown", 0.2);
		return [to("pointermove", 0.4), to("pointercancel", 0.4), to("pointermove", 0.6), to("pointerup", 0.6)].slice(0, 3);
	})()`))
	require.Equal(t, 5, width())
	require.Empty(t, p.heard())
	require.Empty(t, p.violations())

	plain := openTab(t, openBrowser(t), view{width: 1400, static: true})
	plain.open(s.url + "run/parked?view=timeline")
	_, html := get(t, s.url+"run/parked?view=timeline")
	require.True(t, strings.Contains(html, `id="zoom" hidden`))
}

// The part of a timeline that was zoomed into stays in view while the run goes on and the whole becomes longer.
func TestAZoomedTimelineStays(t *testing.T) {
	s := openShop(t, forAnn())
	p := openTab(t, openBrowser(t), view{width: 1400}) // before the run begins, which would be older by what that takes
	s.startImport(t, "import", 12)
	// A part of a run that is some milliseconds old cannot be zoomed as far as it has to be when that is some seconds old.
	aged := evaluate[float64](p, `performance.now()`) + 1000
	p.await(fmt.Sprintf(`performance.now() >= %f`, aged))
	p.open(s.url + "run/import?view=timeline")
	const span, ticks = `Number(document.getElementById("lanes").dataset.span)`, `[...document.querySelectorAll(".ticks span")].map(e => parseFloat(e.textContent) * (e.textContent.endsWith(" ms") ? 1 : 1000))`
	p.press("+")
	p.press("+")
	p.press(kb.ArrowLeft)
	shown, before := evaluate[[]float64](p, ticks), evaluate[float64](p, span)
	for _, key := range s.openTasks(t, "import")[:2] {
		later := evaluate[float64](p, `performance.now()`) + 1000
		p.await(fmt.Sprintf(`performance.now() >= %f`, later))
		require.NoError(t, s.engine.Complete(t.Context(), key, nil))
		p.await(fmt.Sprintf(`%s > %f`, span, before+900))
		before = evaluate[float64](p, span)
		require.InDeltaSlice(t, shown, evaluate[[]float64](p, ticks), 1.5, "they are rounded to milliseconds")
	}
	require.Greater(t, evaluate[int](p, trackWidth), 4)
	p.shoot("zoomed")
	p.press("0")
	require.NotEqual(t, shown, evaluate[[]float64](p, ticks))
	require.Empty(t, p.heard())
}

// The field of a condition offers what may stand next: fields, then what compares them, then values, then what joins conditions.
func TestAConditionIsCompleted(t *testing.T) {
	s := openShop(t, forAnn())
	p := openTab(t, openBrowser(t), view{width: 1400})
	p.open(s.url + "runs")
	offers := func(text string) []string {
		return evaluate[[]string](p, `(() => {
			const field = document.querySelector("[name=where]");
			field.value = `+strconv.Quote(text)+`;
			field.dispatchEvent(new Event("input", {bubbles: true}));
			return [...document.querySelectorAll("#conditions option")].map(o => o.value);
		})()`)
	}
	for text, want := range map[string][]string{
		`st`:                         {"status ", "started "},
		`status `:                    {`status == "`, `status != "`, `status in [`},
		`status == "fa`:              {`status == "failed"`},
		`status in ["failed", "time`: {`status in ["failed", "timed_out"`},
		`status == "failed" `:        {`status == "failed" && `, `status == "failed" || `},
		`status == "failed" && work`: {`status == "failed" && workflow `},
		`workflow == `:               {`workflow == "order"`},
		`started >`:                  {`started > timestamp("`},
		`labels.customer `:           {`labels.customer == "`, `labels.customer != "`, `labels.customer in [`},
		`(co`:                        {`(code `},
	} {
		require.ElementsMatch(t, want, offers(text), text)
	}
	require.Greater(t, len(offers("")), 5, "whole conditions to begin with")
	require.Empty(t, p.heard())
}

// A table that goes on at the right says so: its box has a shadow there until it is scrolled to its end.
func TestATableSaysThatItScrolls(t *testing.T) {
	s := openShop(t, forAnn())
	for i := range 20 {
		s.start(t, workflow.RunID(fmt.Sprint("more-", i)), "order", map[string]any{"amount": 9000})
	}
	p := openTab(t, openBrowser(t), view{width: 390})
	p.open(s.url + "definitions?workflow=order")
	require.True(t, evaluate[bool](p, `(() => { const e = document.querySelector(".scroll:has(> .grid)"); return e.scrollWidth > e.clientWidth && /local/.test(getComputedStyle(e).backgroundAttachment) && getComputedStyle(e.querySelector("table")).backgroundColor === "rgba(0, 0, 0, 0)"; })()`))
}
