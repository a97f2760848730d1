package browsertest

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/inspector"
	"github.com/pawl-run/pawl/workflow"
)

// TestPages opens every page that a link leads to, light and dark, on a telephone and on a
// screen: the browser complains of nothing, axe-core finds nothing, no text is cut, and what
// is hostile stays text.
func TestPages(t *testing.T) {
	s := openShop(t, inspector.Options{Name: "the shop " + hostile})
	s.start(t, "import", "import", map[string]any{"files": slices.Repeat([]any{"a.csv"}, 40)})
	s.await(t, "import", workflow.EventTaskCompleted, 20)
	browser := openBrowser(t)
	var pages []string
	for i, v := range []view{{width: 1400}, {width: 360, dark: true}, {width: 1400, dark: true}, {width: 360}} {
		t.Run(v.String(), func(t *testing.T) {
			p := openTab(t, browser, v)
			if pages == nil {
				pages = s.crawl(p)
				require.Greater(t, len(pages), 20)
			}
			for _, page := range pages {
				p.open(s.url + page)
				assert.Empty(t, p.cutOff(), page)
				if i < 2 { // the other two differ in width or colours only
					assert.Empty(t, p.violations(), page)
				}
				assert.Empty(t, p.heard(), page)
				assert.NotEqual(t, "owned", evaluate[string](p, "document.title"), page)
				p.shoot(v.String() + "-" + fileName(page))
			}
		})
	}
}

// crawl returns the addresses, below that of the shop, of one page of every kind that links
// lead to: of several tokens, nodes, records or runs, the first two.
func (s *shop) crawl(p *tab) []string {
	p.t.Helper()
	seen, kinds := map[string]bool{}, map[string]int{}
	var pages []string
	for queue := []string{""}; len(queue) > 0; queue = queue[1:] {
		page := queue[0]
		if seen[page] {
			continue
		}
		seen[page] = true
		if kinds[kindOf(page)]++; kinds[kindOf(page)] > 2 {
			continue
		}
		pages = append(pages, page)
		p.open(s.url + page)
		for _, link := range evaluate[[]string](p, `[...document.querySelectorAll("a[href]")].map(a => typeof a.href === "string" ? a.href : new URL(a.href.baseVal, document.baseURI).href)`) {
			link, _, _ = strings.Cut(link, "#")
			require.True(p.t, strings.HasPrefix(link, s.url), "%s links to %s", page, link)
			queue = append(queue, strings.TrimPrefix(link, s.url))
		}
	}
	return pages
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
	keys := []string{values.Get("view")}
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
	}, page)
}
