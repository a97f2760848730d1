package api

import (
	"cmp"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/crowd"
	"github.com/pawl-run/pawl/workflow"
)

// Handler serves an engine, for a server of the host. Its paths are /v1/..., /healthz and
// /readyz: mount it anywhere with http.StripPrefix. The server should bound how long the headers of a
// request may take.
func Handler(e *pawl.Engine, o Options) http.Handler {
	return newServer(&server{engine: e, options: o})
}

// A server serves one engine. It is made once, by newServer, and its fields do not change after
// that; the counters in bounds have locks of their own, so any number of requests use one
// server.
type server struct {
	engine  *pawl.Engine
	options Options
	mux     *http.ServeMux
	local   bool            // behind a socket of this user
	closing <-chan struct{} // closed when streams are to end; nil if that is never
	bounds  *crowd.Bounds   // on what callers may ask
	effort  time.Duration   // of a processor, that looking at runs may take for one page
}

// A route is what one method of a path does. A route with needs 0 is answered to anybody, without
// asking who that is and without a bound: it must neither tell something of a run nor cost much. A
// parameter that params does not name is refused, so serve reads only those.
type route struct {
	method, path string
	needs        Rights
	params       []string // that the query may have
	serve        func(*call) error
}

// A call is one request. caller is the zero value on routes that need no right. A call belongs to
// the goroutine of its request, which alone writes the answer.
type call struct {
	*server
	caller
	w    http.ResponseWriter
	r    *http.Request
	load *crowd.Load // the body; nil until it is read
}

func newServer(s *server) http.Handler {
	s.effort = cmp.Or(s.effort, pageEffort)
	s.mux, s.bounds = http.NewServeMux(), crowd.NewBounds(s.options.Rate.PerSecond, s.options.Rate.Burst)
	methods := map[string][]string{}
	for _, r := range routes() {
		s.mux.HandleFunc(r.method+" "+r.path, func(w http.ResponseWriter, q *http.Request) { s.serveRoute(&r, w, q) })
		methods[r.path] = append(methods[r.path], r.method)
	}
	// ServeMux prefers a pattern with a method to one without, so these are reached by methods that
	// a path does not have: they get JSON and the header Allow.
	for at, has := range methods {
		s.mux.HandleFunc(at, func(w http.ResponseWriter, q *http.Request) {
			w.Header().Set("Allow", strings.Join(has, ", "))
			writeError(w, refusef(http.StatusMethodNotAllowed, codeMethod, "%s takes %s, not %s", q.URL.Path, strings.Join(has, " or "), q.Method))
		})
	}
	// A browser sends the cookies or the address of its user with every request of a page: without
	// this check the page of a stranger could act in that user's name.
	cross := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer endAnswer(w)
		if err := cross.Check(r); err != nil {
			writeError(w, refusef(http.StatusForbidden, codeForbidden, "a page of another site may not ask: %v", err))
			return
		}
		// A path that is not clean is refused, where ServeMux would redirect: the redirect of a
		// POST loses its body in some clients.
		at := r.URL.EscapedPath()
		if _, pattern := s.mux.Handler(r); pattern == "" || path.Clean(at) != at {
			writeError(w, refusef(http.StatusNotFound, codeNotFound, "there is no such path: see /v1/openapi.yaml"))
			return
		}
		s.mux.ServeHTTP(w, r)
	})
}

// serveRoute identifies the caller, and serves. The order is from cheap to dear: the query, who
// asks, the rights, then the bounds on that caller. A caller who lacks a right takes no place
// from others. It is the one place that answers errors of serve functions: a function that has
// begun its own answer returns nil.
func (s *server) serveRoute(r *route, w http.ResponseWriter, q *http.Request) {
	c := &call{server: s, w: w, r: q}
	err := c.checkQuery(r.params)
	if err == nil && r.needs != 0 {
		if c.caller, err = s.identifyCaller(q); err == nil {
			err = c.requireRights(r.needs)
		}
	}
	if err == nil {
		err = c.serveAdmitted(r)
	}
	if c.load != nil { // what was read and decoded is held until here
		c.load.Leave()
	}
	if err != nil {
		writeError(w, err)
	}
}

// serveAdmitted serves a request unless it comes too soon, or there are too many. The health of the
// engine is told in any case. A place is held until the answer is written, for a stream until it
// ends; a request that reads a whole run holds two.
func (c *call) serveAdmitted(r *route) error {
	if r.needs != 0 {
		// Programs on the socket are of the same user as the engine, and are not refused. It comes first, as it costs least.
		if !c.local {
			if err := c.bounds.Pace.Space(c.who, time.Now()); err != nil {
				return err
			}
		}
		leave, err := c.bounds.Calls.Admit(c.who)
		if err != nil {
			return err
		}
		defer leave()
	}
	if err := c.checkValues(r); err != nil {
		return err
	}
	if c.readsWholeRun(r) {
		leave, err := c.bounds.Replays.Admit(c.who)
		if err != nil {
			return err
		}
		defer leave()
	}
	return r.serve(c)
}

// wholeRunPaths are those whose answers take the whole of a run into memory, whatever the query
// says. A path that is added and reads a Recording, a Snapshot or a Simulation belongs here, or
// callers could have any number of runs in memory at once.
var wholeRunPaths = []string{
	"/v1/runs/{run}/data", "/v1/runs/{run}/export", "/v1/runs/{run}/forks", "/v1/runs/{run}/graph.svg", "/v1/runs/{run}/revisions/{revision}", "/v1/runs/{run}/simulate", "/v1/runs/{run}/why", "/v1/diff", "/v1/import",
}

// readsWholeRun reports whether the request takes the whole of a run into memory, plays it again,
// or tries something on a copy. A request with at, or that is a dry run, makes a copy whatever its
// path is. A list or a batch with a condition may look at every run, and costs as much; a watch looks
// only at runs that change.
func (c *call) readsWholeRun(r *route) bool {
	q := c.r.URL.Query()
	return slices.Contains(wholeRunPaths, r.path) || q.Has("at") || c.isDryRun() || q.Get("where") != "" && r.path != "/v1/watch"
}

// isDryRun reports whether the request only asks what would be. One whose dryRun is neither true
// nor false is refused by the handler, which reads it in the same way.
func (c *call) isDryRun() bool { return c.query().flag("dryRun") }

// textParams are the parameters that may be empty, which chooses everything.
var textParams = []string{"workflow", "parent", "tenant", "prefix", "where", "forkedFrom", "cursor", "run", "node", "task", "code", "a", "b"}

// checkQuery refuses a query with parameters that nobody reads, twice, or without a value. A filter
// that was misspelt, status=faild or stauts=failed, would otherwise choose more runs than meant,
// and a batch would act on them.
func (c *call) checkQuery(params []string) error {
	values, err := parseQuery(c.r.URL.RawQuery)
	if err != nil {
		return err
	}
	for name, have := range values {
		// The parameter run names the run of a path that has anyRun in its place; elsewhere it
		// would be a second name.
		if !slices.Contains(params, name) && (name != "run" || c.r.PathValue("run") != anyRun) {
			return invalidf("the query has %q, which this path does not know: it knows %s", name, cmp.Or(strings.Join(params, ", "), "none"))
		}
		if len(have) > 1 && name != "status" && name != "label" {
			return invalidf("the query has %q twice", name)
		}
		if slices.Contains(have, "") && !slices.Contains(textParams, name) {
			return invalidf("%s has no value: give it one, or leave it out", name)
		}
	}
	return nil
}

// pageEffort is how much of a processor the list of one page may take to find the runs that fit. The page then has what was found, and a
// cursor. A list of lines has no such bound, as it has no cursor: its place among the requests that look at all runs is its bound.
const pageEffort = 2 * time.Second

// anyRun stands in a path for the run that the query names: some proxies decode the slashes in the
// id of a child run.
const anyRun = "-"

// runID returns the run that a path is about. No check is needed here: an id that no run can have
// is not found, or refused by the engine where a run is to be made.
func (c *call) runID() workflow.RunID {
	id, query := c.r.PathValue("run"), c.r.URL.Query()
	if id == anyRun && query.Has("run") {
		id = query.Get("run")
	}
	return workflow.RunID(id)
}
