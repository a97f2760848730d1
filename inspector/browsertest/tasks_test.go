package browsertest

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/inspector"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/internal/testing/nighttest"
	"github.com/pawl-run/pawl/workflow"
)

// openNight opens a directory in which 37 orders are stuck, others have failed, and charges are slower than yesterday; whatever is
// tried again succeeds.
func openNight(t *testing.T) *shop {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, nighttest.Fill(t.Context(), dir, time.Now()))
	var err error
	s := &shop{}
	s.engine, err = pawl.Open(t.Context(), dir, pawl.Options{Executor: pawl.Handlers{"*": func(context.Context, pawl.Task) (any, error) {
		return map[string]any{"price": 12}, nil
	}}})
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		require.NoError(t, s.engine.Close(ctx))
	})
	s.handler = http.StripPrefix("/ops", inspector.Handler(s.engine, forAnn()))
	server := httptest.NewServer(s.handler)
	t.Cleanup(server.Close)
	s.url = server.URL + "/ops/"
	return s
}

// A hand does what somebody does with a mouse and a keyboard, and counts the clicks. Pages open at the overview.
type hand struct {
	*tab
	clicks int
}

// takeHand opens the overview.
func (s *shop) takeHand(p *tab) *hand {
	p.open(s.url)
	return &hand{tab: p}
}

// clickOn clicks a link or a button that has a text, within what a selector finds, and returns when its page is there.
func (h *hand) clickOn(within, text string) {
	h.t.Helper()
	h.clicks++
	at := evaluate[[]float64](h.tab, fmt.Sprintf(`(() => {
		const e = [...document.querySelectorAll(%q)].flatMap(w => [...w.querySelectorAll("a, button")]).find(e => e.innerText.trim().split(/\s+/).join(" ") === %q);
		if (!e) return [];
		e.scrollIntoView({block: "center", inline: "center", behavior: "instant"});
		const r = e.getClientRects()[0], x = r.x + r.width / 2, y = r.y + r.height / 2, there = document.elementFromPoint(x, y);
		return e === there || e.contains(there) ? [x, y] : [];
	})()`, within, text))
	require.Len(h.t, at, 2, "there is no %q to click in %s", text, within)
	h.followAction(chromedp.MouseClickXY(at[0], at[1]), text)
}

// sees requires that the page shows a text, in what a selector finds.
func (h *hand) sees(selector, text string) {
	h.t.Helper()
	require.Contains(h.t, strings.Join(strings.Fields(evaluate[string](h.tab, fmt.Sprintf(`[...document.querySelectorAll(%q)].map(e => e.innerText).join(" ")`, selector))), " "), text)
}

// done requires that it took at most so many clicks, and that the browser has complained of nothing.
func (h *hand) done(most int) {
	h.t.Helper()
	require.LessOrEqual(h.t, h.clicks, most)
	require.Empty(h.t, h.heard())
}

// TestFiveTasks: each of five questions of a bad night is answered by at most three clicks, on a desk and on a telephone,
// which have their days in turn below the level release.
func TestFiveTasks(t *testing.T) {
	browser := openBrowser(t)
	for _, v := range harness.SampleOfDay(t, harness.Figure(2, 2, 1), []view{{width: 1440}, {width: 390, dark: true}}) {
		t.Run(v.String(), func(t *testing.T) {
			s := openNight(t)
			p := openTab(t, browser, v)
			s.seeWhyStuck(p, v)
			s.seeWhetherSlower(p, v)
			s.seeDisk(p, v)
			s.retryByCode(t, p, v)
			s.forkBeforeTheBug(t, p, v)
		})
	}
}

// seeWhyStuck: the overview has what needs somebody in groups, and one click lists where each order stands.
func (s *shop) seeWhyStuck(p *tab, v view) {
	h := s.takeHand(p)
	h.shoot("tasks-home-" + v.String())
	h.sees("main", "14 × pay_down the bank does not answer for order #")
	h.sees("main", "9 × carrier_down the carrier does not answer for order #")
	h.sees("main", "6 × A large order. Shall it be shipped?")
	h.sees(".need", "2 blocked runs")
	h.clickOn(".workflows", "37 running")
	h.shoot("tasks-stuck-" + v.String())
	require.Equal(h.t, nighttest.Stuck, evaluate[int](h.tab, `document.querySelectorAll("main tbody tr").length`))
	for _, text := range []string{"paid: 1 waiting", "hold: 1 waiting", "notify: 1 retrying", "join_unmet"} {
		h.sees("main tbody", text)
	}
	h.done(1)
}

// seeWhetherSlower: the overview has today beside yesterday, and the page of the workflow has each node and whole runs.
func (s *shop) seeWhetherSlower(p *tab, v view) {
	h := s.takeHand(p)
	h.sees(".timing", "yesterday 284 ms")
	h.clickOn(".workflows", "order")
	h.shoot("tasks-times-" + v.String())
	h.sees(".timings", "runs ended, 95 % within 2.3 s, yesterday 519 ms")
	for _, words := range []string{"charge", "1.9 s", "192 ms", "whole run"} {
		h.sees(".node-times", words)
	}
	h.done(1)
}

// seeDisk: the page of the engine measures when it is asked to.
func (s *shop) seeDisk(p *tab, v view) {
	h := s.takeHand(p)
	h.clickOn("nav", "Engine")
	h.clickOn("main", "Measure disk use")
	h.shoot("tasks-disk-" + v.String())
	h.sees("main .list", "order")
	h.sees("main .list", "MiB")
	h.done(2)
}

// retryByCode: one click chooses the group of a code, and the other one confirms.
func (s *shop) retryByCode(t *testing.T, p *tab, v view) {
	h := s.takeHand(p)
	h.clickOn("main", "Retry all 14 tasks…")
	h.shoot("tasks-retry-" + v.String())
	h.await(`document.activeElement.name === "reason"`)
	h.press("the bank is back")
	h.clickOn(".ask", evaluate[string](h.tab, `document.querySelector(".ask .primary").innerText.trim()`))
	h.shoot("tasks-retried-" + v.String())
	h.done(2)
	for i := range nighttest.PayDown {
		_, err := s.engine.Wait(t.Context(), workflow.RunID(fmt.Sprintf("paydown-%d", i+1)))
		require.NoError(t, err)
	}
	left := 0
	for _, err := range s.engine.DeadLetters(t.Context(), pawl.DeadLetterFilter{}) {
		require.NoError(t, err)
		left++
	}
	require.Equal(t, nighttest.CarrierDown, left)
}

// forkBeforeTheBug: from a failed order, the node that was wrong is done again in a new run.
func (s *shop) forkBeforeTheBug(t *testing.T, p *tab, v view) {
	h := s.takeHand(p)
	h.clickOn("main", string(nighttest.Bad))
	h.shoot("tasks-bad-" + v.String())
	h.sees("main", "order@2")
	h.clickOn(`[data-node="quote"]`, "Rerun from here…")
	h.shoot("tasks-fork-" + v.String())
	h.sees(".effect", "the new run would be running")
	h.sees(".effect", "quote is begun")
	h.await(`document.activeElement.name === "reason"`)
	h.press("the quote was wrong")
	h.clickOn(".ask", "Make the new run")
	h.done(3)
	out, err := s.engine.Wait(t.Context(), nighttest.Bad+"-2")
	require.NoError(t, err)
	require.Equal(t, workflow.RunCompleted, out.Status)
}
