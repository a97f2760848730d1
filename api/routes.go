package api

import "net/http"

// What lists take to choose and to page.
var (
	runParams   = []string{"workflow", "status", "parent", "tenant", "prefix", "roots", "since", "until", "endedSince", "endedUntil", "order", "limit", "cursor"}
	tokenParams = []string{"node", "status", "group", "limit", "after"}
	pageParams  = []string{"limit", "after"}
)

// routes are what there is, in the order of openapi.yaml.
func routes() []route {
	const get = http.MethodGet
	return []route{
		{get, "/v1/runs", View, runParams, (*call).listRuns},
		{get, "/v1/runs/{run}", View, []string{"wait"}, (*call).showRun},
		{get, "/v1/runs/{run}/overview", View, nil, (*call).showOverview},
		{get, "/v1/runs/{run}/tokens", View, tokenParams, (*call).listTokens},
		{get, "/v1/runs/{run}/data", View | Values, nil, (*call).showData},
		{get, "/v1/runs/{run}/definition", View, nil, (*call).showDefinition},
		{get, "/v1/runs/{run}/events", View, pageParams, (*call).listEvents},
		{get, "/v1/runs/{run}/journal", View, pageParams, (*call).listJournal},
		{get, "/v1/runs/{run}/why", View, nil, (*call).explainRun},
		{get, "/v1/runs/{run}/graph.svg", View, []string{"width"}, (*call).drawRun},
		{get, "/v1/diff", View | Values, []string{"a", "b"}, (*call).compareRuns},
		{get, "/v1/approvals", View, []string{"limit"}, (*call).listApprovals},
		{get, "/v1/dead-letters", View, []string{"run", "workflow", "node", "task", "code", "limit"}, (*call).listDeadLetters},
		{get, "/v1/engine", View, nil, (*call).showEngine},
		{get, "/healthz", 0, nil, (*call).showHealth},
		{get, "/readyz", 0, nil, (*call).showReadiness},
	}
}
