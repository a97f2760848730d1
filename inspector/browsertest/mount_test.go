package browsertest

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/inspector"
	"github.com/pawl-run/pawl/workflow"
)

const families = `
name: family
start: child
nodes:
  - {id: child, subworkflow: {name: order}, input: {customer: input.customer, amount: input.amount}}
`

// startProxy returns the address of a server that passes on what comes below one prefix to what
// is below another address. It decodes paths and encodes them anew, as some proxies do, and it
// says who asks.
func startProxy(t *testing.T, prefix, to string) string {
	t.Helper()
	upstream, err := url.Parse(to)
	require.NoError(t, err)
	proxy := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = upstream.Scheme, upstream.Host, upstream.Host
		r.Out.URL.Path, r.Out.URL.RawPath = upstream.Path+strings.TrimPrefix(r.In.URL.Path, prefix), ""
		r.SetXForwarded()
		r.Out.Header.Set("X-User", "ann")
	}})
	t.Cleanup(proxy.Close)
	return strings.Replace(proxy.URL, "127.0.0.1", "localhost", 1) + prefix
}

// TestBehindTwoProxies: below a prefix that is another one at each of two proxies, and under the
// name of another host, all links, the stream and the forms work.
func TestBehindTwoProxies(t *testing.T) {
	inside := openShop(t, inspector.Options{Identify: func(r *http.Request) (string, api.Rights, error) {
		if r.Header.Get("X-User") == "" {
			return "", 0, errors.New("nobody has signed in")
		}
		return r.Header.Get("X-User"), api.All, nil
	}})
	d, err := workflow.ParseYAML([]byte(families))
	require.NoError(t, err)
	_, err = inside.engine.Publish(t.Context(), d)
	require.NoError(t, err)
	inside.start(t, "family", "family", map[string]any{"customer": "Ada", "amount": 9000})
	inside.await(t, "family", workflow.EventSubworkflowStarted, 1)
	inside.startImport(t, "import", 12)
	outside := &shop{engine: inside.engine, url: startProxy(t, "/team/tools/", startProxy(t, "/inner/", inside.url))}
	pages := outside.crawl(t, "run/family?view=family", "")
	require.Contains(t, strings.Join(pages, "\n"), "run/family/")

	p := openTab(t, openBrowser(t), view{width: 1400})
	p.open(outside.url + "run/family?view=family")
	p.step("j", "family/")
	p.follow(kb.Enter)
	require.Contains(t, evaluate[string](p, `location.pathname`), "/team/tools/run/family/")
	p.follow("gr")
	p.click(`input[name=status][value=running] + span`)
	p.clickThrough(`.filters .primary`)
	p.step("j", "import")
	p.follow(kb.Enter)
	for _, key := range inside.openTasks(t, "import") {
		require.NoError(t, inside.engine.Complete(t.Context(), key, nil))
	}
	p.await(`document.querySelector("#nodes tr[data-node=load]").textContent.includes("11 done")`)
	p.clickThrough(`button[value=dark]`)
	require.Equal(t, outside.url+"run/import", evaluate[string](p, `location.href`))
	require.Equal(t, "dark", evaluate[string](p, `getComputedStyle(document.documentElement).colorScheme`))

	p.follow("gi")
	p.clickThrough(`.card.parked a[href*="do=retry"]`)
	p.giveReason("the file is whole again")
	require.Contains(t, evaluate[string](p, `document.querySelector("main .told").innerText`), "It is done: retried.")
	require.True(t, strings.HasPrefix(evaluate[string](p, `location.href`), outside.url+"inbox"))
	require.Empty(t, p.heard())
}
