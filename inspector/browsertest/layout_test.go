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

// uneven returns what does not stand where its neighbours stand: blocks of a page that begin elsewhere than its title, lines of a row that
// begin elsewhere than its first line, and figures of cards in a row that stand higher than others. Beside each other there are columns:
// only in a narrow window do all blocks begin at one edge.
func (p *tab) uneven() []string {
	p.t.Helper()
	return evaluate[[]string](p, `(() => {
		const out = [], edge = document.querySelector("h1").getBoundingClientRect().left, narrow = innerWidth < 700;
		const name = e => e.tagName + " " + e.className + " " + e.textContent.trim().slice(0, 30);
		const blocks = narrow ? ":scope > *, :scope > section > *, :scope > .columns > section > *, :scope > .split > section > *, :scope > form:not(.filters, .ask, .slider) > *" : ":scope > *, :scope > section > *";
		for (const e of document.getElementById("main").querySelectorAll(blocks)) {
			const r = e.getBoundingClientRect();
			if (r.width > 0 && e.checkVisibility() && !e.matches(".made, input, .why > *, .moment > *") && Math.abs(r.left - edge) > 0.6) out.push(name(e) + " begins at " + r.left + ", the page at " + edge);
		}
		for (const row of narrow ? [...document.querySelectorAll("main .rows:not(.node-times) tbody tr")].slice(0, 20) : []) {
			if (row.querySelector(".pickbox input")) continue;
			const box = row.getBoundingClientRect(), range = document.createRange();
			let bottom = -Infinity;
			for (const cell of row.cells) {
				range.selectNodeContents(cell);
				const r = [...range.getClientRects()].find(r => r.width > 0 && r.height > 0);
				if (!r || cell.getBoundingClientRect().top < bottom - 8) continue; // it stands beside the one before
				bottom = cell.getBoundingClientRect().bottom;
				if (cell.dataset.label) continue; // which stands before the text
				if (Math.abs(r.left - box.left - parseFloat(getComputedStyle(row).paddingLeft)) > 1) out.push(name(cell) + " is indented by " + (r.left - box.left));
			}
		}
		for (const [cards, figure] of [[".need a", "b"], [".facts > div", "dd"]]) {
			const rows = new Map();
			for (const card of document.querySelectorAll(cards)) {
				const top = Math.round(card.getBoundingClientRect().top), at = card.querySelector(figure).getBoundingClientRect().top;
				if (rows.has(top) && Math.abs(rows.get(top) - at) > 0.6) out.push(name(card) + " has its figure at " + at + ", others at " + rows.get(top));
				rows.set(top, at);
			}
		}
		for (const here of document.querySelectorAll(".top nav [aria-current], .tabs [aria-current]")) {
			const r = here.getBoundingClientRect(), row = here.parentElement.getBoundingClientRect();
			if (r.left < row.left - 1 || r.right > row.right + 1) out.push(name(here) + " is out of sight");
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
