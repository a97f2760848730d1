package browsertest

import (
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/inspector"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/workflow"
)

// views are how people look: the first loads a page, the others look at it as it is then.
var views = []view{{width: 1400}, {width: 360}, {width: 1400, dark: true}, {width: 360, dark: true}}

// TestPages opens every page that a link leads to, and looks at it light and dark, as on a
// telephone and on a screen: the browser complains of nothing, axe-core finds nothing, no text
// is cut or stands on another, and what is hostile stays text. Quick runs of four days open them all.
func TestPages(t *testing.T) {
	s := openShop(t, inspector.Options{Name: "the shop " + hostile, Identify: inspector.FromThisMachine("ann "+hostile, api.All)})
	s.start(t, "import", "import", map[string]any{"files": slices.Repeat([]any{"a.csv"}, 40)})
	s.await(t, "import", workflow.EventTaskCompleted, 20)
	patch := url.Values{"do": {"patch"}, "target": {"0 approval"}, "value": {`[{"op": "add", "path": "/nodes/approve/timeout", "value": "1h"}, {"op": "add", "path": "/nodes/tell", "value": {"task": "tell"}},
		{"op": "add", "path": "/transitions/t", "value": {"from": "approve", "to": "tell", "priority": 9}}]`}}
	pages := s.crawl(t, "", "diff?a=parked&b=done", "act?"+patch.Encode(), "act?all=1&do=cancel&prefix=a")
	require.Greater(t, len(pages), 60)
	pages = harness.SampleOfDay(t, harness.Figure(4, 2, 1), pages)
	browser := openBrowser(t)
	const tabs = 2
	for i := range tabs {
		t.Run(fmt.Sprintf("tab %d", i), func(t *testing.T) {
			t.Parallel()
			p := openTab(t, browser, views[0])
			for n := i; n < len(pages); n += tabs {
				p.inspect(s.url, pages[n])
			}
		})
	}
}

// inspect opens a page once and looks at it in every view. axe-core looks at it in both
// themes, once wide and once narrow: what it finds depends on nothing else.
func (p *tab) inspect(root, page string) {
	p.t.Helper()
	p.changeView(views[0])
	p.open(root + page)
	for i, v := range views {
		if i > 0 {
			p.changeView(v)
			evaluate[bool](p, `new Promise(done => requestAnimationFrame(() => done(true)))`) // the page hears of its size before a frame
		}
		assert.Empty(p.t, p.cutOff(), "%s %s", v, page)
		assert.Empty(p.t, p.overlaps(), "%s %s", v, page)
		assert.Empty(p.t, p.uneven(), "%s %s", v, page)
		assert.LessOrEqual(p.t, evaluate[int](p, `new Set([...document.querySelectorAll(".top nav a")].map(a => a.offsetTop)).size`), 2, "rows of links: %s %s", v, page)
		if v.dark == (v.width == 360) {
			assert.Empty(p.t, p.violations(), "%s %s", v, page)
		}
		p.shoot(v.String() + "-" + fileName(page))
	}
	assert.Empty(p.t, p.heard(), page)
	assert.NotEqual(p.t, "owned", evaluate[string](p, "document.title"), page)
}

var hrefs = regexp.MustCompile(`<a\b[^>]* href="([^"]*)"`)

// crawl returns the addresses, below that of the shop, of one page of every kind that links
// lead to from these pages: of several tokens, nodes, records or runs, the first two.
func (s *shop) crawl(t *testing.T, queue ...string) (pages []string) {
	t.Helper()
	seen, kinds := map[string]bool{}, map[string]int{}
	for ; len(queue) > 0; queue = queue[1:] {
		page := queue[0]
		if seen[page] {
			continue
		}
		seen[page] = true
		if kinds[kindOf(page)]++; kinds[kindOf(page)] > 2 {
			continue
		}
		pages = append(pages, page)
		base, err := url.Parse(s.url + page)
		require.NoError(t, err)
		status, body := get(t, base.String())
		require.Equal(t, http.StatusOK, status, page)
		for _, match := range hrefs.FindAllStringSubmatch(body, -1) {
			link, err := base.Parse(html.UnescapeString(match[1]))
			require.NoError(t, err)
			link.Fragment, link.RawFragment = "", ""
			if link.Query().Get("view") == "trace" { // a file that the browser keeps, and no page
				continue
			}
			require.True(t, strings.HasPrefix(link.String(), s.url), "%s links to %s", page, link)
			queue = append(queue, strings.TrimPrefix(link.String(), s.url))
		}
	}
	return pages
}

// get returns what is answered at an address.
func get(t *testing.T, address string) (status int, body string) {
	t.Helper()
	response, err := http.Get(address)
	require.NoError(t, err)
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	return response.StatusCode, string(text)
}

// kindOf returns what pages have in common that differ in what they show.
func kindOf(page string) string {
	path, query, _ := strings.Cut(page, "?")
	if rest, ok := strings.CutPrefix(path, "run/"); ok {
		path = "run/"
		if rest == "import" {
			path = "run/import"
		}
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return page
	}
	keys := []string{values.Get("view"), values.Get("do")}
	for key := range values {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return path + strings.Join(keys, " ")
}

// fileName returns an address as the name of a file.
func fileName(page string) string {
	return "page-" + strings.Map(func(r rune) rune {
		if strings.ContainsRune("/?&=% ", r) {
			return '-'
		}
		return r
	}, page[:min(len(page), 150)])
}
