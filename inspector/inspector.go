// Package inspector is a web page on which people look at the runs of an engine: what needs
// them, where every run stands, why it stands there, and how it came there.
//
//	http.Handle("/ops/", http.StripPrefix("/ops", inspector.Handler(engine, inspector.Options{})))
//
// It works below any path and behind any proxy, since all its links are relative; below a path
// that ends in a slash, as above. Its pages are made by the server and can be read and used
// without JavaScript. A GET changes nothing. Values of runs are shown as text, never as HTML,
// under a strict Content-Security-Policy.
package inspector

import (
	"crypto/rand"
	"embed"
	"errors"
	"html/template"
	"io/fs"
	"net/http"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/crowd"
	"github.com/pawl-run/pawl/internal/fair"
	"github.com/pawl-run/pawl/internal/loopback"
	"github.com/pawl-run/pawl/replay"
	"github.com/pawl-run/pawl/workflow"
)

// Options say how an inspector is shown. The zero value is one for the own machine.
type Options struct {
	// Name stands at the top of every page, such as "shop, production".
	Name string
	// Identify says who sends a request, from what the host knows: a session, a certificate, a
	// header that its proxy sets. Acts are done in that name; with "" the reader who acts gives
	// one. An error is answered with 401. It is called once for each request, from any goroutine,
	// and every 15 s for the stream of a page, which ends if the rights are not the same any more.
	//
	// Without it the pages serve requests from a loopback address to a loopback host which have
	// come through no proxy, for reading only.
	Identify func(*http.Request) (who string, rights api.Rights, err error)
	// Redact returns what is shown in place of a value of a run, at a path such as
	// output.card.number or state.items[3]: the value itself, another one, or nil. It is asked for
	// every value and then for those in what it has returned. Texts in which values stand, such as
	// messages of errors, are left out if it is set. It must not modify what it gets.
	Redact func(run workflow.RunID, path string, value any) any
}

// Handler returns the pages that show the runs of an engine, and with the right Act change them: after a page that shows the consequences,
// in somebody's name and for a reason.
func Handler(engine *pawl.Engine, o Options) http.Handler { return newServer(engine, o) }

// newServer is what Handler and Local have in common. No goroutine runs until somebody watches a page.
func newServer(engine *pawl.Engine, o Options) *server {
	s := &server{
		effort: pageEffort, tokens: cellsTokens,
		bounds: crowd.NewBounds(0, 0), frames: make(chan struct{}, mostFrames), answers: make(chan struct{}, mostAnswers),
		engine: engine, options: o, now: time.Now, build: readBuild(), hubs: hubs{viewers: fair.NewPlaces[string](mostViewers)},
	}
	s.whys.init(keptExplanations)
	s.graphs.init(keptGraphs)
	s.pictures.init(keptPictures)
	s.pasts.init(keptPasts)
	s.strips.init(keptPasts)
	s.taken.init(keptTaken)
	s.told.init(keptTold)
	s.places.init(keptPlaces)
	_ = engine.ObserveFigure("viewers", s.hubs.count.Load) // an engine that is closed has no metrics
	return s
}

// A server answers the requests of one Handler.
//
// The caches are there so that pages of the same run do not work out the same again; without them everything would be as true, and slower.
// engine and options do not change. Nothing here outlives the process.
type server struct {
	engine   *pawl.Engine
	options  Options
	local    bool // on the socket of the engine: requests say what Options do elsewhere
	origins  http.CrossOriginProtection
	now      func() time.Time
	build    string
	whys     cache[runLife, *explained]
	graphs   cache[graphKey, *compiled.Graph]
	pictures cache[pictureKey, *keptPicture]
	pasts    cache[runLife, *pastOfRun]
	strips   cache[runLife, *keptBranches]
	taken    cache[takenKey, takenSet]
	places   cache[placeKey, string]
	told     cache[string, toldText] // by what their addresses have
	sent     sentForms
	hubs     hubs
	effort   time.Duration // of a processor, that a page may take to find the runs of a list
	tokens   int           // of a run whose branches are told apart
	bounds   *crowd.Bounds // on what callers may ask
	frames   chan struct{} // those that are made for which whole runs are read
	answers  chan struct{} // those that are worked out
}

// templateFiles are the templates of pages, one for each kind of page, and the parts that they share.
//
//go:embed templates/*.html
var templateFiles embed.FS

// staticFiles are the style and the scripts, which need no rights.
//
//go:embed static
var staticFiles embed.FS

// readTemplates returns the templates of all pages. They are read for the first page: a program
// that shows none starts without them.
var readTemplates = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("").Funcs(template.FuncMap{
		"digits": groupDigits, "word": statusWord, "class": statusClass, "random": rand.Text,
	}).ParseFS(templateFiles, "templates/*.html"))
})

// readBuild returns the version of this module, as far as the program knows it.
func readBuild() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, m := range append(info.Deps, &info.Main) {
		if m.Path == "github.com/pawl-run/pawl" && m.Version != "" {
			return m.Version
		}
	}
	return "(devel)"
}

// policy lets the page load its own files and nothing else.
//
// If a value of a run ever got into a page as HTML, its scripts would not run; and no other page may have this one in a frame, where a
// click might do what its reader does not see.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// ServeHTTP implements http.Handler.
//
// All answers have the same headers, errors as well. Pages are not stored anywhere: they have values of runs, and are old at once.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("X-Robots-Tag", "noindex, nofollow")
	h.Set("Cache-Control", "no-store")
	path := strings.TrimPrefix(r.URL.Path, "/")
	head, rest, _ := strings.Cut(path, "/")
	if head == "static" {
		s.serveStatic(w, r, rest)
		return
	}
	crowd.SetWriteTimeout(w, 0) // that of the host's server, which over HTTP/2 ends also a form that waits
	defer crowd.EndAnswer(w, writeWithin)
	p := s.newPage(crowd.TimedWriter{ResponseWriter: w, Within: writeWithin}, r)
	defer p.leaveWhole()
	if err := s.servePage(p, head, rest); err != nil {
		p.showError(err)
	}
}

// serveStatic answers the files that pages load.
//
// Everybody gets them, since they say nothing of the engine. Browsers keep them for five minutes.
func (s *server) serveStatic(w http.ResponseWriter, r *http.Request, name string) {
	data, err := fs.ReadFile(staticFiles, "static/"+name)
	if err != nil || r.Method != http.MethodGet && r.Method != http.MethodHead {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Cache-Control", "max-age=300")
	http.ServeContent(w, r, name, time.Time{}, strings.NewReader(string(data)))
}

// errNoPage says that there is nothing at an address.
var errNoPage = errors.New("there is no such page")

// servePage answers every request that is not for a file: head is the first segment of the path, rest what is behind it. First come the
// questions that hold for all pages: who asks, and whether the request comes from a page of another origin, which may not change anything
// here.
func (s *server) servePage(p *page, head, rest string) error {
	if err := s.checkCaller(p); err != nil {
		return err
	}
	leave, err := s.admitCaller(p)
	if err != nil {
		return err
	}
	defer leave()
	if err := s.origins.Check(p.r); err != nil {
		return errForbidden
	}
	if p.r.Method == http.MethodPost && head == "theme" && rest == "" {
		return p.keepTheme()
	}
	// The runs of such an engine have placeholders in place of values: to let something happen to them would tell what never happens.
	p.redacted = s.local && loopback.IsRedacted(p.r)
	if (head == "act" || head == "schedule-act") && rest == "" {
		switch {
		case p.redacted:
			return replay.ErrRedacted
		case head == "act":
			return s.serveAct(p)
		}
		return s.serveScheduleAct(p)
	}
	if p.r.Method != http.MethodGet && p.r.Method != http.MethodHead {
		p.w.Header().Set("Allow", "GET, HEAD")
		return errMethod
	}
	if head == "live" {
		return s.serveLive(p, strings.TrimPrefix(strings.TrimPrefix(p.r.URL.EscapedPath(), "/"), "live/"))
	}
	return s.routePage(p, head, rest)
}

// routePage answers a page that can be looked at.
//
// Both requests of readers and hubs call it, which make the same page as a frame: so nothing below it may read the rights from the request,
// and it writes to p.w alone.
func (s *server) routePage(p *page, head, rest string) error {
	if head == "run" {
		if rest == "" {
			rest = p.r.URL.Query().Get("id") // of runs that no path can name
		}
		return s.showRun(p, workflow.RunID(rest))
	}
	if rest != "" {
		return errNoPage
	}
	switch head {
	case "":
		return s.showHome(p)
	case "runs":
		return s.showRuns(p)
	case "inbox":
		return s.showInbox(p)
	case "diff":
		if p.redacted {
			return replay.ErrRedacted
		}
		return s.showDiff(p)
	case "definitions":
		return s.showDefinitions(p)
	case "workers":
		return s.showWorkers(p)
	case "schedules":
		return s.showSchedules(p)
	case "schedule":
		return s.showSchedule(p)
	case "engine":
		return s.showEngine(p)
	}
	return errNoPage
}
