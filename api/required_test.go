package api_test

import (
	"cmp"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
)

// fieldsOfBody returns the fields that a body may have, and those that it must have, as the document says.
func fieldsOfBody(t *testing.T, op operation) (all, required []string) {
	t.Helper()
	content, ok := op.RequestBody.Content["application/json"].(map[string]any)
	if !ok {
		return nil, nil
	}
	d, _ := readDocument()
	var add func(schema map[string]any)
	add = func(schema map[string]any) {
		if ref, ok := schema["$ref"].(string); ok {
			named := d.Components.Schemas[strings.TrimPrefix(ref, "#/components/schemas/")]
			all = append(all, slices.Collect(maps.Keys(named.Properties))...)
			required = append(required, named.Required...)
		}
		properties, _ := schema["properties"].(map[string]any)
		all = append(all, slices.Collect(maps.Keys(properties))...)
		names, _ := schema["required"].([]any)
		for _, name := range names {
			required = append(required, name.(string))
		}
		parts, _ := schema["allOf"].([]any)
		for _, part := range parts {
			add(part.(map[string]any))
		}
	}
	add(content["schema"].(map[string]any))
	return all, required
}

// An act without a reason is refused if, and only if, the document says that its body has one: a client that was made from the
// document does not leave out what is asked for.
func TestDocumentOfReasons(t *testing.T) {
	e, _ := openEngine(t, pawl.Options{})
	startOrder(t, e, "order-1")
	h := everything(e)
	d, _ := readDocument()
	const with = `{"by": "ann"`
	fill := map[string]string{"to": `"b"`, "from": `"/nothing"`, "group": `"g"`, "workflow": `"nothing"`, "approved": "true", "code": `"x"`, "nodes": `["approve"]`, "meta": `{"cost": 2}`}
	asked := 0
	for path, methods := range d.Paths {
		for method, op := range methods {
			all, required := fieldsOfBody(t, op)
			if !slices.Contains(all, "reason") {
				continue
			}
			var body strings.Builder
			body.WriteString(with)
			fill["do"] = cmp.Or(map[string]string{"/v1/approvals/batch": `"vote"`, "/v1/dead-letters/batch": `"retry"`}[path], `"cancel"`)
			for _, name := range slices.Sorted(maps.Keys(fill)) {
				mayHave := slices.Contains(all, name) && (!slices.Contains([]string{"group", "approved", "code", "nodes", "meta"}, name) || !slices.Contains(all, "do") || name == "approved" && path == "/v1/approvals/batch")
				if mayHave {
					value := fill[name]
					if strings.HasPrefix(path, "/v1/schedules") {
						value = `"2026-01-01T00:00:00Z"`
					}
					body.WriteString(`, "` + name + `": ` + value)
				}
			}
			body.WriteString("}")
			at := strings.NewReplacer("{run}", "order-1", "{token}", "1").Replace(path)
			status, answer := send(t, h, strings.ToUpper(method), at, body.String())
			refused := status == http.StatusBadRequest && strings.Contains(answer, "reason must say why")
			require.Equal(t, refused, slices.Contains(required, "reason"), "%s %s: %s", method, path, answer)
			asked++
		}
	}
	require.Greater(t, asked, len(api.ActFields()))
}

// An act without a field is refused for that if, and only if, the document says that its body has one.
func TestDocumentOfNeeds(t *testing.T) {
	e, _ := openEngine(t, pawl.Options{})
	startOrder(t, e, "order-1")
	h := everything(e)
	d, _ := readDocument()
	fill := map[string]string{
		"reason": `"x"`, "name": `"go"`, "base": "1", "ops": `[{"op": "remove", "path": "/nodes/none"}]`, "nodes": `["none"]`, "group": `"g"`, "meta": `{"cost": 2}`,
		"approved": "false", "code": `"x"`, "from": `"2026-01-01T00:00:00Z"`, "to": `"2026-01-01T01:00:00Z"`,
	}
	asked := 0
	send(t, h, "PUT", "/v1/definitions/order/1", toJSON(t, order))
	status, body := send(t, h, "PUT", "/v1/schedules", signed(`"schedules": [{"id": "s", "workflow": {"name": "order"}, "every": "1h", "input": {"item": "'x'"}}]`))
	require.Equal(t, http.StatusOK, status, body)
	for path, methods := range d.Paths {
		_, required := fieldsOfBody(t, methods["post"])
		at := strings.NewReplacer("{run}", "order-1", "{token}", "approve", "{schedule}", "s").Replace(path) + "?dryRun=1"
		switch {
		case strings.HasSuffix(path, "/backfill"):
			at = strings.TrimSuffix(at, "?dryRun=1")
		case !slices.Contains(required, "reason") || !strings.HasPrefix(path, "/v1/runs/{run}/") || strings.HasSuffix(path, "/forks"):
			continue
		}
		ask := func(left string) (int, string) {
			body := `{"by": "ann"`
			for _, name := range required {
				if name != left {
					body += `, "` + name + `": ` + fill[name]
				}
			}
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost"+at, strings.NewReader(body+"}"))
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return w.Code, w.Body.String()
		}
		for _, name := range required {
			status, answer := ask(name)
			require.Equal(t, http.StatusBadRequest, status, "%s without %s: %s", path, name, answer)
			asked++
		}
		_, answer := ask("")
		require.NotRegexp(t, " (must|needs) ", answer, path)
	}
	require.Equal(t, 14+9+1+3, asked, "acts, their fields, a purge and a backfill")
}
