package api_test

import (
	"cmp"
	"maps"
	"net/http"
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
