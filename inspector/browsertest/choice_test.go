package browsertest

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

// chosenTargets are what a form would act on.
const chosenTargets = `[...document.querySelectorAll("input[name=target]:checked")].map(e => e.value)`

// startWaiting starts an order that waits for a person.
func (s *shop) startWaiting(t *testing.T, id workflow.RunID) {
	t.Helper()
	s.start(t, id, "order", map[string]any{"customer": "Ada", "amount": 9000})
	s.await(t, id, workflow.EventApprovalRequested, 1)
}

// endWaiting cancels a run as somebody else.
func (s *shop) endWaiting(t *testing.T, id workflow.RunID) {
	t.Helper()
	require.NoError(t, s.engine.Do(pawl.Because(pawl.As(t.Context(), "bob"), "not wanted"), id, pawl.Cancel{}))
}

// awaitTarget returns when a list has something to choose, or has it no more.
func (p *tab) awaitTarget(target string, there bool) {
	p.t.Helper()
	p.await(fmt.Sprintf(`(document.querySelector("input[name=target][value='%s']") !== null) === %t`, target, there))
}

// choose ticks something, as a click does.
func (p *tab) choose(target string) {
	p.t.Helper()
	evaluate[chromedp.Void](p, fmt.Sprintf(`document.querySelector("input[name=target][value='%s']").click()`, target))
}

// TestAChoiceStays: a tick stays with what was chosen while other rows come and go, and goes with it.
func TestAChoiceStays(t *testing.T) {
	s := openShop(t, forAnn())
	for _, id := range []workflow.RunID{"wait-1", "wait-2", "wait-3"} {
		s.startWaiting(t, id)
	}
	p := openTab(t, openBrowser(t), view{width: 1280})
	t.Run("runs", func(t *testing.T) {
		p.open(s.url + "runs?status=running")
		p.choose("0 wait-2")
		for _, id := range []workflow.RunID{"new-1", "new-2"} {
			s.startWaiting(t, id)
			p.awaitTarget("0 "+string(id), true)
			require.Equal(t, []string{"0 wait-2"}, evaluate[[]string](p, chosenTargets))
		}
		p.shoot("choice")
		s.endWaiting(t, "new-1")
		p.awaitTarget("0 new-1", false)
		require.Equal(t, []string{"0 wait-2"}, evaluate[[]string](p, chosenTargets))
		s.endWaiting(t, "wait-2")
		p.awaitTarget("0 wait-2", false)
		require.Empty(t, evaluate[[]string](p, chosenTargets))
	})
	t.Run("inbox", func(t *testing.T) {
		p.open(s.url + "inbox?of=approvals")
		p.choose("2 wait-3")
		s.startWaiting(t, "a-first")
		p.awaitTarget("2 a-first", true)
		require.Equal(t, []string{"2 wait-3"}, evaluate[[]string](p, chosenTargets))
		s.endWaiting(t, "wait-1")
		p.awaitTarget("2 wait-1", false)
		require.Equal(t, []string{"2 wait-3"}, evaluate[[]string](p, chosenTargets))
		s.endWaiting(t, "wait-3")
		p.awaitTarget("2 wait-3", false)
		require.Empty(t, evaluate[[]string](p, chosenTargets))
	})
	require.Empty(t, p.heard())
}

// TestOpenedValuesStay: a part of a value that was opened stays open, and no other one in its place, when a card before it goes.
func TestOpenedValuesStay(t *testing.T) {
	s := openShop(t, forAnn())
	d, err := workflow.ParseYAML([]byte("name: pay\nstart: ask\nnodes: [{id: ask, approval: {message: Pay}, input: {order: input}}]\n"))
	require.NoError(t, err)
	_, err = s.engine.Publish(t.Context(), d)
	require.NoError(t, err)
	deep := map[string]any{"a": map[string]any{"b": map[string]any{"c": hostile + hostile, "d": hostile}, "e": map[string]any{"f": hostile, "g": hostile + hostile}}}
	for _, id := range []workflow.RunID{"pay-1", "pay-2", "pay-3"} {
		s.start(t, id, "pay", deep)
		s.await(t, id, workflow.EventApprovalRequested, 1)
	}
	p := openTab(t, openBrowser(t), view{width: 1280})
	p.open(s.url + "inbox?of=approvals&workflow=pay")
	opened := `[...document.querySelectorAll("details[open]")].map(e => e.closest(".card").querySelector("input").value + " " + e.querySelector(".key").textContent)`
	evaluate[chromedp.Void](p, `[...document.querySelectorAll(".card")][1].querySelectorAll("details")[1].open = true; void 0`)
	want := evaluate[[]string](p, opened)
	require.Equal(t, []string{"1 pay-2 e"}, want)
	s.endWaiting(t, "pay-1")
	p.awaitTarget("1 pay-1", false)
	require.Equal(t, want, evaluate[[]string](p, opened))
}

// TestAFocusedRowStaysWhole: while a link has the focus, by a click that opens another tab or by keys, the row around it says what the
// link leads to, whichever rows come and go, and it keeps the focus.
func TestAFocusedRowStaysWhole(t *testing.T) {
	s := openShop(t, forAnn())
	for _, id := range []workflow.RunID{"wait-1", "wait-2", "wait-3"} {
		s.startWaiting(t, id)
	}
	p := openTab(t, openBrowser(t), view{width: 1280})
	focused := `[document.activeElement.getAttribute("href") || "", document.activeElement.textContent, document.activeElement.closest("tr, li").querySelector("input").value].join(" ")`
	p.open(s.url + "runs?status=running")
	p.press("j")
	p.press("j")
	require.Equal(t, "run/wait-2 wait-2 0 wait-2", evaluate[string](p, focused))
	s.startWaiting(t, "new")
	p.awaitTarget("0 new", true)
	require.Equal(t, "run/wait-2 wait-2 0 wait-2", evaluate[string](p, focused))
	s.endWaiting(t, "wait-3")
	p.awaitTarget("0 wait-3", false)
	require.Equal(t, "run/wait-2 wait-2 0 wait-2", evaluate[string](p, focused))

	p.open(s.url + "inbox?of=approvals")
	evaluate[chromedp.Void](p, `document.querySelector(".card a[href='run/wait-2']").focus()`)
	s.endWaiting(t, "wait-1")
	p.awaitTarget("2 wait-1", false)
	require.Equal(t, "run/wait-2 wait-2 2 wait-2", evaluate[string](p, focused))
	cards := `[...document.querySelectorAll("li.card")].map(e => [...e.querySelectorAll("a[href^='run/']")].map(a => a.getAttribute("href").split("?")[0]).concat("run/" + e.querySelector("input").value.split(" ")[1], "run/" + e.querySelectorAll("a")[1].textContent))`
	for _, card := range evaluate[[][]string](p, cards) {
		require.Len(t, card, 4)
		for _, run := range card {
			require.Equal(t, card[0], run, "one card, one run")
		}
	}
	p.shoot("focus")
}

// TestWrittenFiltersStay: what somebody has written or chosen in the form of a list stays when frames come; a form in which nobody has
// written gets what the server adds.
func TestWrittenFiltersStay(t *testing.T) {
	s := openShop(t, forAnn())
	p := openTab(t, openBrowser(t), view{width: 1280})
	state := `[document.querySelector("[name=prefix]").value, document.querySelector("[name=where]").value, document.querySelector("[name=workflow]").value, [...document.querySelectorAll("[name=status]:checked")].map(e => e.value)].join(" | ")`
	offered := `[...document.querySelectorAll("[name=workflow] option")].map(e => e.value).join(" ")`
	p.open(s.url + "runs")
	require.Equal(t, " order", evaluate[string](p, offered))
	s.startImport(t, "import", 12)
	p.await(offered + ` === " import order"`)

	p.fill("[name=prefix]", "wait-")
	p.fill("[name=where]", `workflow == "order"`)
	evaluate[chromedp.Void](p, `document.querySelector("[name=workflow]").value = "order"; document.querySelector("[name=status][value=running]").click(); document.activeElement.blur(); void 0`)
	written := evaluate[string](p, state)
	require.Equal(t, `wait- | workflow == "order" | order | running`, written)
	s.startWaiting(t, "wait-9")
	p.awaitTarget("0 wait-9", true)
	require.Equal(t, written, evaluate[string](p, state))
	p.shoot("written")
}
