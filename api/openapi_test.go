package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/history"
	"github.com/pawl-run/pawl/replay"
	"github.com/pawl-run/pawl/schedule"
	"github.com/pawl-run/pawl/worker"
	"github.com/pawl-run/pawl/workflow"
)

// documented are the types of bodies, by the names of their schemas.
var documented = append(api.Pages, []api.Documented{
	{"ErrorBody", reflect.TypeFor[api.Error]()},
	{"Run", reflect.TypeFor[pawl.RunSummary]()},
	{"Outcome", reflect.TypeFor[workflow.Outcome]()},
	{"Failure", reflect.TypeFor[workflow.Failure]()},
	{"Artifact", reflect.TypeFor[workflow.Artifact]()},
	{"BlobRef", reflect.TypeFor[blob.Ref]()},
	{"ForkPoint", reflect.TypeFor[workflow.ForkPoint]()},
	{"Overview", reflect.TypeFor[pawl.Overview]()},
	{"NodeOverview", reflect.TypeFor[pawl.NodeOverview]()},
	{"Group", reflect.TypeFor[pawl.Group]()},
	{"Scope", reflect.TypeFor[workflow.Scope]()},
	{"Token", reflect.TypeFor[pawl.Token]()},
	{"Branch", reflect.TypeFor[pawl.BranchView]()},
	{"Signal", reflect.TypeFor[pawl.KeptSignal]()},
	{"Data", reflect.TypeFor[api.Data]()},
	{"RunDefinition", reflect.TypeFor[api.RunDefinition]()},
	{"RunRevision", reflect.TypeFor[pawl.RunRevision]()},
	{"Event", reflect.TypeFor[history.Event]()},
	{"Record", reflect.TypeFor[api.Record]()},
	{"Explanation", reflect.TypeFor[history.Explanation]()},
	{"FailedToken", reflect.TypeFor[replay.FailedToken]()},
	{"FailedBelow", reflect.TypeFor[replay.FailedBelow]()},
	{"Wait", reflect.TypeFor[history.Wait]()},
	{"Queued", reflect.TypeFor[workflow.Queued]()},
	{"Arrival", reflect.TypeFor[replay.Arrival]()},
	{"Note", reflect.TypeFor[history.Note]()},
	{"Reading", reflect.TypeFor[history.Reading]()},
	{"Comparison", reflect.TypeFor[replay.Comparison]()},
	{"Parting", reflect.TypeFor[replay.Parting]()},
	{"Choice", reflect.TypeFor[replay.Choice]()},
	{"ValueDifference", reflect.TypeFor[replay.ValueDifference]()},
	{"RunChange", reflect.TypeFor[pawl.RunChange]()},
	{"Approval", reflect.TypeFor[pawl.Approval]()},
	{"DeadLetter", reflect.TypeFor[pawl.DeadLetter]()},
	{"EngineInfo", reflect.TypeFor[api.EngineInfo]()},
	{"Stats", reflect.TypeFor[pawl.Stats]()},
	{"FeedStats", reflect.TypeFor[pawl.FeedStats]()},
	{"DiskUse", reflect.TypeFor[history.DiskUse]()},
	{"Timings", reflect.TypeFor[history.Timings]()},
	{"Timing", reflect.TypeFor[history.Timing]()},
	{"TimingSum", reflect.TypeFor[history.TimingSum]()},
	{"Quantiles", reflect.TypeFor[history.Quantiles]()},
	{"TimingPoint", reflect.TypeFor[history.TimingPoint]()},
	{"TypeLoad", reflect.TypeFor[history.TypeLoad]()},
	{"Workers", reflect.TypeFor[api.Workers]()},
	{"PoolStatus", reflect.TypeFor[worker.Status]()},
	{"WorkerStatus", reflect.TypeFor[worker.WorkerStatus]()},
	{"TypeStatus", reflect.TypeFor[worker.TypeStatus]()},
	{"TenantStatus", reflect.TypeFor[worker.TenantStatus]()},
	{"ActiveStatus", reflect.TypeFor[worker.ActiveStatus]()},
	{"RunCount", reflect.TypeFor[pawl.RunCount]()},
	{"Health", reflect.TypeFor[api.Health]()},
	{"Start", reflect.TypeFor[api.Start]()},
	{"Fork", reflect.TypeFor[api.Fork]()},
	{"ForkResult", reflect.TypeFor[api.ForkResult]()},
	{"Purge", reflect.TypeFor[api.Purge]()},
	{"Backup", reflect.TypeFor[api.Backup]()},
	{"Import", reflect.TypeFor[api.Import]()},
	{"BackupReport", reflect.TypeFor[api.BackupReport]()},
	{"FollowReport", reflect.TypeFor[api.FollowReport]()},
	{"PurgeReport", reflect.TypeFor[api.PurgeReport]()},
	{"PublishedDefinition", reflect.TypeFor[pawl.PublishedDefinition]()},
	{"PublishReport", reflect.TypeFor[api.PublishReport]()},
	{"ScheduleSet", reflect.TypeFor[api.ScheduleSet]()},
	{"ScheduleChanges", reflect.TypeFor[api.ScheduleChanges]()},
	{"ScheduleChange", reflect.TypeFor[schedule.Change]()},
	{"ScheduleAct", reflect.TypeFor[api.ScheduleAct]()},
	{"ScheduleReport", reflect.TypeFor[api.ScheduleReport]()},
	{"ScheduleStanding", reflect.TypeFor[schedule.Standing]()},
	{"SchedulePause", reflect.TypeFor[schedule.Pause]()},
	{"ScheduleBackfill", reflect.TypeFor[schedule.Backfill]()},
	{"ScheduleEvent", reflect.TypeFor[schedule.Event]()},
	{"ScheduleFiring", reflect.TypeFor[schedule.Firing]()},
	{"Simulate", reflect.TypeFor[api.Simulate]()},
	{"Result", reflect.TypeFor[api.Result]()},
	{"ActReport", reflect.TypeFor[api.ActReport]()},
	{"DryRunReport", reflect.TypeFor[api.DryRunReport]()},
	{"Step", reflect.TypeFor[api.Step]()},
}...)

// An openDocument is what openapi.yaml says.
type openDocument struct {
	Paths      map[string]map[string]operation
	Components struct {
		Parameters map[string]struct{ Name, In string }
		Schemas    map[string]struct {
			Required   []string
			Properties map[string]any
			Enum       []string
		}
	}
}

type operation struct {
	OperationID string `yaml:"operationId"`
	Parameters  []struct {
		Ref string `yaml:"$ref"`
	}
	RequestBody struct{ Content map[string]any } `yaml:"requestBody"`
	Responses   map[string]struct{ Content map[string]any }
}

// readDocument returns the document, and what compiles its schemas.
var readDocument = sync.OnceValues(func() (*openDocument, *jsonschema.Compiler) {
	var d openDocument
	var raw any
	for _, v := range []any{&d, &raw} {
		if err := yaml.Unmarshal(api.OpenAPI, v); err != nil {
			panic(err)
		}
	}
	text, err := json.Marshal(raw)
	if err != nil {
		panic(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		panic(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("document", doc); err != nil {
		panic(err)
	}
	return &d, c
})

var compiling sync.Mutex

// checkBody checks a body against the schema at a place of the document.
func checkBody(t testing.TB, place []string, body []byte) {
	t.Helper()
	var pointer strings.Builder
	for _, step := range place {
		pointer.WriteString("/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(step))
	}
	_, c := readDocument()
	compiling.Lock()
	schema, err := c.Compile("document#" + pointer.String())
	compiling.Unlock()
	require.NoError(t, err)
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	require.NoError(t, err, "%s", body)
	require.NoError(t, schema.Validate(v), "%s: %s", pointer.String(), body)
}

var braces = regexp.MustCompile(`\\\{\w+\\\}`)

// pathOf returns the path of the document that a request is for; "" if the document has no such
// path.
func pathOf(d *openDocument, escaped string) string {
	for path := range d.Paths {
		if regexp.MustCompile("^" + braces.ReplaceAllString(regexp.QuoteMeta(path), "[^/]+") + "$").MatchString(escaped) {
			return path
		}
	}
	return ""
}

// checkAnswer checks that the document has what was answered: its status, and all of the body.
func checkAnswer(t testing.TB, r *http.Request, sent []byte, w *httptest.ResponseRecorder) (path, status, media string) {
	t.Helper()
	d, _ := readDocument()
	path, status = pathOf(d, r.URL.EscapedPath()), strconv.Itoa(w.Code)
	media, body := w.Header().Get("Content-Type"), w.Body.Bytes()
	method := strings.ToLower(r.Method)
	op, known := d.Paths[path][method]
	if _, ok := op.Responses[status]; !known || !ok {
		require.GreaterOrEqual(t, w.Code, 400, "%s %s is not in the document", r.Method, r.URL)
		checkBody(t, []string{"components", "schemas", "Error"}, body)
		return path, "default", media
	}
	if op.RequestBody.Content["application/json"] != nil {
		checkBody(t, []string{"paths", path, method, "requestBody", "content", "application/json", "schema"}, sent)
	}
	if status == "304" {
		require.Empty(t, body)
		return path, status, ""
	}
	require.Contains(t, op.Responses[status].Content, media, "%s %s", r.Method, path)
	place := []string{"paths", path, method, "responses", status, "content", media, "schema"}
	if media == "application/octet-stream" {
		return path, status, media
	}
	for _, text := range bodiesOf(media, body) {
		checkBody(t, place, text)
	}
	return path, status, media
}

// bodiesOf returns what of an answer has the schema: all of it, each line, or each event.
func bodiesOf(media string, body []byte) (out [][]byte) {
	switch media {
	case "application/json":
		return [][]byte{body}
	case "application/x-ndjson":
		for line := range bytes.Lines(body) {
			out = append(out, line)
		}
	case "text/event-stream":
		for event := range bytes.SplitSeq(body, []byte("\n\n")) {
			if _, data, ok := bytes.Cut(event, []byte("data: ")); ok && !bytes.HasPrefix(event, []byte("event: ")) {
				out = append(out, data)
			}
		}
	}
	return out
}

// The document has every path, method and parameter that there is, and no others.
func TestDocumentOfRoutes(t *testing.T) {
	d, _ := readDocument()
	routes, ids := api.RouteParams(), map[string]bool{}
	for path, methods := range d.Paths {
		for method, op := range methods {
			name := strings.ToUpper(method) + " " + path
			params, ok := routes[name]
			require.True(t, ok, "there is no %s", name)
			delete(routes, name)
			require.False(t, ids[op.OperationID] || op.OperationID == "", name)
			ids[op.OperationID] = true
			var inQuery, inPath []string
			for _, p := range op.Parameters {
				param, ok := d.Components.Parameters[strings.TrimPrefix(p.Ref, "#/components/parameters/")]
				require.True(t, ok, p.Ref)
				switch param.In {
				case "query":
					inQuery = append(inQuery, param.Name)
				case "path":
					inPath = append(inPath, "{"+param.Name+"}")
				}
			}
			require.ElementsMatch(t, params, inQuery, name)
			require.ElementsMatch(t, regexp.MustCompile(`\{\w+\}`).FindAllString(path, -1), inPath, name)
		}
	}
	require.Empty(t, routes, "these are not in openapi.yaml")
}

// Every version of a path that is served is one of the document, so that a generated client can ask for it.
func TestDocumentOfVersions(t *testing.T) {
	e, _ := openEngine(t, pawl.Options{})
	h := everything(e)
	status, body := send(t, h, "PUT", "/v1/definitions/order/1", toJSON(t, order))
	require.Equal(t, http.StatusOK, status, body)
	d, _ := readDocument()
	ref := d.Paths["/v1/definitions/{name}/{version}"]["get"].Parameters[1].Ref
	for path, value := range map[string]string{"1": "1", "latest": `"latest"`} {
		status, body := get(t, h, "/v1/definitions/order/"+path)
		require.Equal(t, http.StatusOK, status, body)
		checkBody(t, []string{"components", "parameters", strings.TrimPrefix(ref, "#/components/parameters/"), "schema"}, []byte(value))
	}
}

// The document has every field of every body, and no others, and knows which are always there.
func TestDocumentOfFields(t *testing.T) {
	d, _ := readDocument()
	schemas := maps.Clone(d.Components.Schemas)
	for _, x := range documented {
		fields, required := fieldsOf(x.Type, false)
		var have []string
		for name := range schemas[x.Name].Properties {
			have = append(have, name)
		}
		require.ElementsMatch(t, fields, have, "the fields of %v, and those of %s in api/openapi.yaml", x.Type, x.Name)
		require.ElementsMatch(t, required, schemas[x.Name].Required, "the fields that every %s has", x.Name)
		delete(schemas, x.Name)
	}
	codes := slices.Compact(slices.Sorted(slices.Values(api.Codes())))
	require.Equal(t, codes, slices.Sorted(slices.Values(schemas["Code"].Enum)))
	for i, text := range schemas["RunStatus"].Enum {
		require.Equal(t, text, workflow.RunStatus(i).String())
	}
	for i, text := range schemas["TokenStatus"].Enum {
		require.Equal(t, text, workflow.TokenStatus(i).String())
	}
	for i, text := range schemas["Phase"].Enum {
		require.Equal(t, text, workflow.Phase(i).String())
	}
	fields := map[string]any{"do": nil, "by": nil, "reason": nil, "token": nil, "node": nil}
	for _, of := range api.ActFields() {
		for _, name := range of {
			fields[name] = nil
		}
	}
	require.ElementsMatch(t, slices.Collect(maps.Keys(fields)), slices.Collect(maps.Keys(schemas["Operation"].Properties)), "the fields of all acts")
	for _, name := range []string{"Code", "RunStatus", "TokenStatus", "Phase", "Definition", "Labels", "Operation", "Schedule"} {
		delete(schemas, name)
	}
	require.Empty(t, schemas, "these are of no type")
}

// The document says of a schedule what the schema of its files says, without defaults: generators of clients take a field that has one for
// one that is always there.
func TestDocumentHasTheScheduleSchema(t *testing.T) {
	text, err := os.ReadFile("../schedule/schedule.schema.json")
	require.NoError(t, err)
	var files struct {
		Parts map[string]any `json:"$defs"`
	}
	require.NoError(t, json.Unmarshal(text, &files))
	var document struct {
		Components struct {
			Schemas map[string]any
		}
	}
	require.NoError(t, yaml.Unmarshal(api.OpenAPI, &document))
	dropDefaults(files.Parts["schedule"])
	want, err := json.MarshalIndent(files.Parts["schedule"], "", "  ")
	require.NoError(t, err)
	got, err := json.MarshalIndent(document.Components.Schemas["Schedule"], "", "  ")
	require.NoError(t, err)
	require.Equal(t, string(want), string(got))
}

// dropDefaults drops the defaults of a schema, and of all within it.
func dropDefaults(schema any) {
	object, _ := schema.(map[string]any)
	if _, isField := object["default"].(map[string]any); !isField {
		delete(object, "default")
	}
	for _, part := range object {
		dropDefaults(part)
	}
}

// fieldsOf returns the names of the fields of a struct in JSON, and of those that are always there.
func fieldsOf(of reflect.Type, optional bool) (all, required []string) {
	for f := range of.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && f.Type.Kind() == reflect.Pointer:
			more, _ := fieldsOf(f.Type.Elem(), true)
			all = append(all, more...)
		case f.Anonymous:
			more, needed := fieldsOf(f.Type, optional)
			hidden := func(name string) bool { return declares(of, name) }
			all, required = append(all, slices.DeleteFunc(more, hidden)...), append(required, slices.DeleteFunc(needed, hidden)...)
		case name != "" && name != "-":
			if all = append(all, name); options == "" && !optional {
				required = append(required, name)
			}
		}
	}
	return all, required
}

// declares reports whether a struct has a field of that name of its own, which hides one of a struct in it.
func declares(of reflect.Type, name string) bool {
	for f := range of.Fields() {
		if n, _, _ := strings.Cut(f.Tag.Get("json"), ","); n == name && !f.Anonymous {
			return true
		}
	}
	return false
}

// Every act takes the fields that the document says.
func TestDocumentOfActs(t *testing.T) {
	d, _ := readDocument()
	acts := map[string]string{"signals": "signal", "patches": "patch", "cancel-nodes": "cancelNodes", "branches": "addBranch", "close-group": "closeGroup"}
	fields := api.ActFields()
	delete(fields, "elapse")
	for path, methods := range d.Paths {
		post, ok := methods["post"]
		name := path[strings.LastIndex(path, "/")+1:]
		if !ok || strings.HasPrefix(path, "/v1/schedules") || name == "forks" || name == "purge" || name == "simulate" || slices.Contains([]string{"batch", "blobs", "backup", "follow", "import"}, name) {
			continue
		}
		if do, ok := acts[name]; ok {
			name = do
		}
		schema := post.RequestBody.Content["application/json"].(map[string]any)["schema"].(map[string]any)
		var have []string
		for field := range schema["properties"].(map[string]any) {
			have = append(have, field)
		}
		require.ElementsMatch(t, append([]string{"by", "reason"}, fields[name]...), have, path)
		delete(fields, name)
	}
	require.Empty(t, fields)
}

// Every answer that the document has is given, in every form.
func TestEveryDocumentedAnswer(t *testing.T) {
	e, _ := openEngine(t, pawl.Options{})
	h := everything(e)
	given := map[string]bool{}
	ask := func(method, path, body string, header ...string) string {
		t.Helper()
		ctx := t.Context()
		if path == "/v1/watch" || path == "/v1/follow" { // which would not end
			gone, cancel := context.WithCancel(ctx)
			cancel()
			ctx = gone
		}
		r := httptest.NewRequestWithContext(ctx, method, "http://localhost"+path, strings.NewReader(body))
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		where, status, media := checkAnswer(t, r, []byte(body), w)
		require.NotEqual(t, "default", status, "%s %s: %s", method, path, w.Body)
		given[strings.TrimSpace(strings.Join([]string{method, where, status, media}, " "))] = true
		return w.Header().Get("ETag")
	}
	ask("PUT", "/v1/definitions/order/1", toJSON(t, order))
	for _, id := range []string{"a", "b", "b"} {
		ask("PUT", "/v1/runs/"+id, `{"workflow": "order", "input": {"item": "`+id+`"}}`)
		awaitEvent(t, e, workflow.RunID(id), workflow.EventApprovalRequested)
	}
	ask("PUT", "/v1/runs/tried?dryRun=1", `{"workflow": "order", "input": {"item": "a"}}`)
	ask("POST", "/v1/runs/a/forks?dryRun=1", signed(`"to": "tried", "at": 1`))
	for range 2 {
		ask("POST", "/v1/runs/a/forks", signed(`"to": "c", "at": 1`))
	}
	for _, path := range []string{"/v1/runs", "/v1/runs/a/tokens", "/v1/runs/a/events", "/v1/runs/a/journal", "/v1/runs/a/branches", "/v1/runs/a/signals", "/v1/runs/a/revisions", "/v1/definitions", "/v1/approvals", "/v1/dead-letters"} {
		ask("GET", path, "")
		ask("GET", path, "", "Accept", "text/html, application/x-ndjson;q=0.9")
	}
	for _, path := range []string{"/v1/runs/a", "/v1/runs/a/overview", "/v1/runs/a/data", "/v1/runs/a/why"} {
		tag := ask("GET", path, "")
		ask("GET", path, "", "If-None-Match", `"1", `+tag)
	}
	for _, path := range []string{"/v1/runs/a/definition", "/v1/runs/a/revisions/1", "/v1/runs/a/graph.svg", "/v1/runs/a/export", "/v1/diff?a=a&b=b", "/v1/engine", "/v1/timings", "/v1/disk", "/v1/workers", "/v1/definitions/order/1", "/v1/openapi.yaml", "/healthz", "/readyz"} {
		ask("GET", path, "")
	}
	ask("POST", "/v1/blobs?type=text/plain", "a blob")
	ask("GET", "/v1/blobs/"+blobHash, "", "If-None-Match", ask("GET", "/v1/blobs/"+blobHash, ""))
	ask("PUT", "/v1/schedules", signed(`"schedules": [{"id": "s", "workflow": {"name": "order"}, "every": "1h", "input": {"item": "'x'"}}]`))
	for _, act := range []string{"pause", "resume", "trigger"} {
		ask("POST", "/v1/schedules/s/"+act, signed(""))
	}
	ask("POST", "/v1/schedules/s/backfill", signed(`"from": "2026-01-01T00:00:00Z", "to": "2026-01-01T01:00:00Z"`))
	ask("GET", "/v1/schedules", "", "Accept", "application/x-ndjson")
	for _, path := range []string{"/v1/schedules", "/v1/schedules/s", "/v1/schedules/s/events"} {
		ask("GET", path, "")
	}
	ask("POST", "/v1/schedules/s/delete", signed(""))
	ask("POST", "/v1/batch?prefix=a", signed(`"do": "pause"`))
	ask("POST", "/v1/batch?prefix=a", signed(`"do": "resume"`))
	ask("POST", "/v1/approvals/batch?run=b", signed(`"do": "vote", "approved": true`))
	ask("POST", "/v1/dead-letters/batch?run=b", signed(`"do": "retry"`))
	ask("POST", "/v1/runs/a/simulate", `{"acts": [{"do": "vote", "node": "approve", "by": "ann", "approved": false}]}`)
	ask("POST", "/v1/runs/a/tokens/approve/vote", signed(`"approved": true`))
	for _, act := range []string{"pause", "resume", "cancel"} {
		ask("POST", "/v1/runs/a/"+act, signed(""))
	}
	for _, path := range []string{"/v1/runs/a/events", "/v1/runs/a/journal", "/v1/watch"} {
		ask("GET", path, "", "Accept", "text/event-stream")
	}
	ask("POST", "/v1/runs/a/purge", signed(""))
	into := filepath.Join(t.TempDir(), "copy")
	ask("POST", "/v1/backup", `{"into": "`+into+`"}`)
	ask("POST", "/v1/follow", `{"into": "`+into+`-followed", "interval": "1ms", "keep": "1h"}`, "Accept", "text/event-stream")
	ask("PUT", "/v1/runs/m", `{"definition": `+toJSON(t, many)+`}`)
	exported := filepath.Join(t.TempDir(), "m.pawl")
	ask("GET", "/v1/runs/m/export?blobs=1", "")
	var text bytes.Buffer
	require.NoError(t, e.Export(t.Context(), "m", &text, pawl.ExportOptions{}))
	require.NoError(t, os.WriteFile(exported, text.Bytes(), 0o600))
	ask("POST", "/v1/import?dryRun=1", signed(`"from": "`+exported+`", "to": "imported"`))
	for range 2 {
		ask("POST", "/v1/import", signed(`"from": "`+exported+`", "to": "imported"`))
	}
	ask("POST", "/v1/runs/m/tokens/ask/complete", signed(`"output": 1`))
	ask("POST", "/v1/runs/m/tokens/more/fail", signed(`"code": "x"`))
	ask("POST", "/v1/runs/m/tokens/more/retry", signed(`"input": "again"`))
	ask("POST", "/v1/runs/m/tokens/more/skip", signed(`"output": null`))
	ask("POST", "/v1/runs/m/signals", signed(`"name": "go"`))
	ask("POST", "/v1/runs/m/patches", signed(`"base": 1, "ops": [{"op": "add", "path": "/nodes/sum/timeout", "value": "1h"}]`))
	ask("POST", "/v1/runs/m/tokens/4/vote", signed(`"approved": true`))
	ask("POST", "/v1/runs/m/branches", signed(`"group": "g", "item": 3`))
	ask("POST", "/v1/runs/m/close-group", signed(`"group": "g"`))
	ask("POST", "/v1/runs/m/raise", signed(`"meta": {"cost": 2}`))
	ask("POST", "/v1/runs/m/cancel-nodes", signed(`"nodes": ["sum"]`))

	var missing []string
	d, _ := readDocument()
	for path, methods := range d.Paths {
		for method, op := range methods {
			for status, answer := range op.Responses {
				name := strings.ToUpper(method) + " " + path + " " + status
				if len(answer.Content) == 0 && status != "default" && !given[name] {
					missing = append(missing, name)
				}
				for media := range answer.Content {
					if !given[name+" "+media] {
						missing = append(missing, name+" "+media)
					}
				}
			}
		}
	}
	require.Empty(t, missing)
}
