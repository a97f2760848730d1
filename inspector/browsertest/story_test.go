package browsertest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/inspector"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/schedule"
	"github.com/pawl-run/pawl/workflow"
)

// forAnn lets every reader act as ann.
func forAnn() inspector.Options {
	return inspector.Options{Identify: inspector.FromThisMachine("ann", api.All)}
}

// TestStoryByKeys: by keys alone somebody finds the run that failed and sees why, finds the task
// that is parked, sees why, retries it for a reason, and answers an approval.
func TestStoryByKeys(t *testing.T) {
	s := openShop(t, forAnn())
	p := openTab(t, openBrowser(t), view{width: 1400})
	p.open(s.url)
	p.step("j", "failed")
	p.follow(kb.Enter)
	p.step("j", "failed")
	p.follow(kb.Enter)
	require.Contains(t, evaluate[string](p, `document.getElementById("why").innerText`), "no street")

	p.follow("gr")
	p.press("/")
	p.await(`document.activeElement.id === "find"`)
	p.press("park")
	p.follow(kb.Enter)
	p.step("j", "parked")
	p.follow(kb.Enter)
	p.press("w")
	require.Equal(t, "ship", p.focused())
	require.Contains(t, evaluate[string](p, `document.getElementById("why").innerText`), "carrier_down")
	p.step(kb.Tab, "How it came here")
	p.press(kb.Enter)
	p.await(`document.activeElement.parentElement.open`)
	p.press(" ")
	p.await(`!document.activeElement.parentElement.open`)
	p.press("w")
	p.follow(kb.Enter)
	p.step(kb.Tab, "Retry task…")
	p.follow(kb.Enter)
	p.giveReason("the carrier is back")
	require.Contains(t, evaluate[string](p, `document.querySelector("main .told").innerText`), "It is done: retried.")

	p.follow("gi")
	p.step("j", "approve")
	p.step(kb.Tab, "Approve request…")
	p.follow(kb.Enter)
	p.giveReason("a good customer")
	require.Contains(t, evaluate[string](p, `document.querySelector("main .told").innerText`), "It is done: approved.")
	require.Empty(t, p.heard())
	s.requireStory(t)
}

// TestStoryWithoutScripts: the same story with a mouse, in a browser that executes no scripts,
// and everything else that has a form: filters, the slider, colours, acts on many, a signal.
func TestStoryWithoutScripts(t *testing.T) {
	s := openShop(t, forAnn())
	p := openTab(t, openBrowser(t), view{width: 1400, static: true})
	p.open(s.url + "runs")
	require.Equal(t, "undefined", evaluate[string](p, `typeof window.Idiomorph`))
	p.click(`input[name=status][value=failed] + span`)
	p.fill(`#find`, "fai")
	p.clickThrough(`.filters .primary`)
	require.Equal(t, []string{"failed"}, evaluate[[]string](p, `[...document.querySelectorAll("main tbody a")].map(a => a.textContent)`))
	p.clickThrough(`main tbody a`)
	require.Contains(t, evaluate[string](p, `document.getElementById("why").innerText`), "no street")
	p.click(`#record`)
	p.press(kb.Home)
	p.clickThrough(`#slider button`)
	require.Contains(t, evaluate[string](p, `location.search`), "at=1")
	require.Contains(t, evaluate[string](p, `document.getElementById("moment").innerText`), "start-run")

	p.clickThrough(`button[value=dark]`)
	require.Contains(t, evaluate[string](p, `location.search`), "at=1")
	require.Equal(t, "dark", evaluate[string](p, `getComputedStyle(document.documentElement).colorScheme`))

	p.clickThrough(`nav a[href$=inbox]`)
	p.click(`.card.parked input[name=target]`)
	p.clickThrough(`button[value=retry]`)
	require.Contains(t, evaluate[string](p, `document.querySelector(".effect").innerText`), "ship is begun")
	p.fill(`input[name=reason]`, "the carrier is back")
	p.clickThrough(`.ask .primary`)
	p.clickThrough(`nav a[href$=inbox]`)
	p.clickThrough(`.card.waiting a[href*="do=approve"]`)
	p.fill(`input[name=reason]`, "a good customer")
	p.clickThrough(`.ask .primary`)
	require.Contains(t, evaluate[string](p, `document.querySelector("main .told").innerText`), "It is done: approved.")

	p.open(s.url + "act?do=fork&target=0+failed&at=1&name=again")
	p.fill(`input[name=reason]`, "to see it once more")
	p.clickThrough(`.ask .primary`)
	require.Equal(t, "again", evaluate[string](p, `document.querySelector("h1").textContent`))
	s.requireStory(t)
}

// requireStory requires that the parked task was retried and the approval answered, by ann and
// for the reasons that she gave, and that both runs have ended well.
func (s *shop) requireStory(t *testing.T) {
	t.Helper()
	for id, reason := range map[workflow.RunID]string{"parked": "the carrier is back", "approval": "a good customer"} {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		_, err := s.engine.Wait(ctx, id)
		require.NoError(t, err)
		told := ""
		for r, err := range s.engine.Journal(ctx, id, pawl.EventsOptions{}) {
			require.NoError(t, err)
			text, err := json.Marshal(r.Message)
			require.NoError(t, err)
			told += string(text)
		}
		require.Contains(t, told, "ann", id)
		require.Contains(t, told, reason, id)
	}
}

// TestADoubleClickActsOnce: a second click while the answer to the first is under way does not act a second time, also in a browser
// that executes no scripts, and leads where the first one would have led.
func TestADoubleClickActsOnce(t *testing.T) {
	s := openShop(t, forAnn())
	d, err := workflow.ParseYAML([]byte("name: waits\nstart: a\nnodes: [{id: a, wait: {event: go}}, {id: b, wait: {event: go}}, {id: c, wait: {event: go}}]\ntransitions: [{from: a, to: b}, {from: b, to: c}]"))
	require.NoError(t, err)
	require.NoError(t, s.engine.Start(t.Context(), workflow.Run{ID: "waits", Definition: d}, nil))
	_, err = s.engine.Publish(t.Context(), d)
	require.NoError(t, err)
	nightly := schedule.Schedule{ID: "nightly", Workflow: schedule.Workflow{Name: "waits"}, Every: 24 * time.Hour, Overlap: schedule.OverlapAllow}
	_, err = s.engine.Schedules().Apply(t.Context(), []schedule.Schedule{nightly}, pawl.ApplyOptions{})
	require.NoError(t, err)
	browser := openBrowser(t)
	doubleClick := func(address string, v view) {
		var posts atomic.Int32
		first, second := make(chan bool, 1), make(chan bool)
		front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				switch posts.Add(1) {
				case 1:
					first <- true
					<-second
				case 2:
					close(second)
				}
			}
			s.handler.ServeHTTP(w, r)
		}))
		t.Cleanup(front.Close)
		p := openTab(t, browser, v)
		p.open(front.URL + "/ops/" + address)
		p.fill(`input[name=reason]`, "paid")
		click := p.clickAction(`.ask .primary`)
		p.do(click)
		receive(t, first)
		p.do(click, chromedp.WaitReady(`main .told`))
		require.Contains(t, evaluate[string](p, `document.querySelector("main .told").innerText`), "It is done: ")
	}
	doubleClick("act?do=signal&target=0+waits&name=go", view{width: 1400})
	doubleClick("schedule-act?do=trigger&id=nightly", view{width: 1400, static: true})
	begun := 0
	for r, err := range s.engine.Runs(t.Context(), pawl.RunFilter{Workflow: "waits"}) {
		require.NoError(t, err)
		begun++
		if r.Run == "waits" {
			require.EqualValues(t, 2, r.Seq, "a start and one signal")
		}
	}
	require.Equal(t, 2, begun, "one of the schedule")
}

// TestFocus walks through pages with Tab: everything that can be used is reached in the order
// in which it stands, can be seen and is marked while it has the focus, and nothing keeps it. Quick runs of three days walk
// through them all.
func TestFocus(t *testing.T) {
	s := openShop(t, forAnn())
	s.startImport(t, "import", 12)
	p := openTab(t, openBrowser(t), view{width: 1400})
	pages := []string{"", "runs", "inbox", "definitions?workflow=order", "run/parked", "run/parked?at=2", "run/import?view=group&group=1", "act?do=retry&target=2+parked", "act?do=signal&target=0+parked"}
	for _, page := range harness.SampleOfDay(t, harness.Figure(3, 2, 1), pages) {
		p.open(s.url + page)
		p.await(`(e => !e || e === document.activeElement)(document.querySelector("[autofocus]"))`) // the browser sets it in a task of its own
		n := evaluate[int](p, `(() => {
			window.stops = [...document.querySelectorAll("a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex='0']")].filter(e => e.tabIndex >= 0 && e.checkVisibility({visibilityProperty: true}));
			return window.stops.length;
		})()`)
		require.Greater(t, n, 8, page)
		first := evaluate[int](p, `window.stops.indexOf(document.activeElement)`)
		for i := first + 1; i < n; i++ {
			p.press(kb.Tab)
			require.Equal(t, i, evaluate[int](p, `window.stops.indexOf(document.activeElement)`), "%s: %s", page, p.focused())
			p.requireMarked(page)
		}
		p.press(kb.Tab)
		require.Contains(t, []int{-1, 0}, evaluate[int](p, `window.stops.indexOf(document.activeElement)`), page)
	}
}

// TestKeysAreTold: the list of keys that ? opens is that of docs/inspector.md, Escape closes it,
// and the keys that are left over from the story do what it says.
func TestKeysAreTold(t *testing.T) {
	s := openShop(t, forAnn())
	s.start(t, "import", "import", map[string]any{"files": slices.Repeat([]any{"a.csv"}, 12)})
	s.await(t, "import", workflow.EventTaskParked, 1)
	p := openTab(t, openBrowser(t), view{width: 1400})
	p.open(s.url)
	p.press("?")
	p.await(`document.getElementById("keys").open`)
	told := evaluate[[]string](p, `[...document.querySelectorAll("#keys dt")].map(dt => [...dt.children].map(k => k.textContent).join(" "))`)
	p.press(kb.Escape)
	p.await(`!document.getElementById("keys").open`)
	assert.ElementsMatch(t, documentedKeys(t), told)

	for keys, page := range map[string]string{"gh": "", "gr": "runs", "gi": "inbox", "gd": "definitions", "gp": "workers", "gs": "schedules", "ge": "engine"} {
		p.follow(keys)
		require.Equal(t, s.url+page, evaluate[string](p, `location.href`))
	}
	p.open(s.url + "run/parked?at=2")
	for _, step := range [][2]string{{"[", "run/parked?at=1"}, {"]", "run/parked?at=2"}, {"u", "runs"}} {
		p.follow(step[0])
		require.Equal(t, s.url+step[1], evaluate[string](p, `location.href`))
	}
	p.press("/")
	p.press("j")
	p.press(kb.Escape)
	require.Empty(t, p.focused()) // and the browser has cleared the field
	first := evaluate[string](p, `document.querySelector("main tbody a").textContent`)
	for _, step := range [][2]string{{"j", first}, {"j", evaluate[string](p, `document.querySelectorAll("main tbody tr")[1].querySelector("a").textContent`)}, {"k", first}} {
		p.press(step[0])
		require.Equal(t, step[1], p.focused())
	}
	p.open(s.url + "run/import?view=group&group=1")
	p.follow("n")
	require.Contains(t, evaluate[string](p, `document.querySelector("main").innerText`), "broken_file")
}

// documentedKeys returns the keys that docs/inspector.md has a line for.
func documentedKeys(t *testing.T) (keys []string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/inspector.md")
	require.NoError(t, err)
	_, table, ok := strings.Cut(string(text), "| key | |\n|---|---|\n")
	require.True(t, ok)
	table, _, _ = strings.Cut(table, "\n\n")
	for line := range strings.Lines(table) {
		keys = append(keys, regexp.MustCompile("^\\| `(.+?)` \\|").FindStringSubmatch(line)[1])
	}
	return keys
}

// typing is an action that types keys as a keyboard does: if the page itself acts on a key, that
// types no text. With chromedp.KeyEvent it does.
func typing(keys string) chromedp.Action[chromedp.Void] {
	return func(ctx context.Context, t *chromedp.Target) (none chromedp.Void, err error) {
		for _, r := range keys {
			events := kb.Encode(r)
			if len(events) == 3 {
				events[0].Text, events[0].UnmodifiedText = events[1].Text, events[1].UnmodifiedText
				events = slices.Delete(events, 1, 2)
			}
			for _, e := range events {
				if _, err := cdp.Call(ctx, t, input.DispatchKeyEvent, *e); err != nil {
					return none, err
				}
			}
		}
		return none, nil
	}
}

// press types keys.
func (p *tab) press(keys string) {
	p.t.Helper()
	p.do(typing(keys))
}

// follow types keys that lead to a page, and returns when it is there.
func (p *tab) follow(keys string) {
	p.t.Helper()
	p.followAction(typing(keys), strconv.Quote(keys))
}

func (p *tab) followAction(a chromedp.Action[chromedp.Void], what string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	response, err := chromedp.RunResponse(ctx, a)
	require.NoError(p.t, err, "nothing is loaded after %s", what)
	require.EqualValues(p.t, http.StatusOK, response.Status, "%s after %s", response.URL, what)
}

// focused returns the text of what has the focus; "" if nothing has.
func (p *tab) focused() string {
	p.t.Helper()
	return evaluate[string](p, `document.activeElement === document.body ? "" : (document.activeElement.innerText || document.activeElement.textContent || document.activeElement.name || document.activeElement.tagName).trim()`)
}

// step types a key until what has the focus holds a text. On the way everything is marked.
func (p *tab) step(key, want string) {
	p.t.Helper()
	var way []string
	for range 200 {
		p.press(key)
		p.requireMarked(want)
		text := p.focused()
		if strings.Contains(text, want) {
			return
		}
		way = append(way, text)
	}
	p.t.Fatalf("%q leads to no %q, but to %q", key, want, way)
}

// requireMarked requires that what has the focus is in the window and looks otherwise than
// without it.
func (p *tab) requireMarked(why string) {
	p.t.Helper()
	require.Empty(p.t, evaluate[string](p, `(() => {
		const e = document.activeElement, r = e.getBoundingClientRect(), name = e.outerHTML.slice(0, 200);
		if (e === document.body) return "nothing has the focus";
		if (r.bottom < 0 || r.top > innerHeight || r.right < 0 || r.left > innerWidth) return "out of sight: " + name;
		const look = () => [e, e.nextElementSibling, ...e.querySelectorAll("*")].filter(Boolean).map(x => { const s = getComputedStyle(x); return s.outline + s.boxShadow + s.stroke + s.strokeWidth }).join();
		const marked = look();
		e.blur();
		const plain = look();
		e.focus({focusVisible: true, preventScroll: true});
		return marked === plain ? "not marked: " + name : "";
	})()`), why)
}

// giveReason writes why, which has the focus already, and sends the form.
func (p *tab) giveReason(reason string) {
	p.t.Helper()
	p.await(`document.activeElement.name === "reason"`)
	p.press(reason)
	p.follow(kb.Enter)
}

// clickAction is an action that clicks in the middle of what a selector finds.
func (p *tab) clickAction(selector string) chromedp.Action[chromedp.Void] {
	p.t.Helper()
	at := evaluate[[]float64](p, fmt.Sprintf(`(() => {
		const e = document.querySelector(%q);
		if (!e) return [];
		e.scrollIntoView({block: "center", behavior: "instant"});
		const r = e.getClientRects()[0], x = r.x + r.width / 2, y = r.y + r.height / 2, there = document.elementFromPoint(x, y);
		return e === there || e.contains(there) ? [x, y] : [];
	})()`, selector))
	require.Len(p.t, at, 2, "there is nothing to click at %s", selector)
	return chromedp.MouseClickXY(at[0], at[1])
}

// click clicks what a selector finds.
func (p *tab) click(selector string) {
	p.t.Helper()
	p.do(p.clickAction(selector))
}

// clickThrough clicks what a selector finds, and returns when the page that it leads to is there.
func (p *tab) clickThrough(selector string) {
	p.t.Helper()
	p.followAction(p.clickAction(selector), selector)
}

// fill clicks a field and writes into it.
func (p *tab) fill(selector, text string) {
	p.t.Helper()
	p.click(selector)
	p.press(text)
}
