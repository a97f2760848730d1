package browsertest

import (
	"bytes"
	"compress/gzip"
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

var shots = flag.String("browser.shots", "", "keep a PNG of every page in this `folder`")

// required is the variable of the environment that makes an error of a missing browser.
const required = "PAWL_BROWSER"

var chromium = sync.OnceValues(func() (string, error) {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("there is no Chromium: install it (apt-get install chromium)")
})

// endBrowser ends the browser of all tests, once it is there.
var endBrowser = func() {}

func TestMain(m *testing.M) {
	status := m.Run()
	endBrowser()
	os.Exit(status)
}

// startBrowser starts the browser of all tests.
var startBrowser = sync.OnceValues(func() (context.Context, error) {
	path, err := chromium()
	if err != nil {
		return nil, err
	}
	allocator, end := chromedp.NewExecAllocator(context.Background(), append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox,
		chromedp.WSURLReadTimeout(patience))...)
	ctx, cancel := chromedp.NewContext(allocator)
	endBrowser = func() { cancel(); end() }
	return ctx, chromedp.Do(ctx)
})

// openBrowser returns the browser of all tests. The tabs that are opened in it know nothing of each other, as if each had a
// browser of its own; a tab that is opened in another one shares its connections and what it keeps.
func openBrowser(t *testing.T) context.Context {
	t.Helper()
	_, err := chromium()
	if err != nil && os.Getenv(required) != "required" {
		t.Skip(err)
	}
	ctx, err := startBrowser()
	require.NoError(t, err)
	return ctx
}

// A view is how a person looks at a page.
type view struct {
	width  int64 // pixels
	dark   bool
	static bool // without JavaScript
}

// String returns a view as names of files have it.
func (v view) String() string {
	theme := "light"
	if v.dark {
		theme = "dark"
	}
	return fmt.Sprintf("%s-%d", theme, v.width)
}

// A tab is one page of a browser. It keeps the complaints of the browser.
type tab struct {
	t   *testing.T
	ctx context.Context

	static bool // timers and frames of the page do not come

	mu         sync.Mutex
	complaints []string
}

// openTab opens a tab that looks at pages as v says.
func openTab(t *testing.T, browser context.Context, v view) *tab {
	t.Helper()
	var options []chromedp.ContextOption
	if chromedp.FromContext(browser).BrowserContextID == "" {
		options = append(options, chromedp.WithNewBrowserContext())
	}
	ctx, cancel := chromedp.NewContext(browser, options...)
	t.Cleanup(cancel)
	p := &tab{t: t, ctx: ctx, static: v.static}
	require.NoError(t, chromedp.Listen(ctx, p.hear))
	p.do(command(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: v.static}),
		command(log.Enable, cdp.Empty{}))
	p.changeView(v)
	return p
}

// changeView lets the tab look at its page as v says, but for scripts, without loading it anew.
func (p *tab) changeView(v view) {
	p.t.Helper()
	scheme := "light"
	if v.dark {
		scheme = "dark"
	}
	p.do(chromedp.EmulateViewport(v.width, 900),
		command(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
			{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"},
		}}))
	p.await(fmt.Sprintf(`innerWidth === %d && matchMedia("(prefers-color-scheme: %s)").matches`, v.width, scheme))
}

// command is an action that sends one command of the protocol.
func command[P, R any](c cdp.Command[P, R], params P) chromedp.Action[chromedp.Void] {
	return func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
		_, err := cdp.Call(ctx, t, c, params)
		return chromedp.Void{}, err
	}
}

// hear keeps what is an error: of scripts, of the policy, of the network.
func (p *tab) hear(event any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		p.complaints = append(p.complaints, fmt.Sprint(e.ExceptionDetails.Text, " ", e.ExceptionDetails.Exception))
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError {
			p.complaints = append(p.complaints, fmt.Sprint(e.Entry.Text, " ", e.Entry.URL))
		}
	}
}

// heard returns what the browser complained of since the last call.
func (p *tab) heard() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := p.complaints
	p.complaints = nil
	return out
}

// patience is a time that no page and no browser takes on the busiest machine.
const patience = 5 * time.Minute

// do performs actions.
func (p *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	require.NoError(p.t, chromedp.Do(ctx, steps...))
}

// open goes to an address.
func (p *tab) open(url string) {
	p.t.Helper()
	p.do(chromedp.Navigate(url))
}

// evaluate returns the value of an expression, or what its promise becomes.
func evaluate[T any](p *tab, expression string) T {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	out, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	require.NoError(p.t, err, expression)
	return out
}

// await returns when an expression is true, which is looked at before every frame.
func (p *tab) await(expression string) {
	p.t.Helper()
	if p.static {
		require.True(p.t, evaluate[bool](p, expression), expression)
		return
	}
	evaluate[bool](p, `new Promise(done => { const look = () => `+expression+` ? done(true) : requestAnimationFrame(look); look() })`)
}

// shoot keeps a picture of the whole page, if there is a folder for them.
func (p *tab) shoot(name string) {
	p.t.Helper()
	if *shots == "" {
		return
	}
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	png, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
	require.NoError(p.t, err)
	require.NoError(p.t, os.MkdirAll(*shots, 0o755))
	require.NoError(p.t, os.WriteFile(fmt.Sprintf("%s/%s.png", *shots, name), png, 0o600))
}

//go:embed testdata/axe-4.14.1.min.js.gz
var axePacked []byte

var axe = sync.OnceValues(func() (string, error) {
	r, err := gzip.NewReader(bytes.NewReader(axePacked))
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(r)
	return string(text), err
})

// violations returns what axe-core finds wrong on a page, one line each.
func (p *tab) violations() []string {
	p.t.Helper()
	text, err := axe()
	require.NoError(p.t, err)
	if !evaluate[bool](p, `typeof axe === "object"`) {
		evaluate[chromedp.Void](p, text+"\nvoid 0")
	}
	return evaluate[[]string](p, `axe.run({resultTypes: ["violations"], preload: false}).then(r => r.violations.flatMap(v => v.nodes.map(n => v.id + ": " + n.target.join(" ") + ": " + n.failureSummary)))`)
}

// cutOff returns the elements whose text the page cuts or that reach beyond its sides.
func (p *tab) cutOff() []string {
	p.t.Helper()
	return evaluate[[]string](p, `(() => {
		const out = [], width = document.documentElement.clientWidth;
		if (document.scrollingElement.scrollWidth > width) out.push("the page is " + document.scrollingElement.scrollWidth + " wide, the window " + width);
		const scrolls = e => { for (; e; e = e.parentElement) if (/auto|scroll|hidden/.test(getComputedStyle(e).overflowX)) return true; return false };
		for (const e of document.querySelectorAll("main *, header *")) {
			const r = e.getBoundingClientRect();
			if (r.width === 0 || r.height === 0 || e.closest("svg")) continue;
			if (r.right > width + 1 && !scrolls(e)) out.push(e.tagName + " " + e.className + " ends at " + Math.round(r.right));
		}
		return out.slice(0, 10);
	})()`)
}
