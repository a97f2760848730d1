package api

import (
	"net/http"
	"slices"

	"github.com/pawl-run/pawl/internal/acts"
)

// The parameters by which lists choose and page.
var (
	// A batch takes the parameters of a list, but no order: it goes from the oldest run on, as its
	// cursor does.
	runParams   = []string{"workflow", "status", "parent", "tenant", "prefix", "roots", "label", "where", "forkedFrom", "since", "until", "endedSince", "endedUntil", "order", "limit", "cursor"}
	tokenParams = []string{"node", "status", "group", "limit", "after", "at"}
	batchParams = append(slices.DeleteFunc(slices.Clone(runParams), func(name string) bool { return name == "order" }), "dryRun", "all")
	pastParams  = []string{"limit", "after", "at"}
)

// routes are what there is, in the order of openapi.yaml. Each row is a method, a path, the rights
// that it needs, the parameters that its query may have, and what serves it. A path that only reads
// needs View, and Values where the answer is nothing but values; a path that acts needs Act, and
// handlers ask for more where the body decides.
func routes() []route {
	const get, put, post = http.MethodGet, http.MethodPut, http.MethodPost
	return append(actRoutes(), []route{
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
		{get, "/v1/runs/{run}/export", View | Values, []string{"blobs"}, (*call).exportRun},
		{get, "/v1/runs/{run}/why", View, []string{"at"}, (*call).explainRun},
		{get, "/v1/runs/{run}/graph.svg", View, []string{"width", "at"}, (*call).drawRun},
		{post, "/v1/runs/{run}/forks", Act, []string{"dryRun"}, (*call).forkRun},
		{post, "/v1/runs/{run}/purge", Act, []string{"dryRun"}, (*call).purgeRun},
		{post, "/v1/runs/{run}/simulate", View | Values, []string{"at"}, (*call).tryActs},
		{post, "/v1/backup", Files, nil, (*call).backUp},
		{post, "/v1/follow", Files, nil, (*call).followInto},
		{post, "/v1/import", Files, []string{"dryRun"}, (*call).importRun},
		{post, "/v1/batch", View | Act, batchParams, (*call).doBatch},
		{get, "/v1/definitions", View, []string{"workflow", "limit", "cursor"}, (*call).listDefinitions},
		{get, "/v1/definitions/{name}/{version}", View, nil, (*call).showPublished},
		{get, "/v1/watch", View, []string{"workflow", "status", "parent", "tenant", "prefix", "roots", "label", "where"}, (*call).watchRuns},
		{get, "/v1/diff", View | Values, []string{"a", "b", "aAt", "bAt"}, (*call).compareRuns},
		{get, "/v1/approvals", View, []string{"run", "workflow", "node", "where", "limit", "cursor"}, (*call).listApprovals},
		{post, "/v1/approvals/batch", View | Act, []string{"run", "workflow", "node", "where", "limit", "cursor", "dryRun", "all"}, (*call).voteOnApprovals},
		{get, "/v1/dead-letters", View, []string{"run", "workflow", "node", "task", "code", "where", "limit", "cursor"}, (*call).listDeadLetters},
		{post, "/v1/dead-letters/batch", View | Act, []string{"run", "workflow", "node", "task", "code", "where", "limit", "cursor", "dryRun", "all"}, (*call).actOnLetters},
		{put, "/v1/definitions/{name}/{version}", Define, []string{"dryRun"}, (*call).publishDefinition},
		{get, "/v1/workers", View, []string{"limit"}, (*call).listWorkers},
		{get, "/v1/engine", View, nil, (*call).showEngine},
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
