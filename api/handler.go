package api

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/acts"
	"github.com/pawl-run/pawl/internal/crowd"
	"github.com/pawl-run/pawl/internal/strict"
	"github.com/pawl-run/pawl/internal/traceparent"
	"github.com/pawl-run/pawl/workflow"
)

// Handler serves an engine, for a server of the host. Its paths are /v1/..., /healthz and /readyz: mount it anywhere with
// http.StripPrefix. Set ReadHeaderTimeout of the server, since the Handler sees no request before its headers.
func Handler(e *pawl.Engine, o Options) http.Handler {
	return newServer(&server{engine: e, options: o})
}

// A server serves one engine. It is made once, by newServer, and its fields do not change after that; the counters in bounds have locks
// of their own, so any number of requests use one server.
type server struct {
	engine  *pawl.Engine
	options Options
	mux     *http.ServeMux
	local   bool            // behind a socket of this user
	closing <-chan struct{} // closed when streams are to end; nil if that is never
	bounds  *crowd.Bounds   // on what callers may ask
	effort  time.Duration   // of a processor, that looking at runs may take for one page
}

// A route is what one method of a path does. A route with needs 0 answers strangers, unbounded: it must tell nothing of runs and cost
// little. A parameter that params does not name is refused, so serve reads only those.
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
			(&call{server: s, w: w, r: q}).writeError(refusef(http.StatusMethodNotAllowed, codeMethod, "%s takes %s, not %s", q.URL.Path, strings.Join(has, " or "), q.Method))
		})
	}
	// A browser sends the cookies or the address of its user with every request of a page: without
	// this check the page of a stranger could act in that user's name.
	cross := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		crowd.SetWriteTimeout(w, 0) // of the host's server, which does not know how long a request may wait
		defer crowd.EndAnswer(w, s.partTime())
		if err := cross.Check(r); err != nil {
			(&call{server: s, w: w, r: r}).writeError(refusef(http.StatusForbidden, codeForbidden, "a page of another site may not ask: %v", err))
			return
		}
		// A path that is not clean is refused, where ServeMux would redirect: the redirect of a POST loses its body in some clients.
		at := r.URL.EscapedPath()
		if _, pattern := s.mux.Handler(r); pattern == "" || path.Clean(at) != at {
			(&call{server: s, w: w, r: r}).writeError(refusef(http.StatusNotFound, codeNotFound, "there is no such path: see /v1/openapi.yaml"))
			return
		}
		s.mux.ServeHTTP(w, r)
	})
}

// serveRoute identifies the caller, and serves. The order is from cheap to dear: the query, who asks, the rights, then the bounds on that
// caller. A caller who lacks a right takes no place from others. It is the one place that answers errors of serve functions: a function
// that has begun its own answer returns nil.
func (s *server) serveRoute(r *route, w http.ResponseWriter, q *http.Request) {
	c := &call{server: s, w: w, r: q}
	defer func() { // what was read and decoded is held until here, also if a hook of the host panics
		if c.load != nil {
			c.load.Leave()
		}
	}()
	err := c.checkQuery(r.params)
	if err == nil && r.needs != 0 {
		if c.caller, err = s.identifyCaller(q); err == nil {
			err = c.requireRights(r.needs)
		}
	}
	if err == nil {
		err = c.serveAdmitted(r)
	}
	if err != nil {
		c.writeError(err)
	}
}

// serveAdmitted serves a request unless it comes too soon, or there are too many. The health of the engine is told in any case. A place
// is held until the answer is written, for a stream until it ends; a request that reads a whole run holds two.
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
	c.r = inTrace(c.r)
	return r.serve(c)
}

// inTrace returns a request in the span of its caller, as the headers of W3C Trace Context name it: runs that it starts belong to that trace. A
// request that the host has put into a span of its own stays there, and a malformed or repeated traceparent is as none.
func inTrace(r *http.Request) *http.Request {
	parents := r.Header.Values(traceparent.Header)
	if here, _ := traceparent.Of(r.Context()); here != "" || len(parents) != 1 {
		return r
	}
	ctx := traceparent.With(r.Context(), parents[0], strings.Join(r.Header.Values(traceparent.StateHeader), ","))
	if ctx == r.Context() {
		return r
	}
	return r.WithContext(ctx)
}

// wholeRunPaths are those whose answers take the whole of a run into memory, whatever the query says. A path that is added and reads a
// Recording, a Snapshot or a Simulation belongs here, or callers could have any number of runs in memory at once.
var wholeRunPaths = []string{
	"/v1/runs/{run}/data", "/v1/runs/{run}/export", "/v1/runs/{run}/forks", "/v1/runs/{run}/graph.svg", "/v1/runs/{run}/revisions/{revision}", "/v1/runs/{run}/simulate", "/v1/runs/{run}/why", "/v1/diff", "/v1/import",
}

// readsWholeRun reports whether the request takes the whole of a run into memory, plays it again, or tries something on a copy. A request
// with at, or that is a dry run, makes a copy whatever its path is. A list or a batch with a condition may look at every run, as does a
// list that is sorted, and costs as much; a watch looks only at runs that change.
func (c *call) readsWholeRun(r *route) bool {
	q := c.r.URL.Query()
	looksAtAll := q.Get("sort") != "" || q.Get("where") != "" && r.path != "/v1/watch"
	return slices.Contains(wholeRunPaths, r.path) || q.Has("at") || c.isDryRun() || looksAtAll
}

// isDryRun reports whether the request only asks what would be. One whose dryRun is neither true
// nor false is refused by the handler, which reads it in the same way.
func (c *call) isDryRun() bool { return c.query().flag("dryRun") }

// emptyParams are the parameters that may be empty: an empty cursor is that of the first page, and compareRuns refuses a and b in words of its own.
var emptyParams = []string{"cursor", "a", "b"}

// checkQuery refuses a query with parameters that nobody reads, twice, or without a value. A filter that was misspelt, status=faild or
// stauts=failed, or is of a variable that is empty, would otherwise choose more runs than meant, and a batch would act on them.
func (c *call) checkQuery(params []string) error {
	values, err := parseQuery(c.r.URL.RawQuery)
	if err != nil {
		return err
	}
	for name, have := range values {
		// The parameter run names the run of a path that has anyRun in its place; elsewhere it would be a second name.
		ofPath := name == "run" && c.r.PathValue("run") == anyRun
		if !slices.Contains(params, name) && !ofPath {
			return invalidf("the query has %q, which this path does not know: it knows %s", name, cmp.Or(strings.Join(params, ", "), "none"))
		}
		if len(have) > 1 && name != "status" && name != "label" {
			return invalidf("the query has %q twice", name)
		}
		if slices.Contains(have, "") && !slices.Contains(emptyParams, name) && !ofPath {
			return invalidf("%s has no value: give it one, or leave it out", name)
		}
	}
	return nil
}

// pageEffort is how much of a processor the list of one page may take to find the runs that fit. The page then has what was found, and a
// cursor. A list of lines has no such bound, as it has no cursor: its place among the requests that look at all runs is its bound.
const pageEffort = 2 * time.Second

// anyRun stands in a path for the run that the query names: some proxies decode the slashes in the id of a child run.
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

// The parameters by which lists choose and page.
var (
	// A batch takes the parameters of a list, but no order: it goes from the oldest run on, as its cursor does.
	runParams   = []string{"workflow", "status", "parent", "tenant", "prefix", "roots", "label", "where", "forkedFrom", "since", "until", "endedSince", "endedUntil", "order", "sort", "limit", "cursor"}
	tokenParams = []string{"node", "status", "group", "limit", "after", "at"}
	batchParams = append(slices.DeleteFunc(slices.Clone(runParams), func(name string) bool { return name == "order" || name == "sort" }), "dryRun", "all")
	pastParams  = []string{"limit", "after", "at"}
)

// routes are what there is, in the order of openapi.yaml. Each row is a method, a path, the rights that it needs, the parameters that its
// query may have, and what serves it. A path that only reads needs View, and Values where the answer is nothing but values; a path that
// acts needs Act, and handlers ask for more where the body decides.
func routes() []route {
	const get, put, post = http.MethodGet, http.MethodPut, http.MethodPost
	return append(append(actRoutes(), scheduleRoutes()...), []route{
		{get, "/v1/runs", View, runParams, (*call).listRuns},
		{get, "/v1/runs/{run}", View, []string{"wait", "at"}, (*call).showRun},
		{put, "/v1/runs/{run}", Act, []string{"wait", "dryRun"}, (*call).startRun},
		{get, "/v1/runs/{run}/overview", View, []string{"at"}, (*call).showOverview},
		{get, "/v1/runs/{run}/tokens", View, tokenParams, (*call).listTokens},
		{get, "/v1/runs/{run}/branches", View, []string{"group", "status", "limit", "cursor", "at"}, (*call).listBranches},
		{get, "/v1/runs/{run}/signals", View, pastParams, (*call).listSignals},
		{get, "/v1/runs/{run}/data", View | Values, []string{"at"}, (*call).showData},
		{get, "/v1/runs/{run}/definition", View, []string{"at"}, (*call).showDefinition},
		{get, "/v1/runs/{run}/revisions", View, pastParams, (*call).listRevisions},
		{get, "/v1/runs/{run}/revisions/{revision}", View, []string{"at"}, (*call).showRevision},
		{get, "/v1/runs/{run}/events", View, pastParams, (*call).listEvents},
		{get, "/v1/runs/{run}/journal", View, pastParams, (*call).listJournal},
		{get, "/v1/runs/{run}/export", View | Values, []string{"blobs", "allBlobs"}, (*call).exportRun},
		{get, "/v1/runs/{run}/why", View, []string{"at"}, (*call).explainRun},
		{get, "/v1/runs/{run}/graph.svg", View, []string{"width", "at"}, (*call).drawRun},
		{post, "/v1/runs/{run}/forks", Act, []string{"dryRun"}, (*call).forkRun},
		{post, "/v1/runs/{run}/purge", Act, []string{"dryRun"}, (*call).purgeRun},
		{post, "/v1/runs/{run}/simulate", View | Values, []string{"at"}, (*call).tryActs},
		{post, "/v1/blobs", Act, []string{"type"}, (*call).putBlob},
		{get, "/v1/blobs/{hash}", View | Values, nil, (*call).sendBlob},
		{post, "/v1/backup", Files, nil, (*call).backUp},
		{post, "/v1/follow", Files, nil, (*call).followInto},
		{post, "/v1/import", Files, []string{"dryRun"}, (*call).importRun},
		{post, "/v1/batch", View | Act, batchParams, batchPerforms(acts.Runs)},
		{get, "/v1/definitions", View, []string{"workflow", "limit", "cursor"}, (*call).listDefinitions},
		{get, "/v1/definitions/{name}/{version}", View, nil, (*call).showPublished},
		{get, "/v1/watch", View, []string{"workflow", "status", "parent", "tenant", "prefix", "roots", "label", "where"}, (*call).watchRuns},
		{get, "/v1/diff", View | Values, []string{"a", "b", "aAt", "bAt"}, (*call).compareRuns},
		{get, "/v1/approvals", View, []string{"run", "workflow", "node", "where", "limit", "cursor"}, (*call).listApprovals},
		{post, "/v1/approvals/batch", View | Act, []string{"run", "workflow", "node", "where", "limit", "cursor", "dryRun", "all"}, batchPerforms(acts.Approvals)},
		{get, "/v1/dead-letters", View, []string{"run", "workflow", "node", "task", "code", "where", "limit", "cursor"}, (*call).listDeadLetters},
		{post, "/v1/dead-letters/batch", View | Act, []string{"run", "workflow", "node", "task", "code", "where", "limit", "cursor", "dryRun", "all"}, batchPerforms(acts.DeadLetters)},
		{put, "/v1/definitions/{name}/{version}", Define, []string{"dryRun"}, (*call).publishDefinition},
		{get, "/v1/workers", View, []string{"limit"}, (*call).listWorkers},
		{get, "/v1/engine", View, nil, (*call).showEngine},
		{get, "/v1/disk", View, nil, (*call).measureDisk},
		{get, "/v1/timings", View, []string{"workflow", "by", "within"}, (*call).showTimings},
		{get, "/v1/openapi.yaml", 0, nil, (*call).showDocument},
		{get, "/healthz", 0, nil, (*call).showHealth},
		{get, "/readyz", 0, nil, (*call).showReadiness},
	}...)
}

// actRoutes returns a route for each act that is done to runs, with the rights and the parameters that its kind asks
// for. All take dryRun; acts on a token take node, for paths with anyToken.
func actRoutes() (out []route) {
	for _, v := range acts.All() {
		if v.Path == "" {
			continue
		}
		needs := Act
		if v.Defines {
			needs |= Define
		}
		params := []string{"dryRun"}
		if v.OfToken() {
			params = append(params, "node")
		}
		out = append(out, route{http.MethodPost, "/v1/runs/{run}" + v.Path, needs, params, actPerforms(v)})
	}
	return out
}

// Bounds of a page.
const (
	defaultLimit = 100
	maxLimit     = 1000
)

// A query reads the parameters of a request, and remembers the first that is wrong. Handlers read all parameters first and look at err
// once; the result of a method after an error is of no use. A query is made for each reading and is not shared.
type query struct {
	values url.Values
	err    error
}

// parseQuery reads the raw text of a query, for checkQuery. url.Values of a request drops what it
// cannot read; here that is an error, as a filter that was dropped would choose more.
func parseQuery(raw string) (url.Values, error) {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return nil, invalidf("the query cannot be read: %v", err)
	}
	return values, nil
}

func (c *call) query() *query { return &query{values: c.r.URL.Query()} }

func (q *query) refuse(name, want string) { q.refuseText(name, q.values.Get(name), want) }

func (q *query) refuseText(name, text, want string) {
	if q.err == nil {
		q.err = invalidf("%s is %q: it must be %s", name, text, want)
	}
}

// noteError refuses a query for an error, if there is one.
func (q *query) noteError(err error) {
	if q.err == nil && err != nil {
		q.err = invalidf("%v", err)
	}
}

func (q *query) textOf(name string) string { return q.values.Get(name) }

// runFilter returns the filter of what is about many runs. Lists and batches share it, so that a
// batch acts on what the list with the same query shows. Limit and Newest are left to the caller.
func (q *query) runFilter() pawl.RunFilter {
	return pawl.RunFilter{
		Workflow: q.textOf("workflow"), Parent: workflow.RunID(q.textOf("parent")), Tenant: q.textOf("tenant"), Prefix: q.textOf("prefix"), Roots: q.flag("roots"),
		Status: q.runStatuses(), Since: q.instant("since"), Until: q.instant("until"), EndedSince: q.instant("endedSince"), EndedUntil: q.instant("endedUntil"),
		Labels: q.labels(), Where: q.textOf("where"), ForkedFrom: workflow.RunID(q.textOf("forkedFrom")), After: workflow.RunID(q.textOf("cursor")),
	}
}

// limit returns how many entries a page has at most. It is defaultLimit if the query has none, and
// refused above maxLimit rather than cut: a client that asks for 5,000 must not take 1,000 for all.
func (q *query) limit() int {
	text := q.values.Get("limit")
	if text == "" {
		return defaultLimit
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > maxLimit {
		q.refuse("limit", "a number from 1 to 1000")
	}
	return n
}

// number returns a whole number of at least 0; 0 if it is not there.
func (q *query) number(name string) int64 {
	text := q.values.Get(name)
	if text == "" {
		return 0
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		q.refuse(name, "a whole number of at least 0")
	}
	return n
}

func (q *query) flag(name string) bool {
	if !q.values.Has(name) {
		return false
	}
	switch q.values.Get(name) {
	case "0", "false":
		return false
	case "1", "true":
		return true
	}
	q.refuse(name, "0 or 1")
	return false
}

func (q *query) instant(name string) time.Time {
	text := q.values.Get(name)
	if text == "" {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		q.refuse(name, "an instant such as 2026-11-22T08:30:00Z")
	}
	return t
}

func (q *query) duration(name string) time.Duration {
	text := q.values.Get(name)
	if text == "" {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		q.refuse(name, `a duration such as "30s"`)
	}
	return d
}

// labels returns labels that are written as KEY=VALUE; nil if there are none. A label that comes
// twice is refused: a run has one value of a key, so both could never fit.
func (q *query) labels() map[string]string {
	var out map[string]string
	for _, text := range q.values["label"] {
		key, value, ok := strings.Cut(text, "=")
		if _, twice := out[key]; !ok || twice || key == "" {
			q.refuseText("label", text, "a key and a value such as customer=7, each key once")
			return nil
		}
		if out == nil {
			out = map[string]string{}
		}
		out[key] = value
	}
	return out
}

func (q *query) runStatuses() (out []workflow.RunStatus) {
	for _, text := range q.values["status"] {
		var s workflow.RunStatus
		q.noteError(s.UnmarshalText([]byte(text)))
		out = append(out, s)
	}
	return out
}

func (q *query) tokenStatuses() (out []workflow.TokenStatus) {
	for _, text := range q.values["status"] {
		var s workflow.TokenStatus
		q.noteError(s.UnmarshalText([]byte(text)))
		out = append(out, s)
	}
	return out
}

// decodeObject reads a body. It takes one JSON object and nothing after it, and refuses what package strict refuses, such as names that v
// has no field for: a misspelt option must not be left out quietly, and no id be replaced. The error is an *Error of status 400.
func decodeObject(text []byte, v any) error {
	err := strict.DecodeObject(text, v)
	if err == nil {
		err = strict.CheckTexts(text)
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, strict.ErrEmpty):
		return invalidf("the body is empty: send one JSON object")
	}
	return invalidf("the body is not the JSON object that this path takes: %v", err)
}
