package browsertest

import (
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// overlaps returns texts that stand on others, so that nobody can read either.
func (p *tab) overlaps() []string {
	p.t.Helper()
	return evaluate[[]string](p, `(() => {
		const out = [], texts = [], walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
		for (let n; n = walk.nextNode();) {
			const e = n.parentElement;
			if (!n.textContent.trim() || !e.checkVisibility({visibilityProperty: true, opacityProperty: true}) || e.closest("svg title, script, style, .skip, option, datalist, dialog")) continue;
			// What a box that scrolls hides, or cuts, is not on the page.
			let box = {left: 0, top: -Infinity, right: Infinity, bottom: Infinity};
			for (let a = e; a; a = a.parentElement) {
				if (!/auto|scroll|hidden/.test(getComputedStyle(a).overflow)) continue;
				const b = a.getBoundingClientRect();
				box = {left: Math.max(box.left, b.left), top: Math.max(box.top, b.top), right: Math.min(box.right, b.right), bottom: Math.min(box.bottom, b.bottom)};
			}
			const range = document.createRange();
			range.selectNodeContents(n);
			for (const r of range.getClientRects()) {
				const seen = {left: Math.max(r.left, box.left), top: Math.max(r.top, box.top), right: Math.min(r.right, box.right), bottom: Math.min(r.bottom, box.bottom)};
				if (seen.right - seen.left > 2 && seen.bottom - seen.top > 2) texts.push({...seen, text: n.textContent.trim().slice(0, 30), n});
			}
		}
		texts.sort((a, b) => a.top - b.top);
		for (let i = 0; i < texts.length; i++) for (let j = i + 1; j < texts.length && texts[j].top < texts[i].bottom; j++) {
			const a = texts[i], b = texts[j];
			if (a.n !== b.n && Math.min(a.right, b.right) - Math.max(a.left, b.left) > 0.5 && Math.min(a.bottom, b.bottom) - b.top > 4) out.push(a.text + " stands on " + b.text);
		}
		return out.slice(0, 10);
	})()`)
}

// Times along a timeline can be told apart on a telephone, also the longest.
func TestTicksHaveRoom(t *testing.T) {
	s := openShop(t, forAnn())
	p := openTab(t, openBrowser(t), view{width: 360})
	p.open(s.url + "run/parked?view=timeline")
	for _, text := range []string{"0 ms", "23 min 59 s", "364 d 23 h"} {
		p.do(chromedp.Evaluate[chromedp.Void](`for (const e of document.querySelectorAll(".ticks span")) e.textContent = "` + text + `"; void 0`))
		gaps := evaluate[[]float64](p, `(() => {
			const boxes = [...document.querySelectorAll(".ticks span")].filter(e => e.checkVisibility()).map(e => e.getBoundingClientRect());
			return boxes.slice(1).map((b, i) => b.left - boxes[i].right);
		})()`)
		require.GreaterOrEqual(t, len(gaps), 2)
		for _, gap := range gaps {
			require.Greater(t, gap, 8.0, text)
		}
	}
}

// A bar of a timeline says what it says by its shape and in words, and not by its colour alone.
func TestBarsHaveShapesAndWords(t *testing.T) {
	s := openShop(t, forAnn())
	p := openTab(t, openBrowser(t), view{width: 1400})
	p.open(s.url + "run/parked?view=timeline")
	require.NotZero(t, evaluate[int](p, `[...document.querySelectorAll(".lane g.parked use")].filter(e => e.getAttribute("href") === "#i-parked" && e.getBoundingClientRect().width > 5).length`))
	require.Regexp(t, "^ship t2; .*failed.*; parked, still, from ", evaluate[string](p, `document.querySelector(".lane:last-child svg").getAttribute("aria-label")`))
}

// A text on another is found, and one that a box cuts off is not on what stands behind the box.
func TestOverlapsAreFound(t *testing.T) {
	s := openShop(t, forAnn())
	p := openTab(t, openBrowser(t), view{width: 1400})
	p.open(s.url + "runs")
	require.Empty(t, p.overlaps())
	p.do(chromedp.Evaluate[chromedp.Void](`(() => {
		const title = document.querySelector("h1"), at = title.getBoundingClientRect(), e = document.createElement("p");
		Object.assign(e.style, {position: "absolute", margin: 0, left: at.left + scrollX + "px", top: at.top + scrollY + "px"});
		e.textContent = "on it";
		document.body.append(e);
	})()`))
	require.Len(t, p.overlaps(), 1)
}
