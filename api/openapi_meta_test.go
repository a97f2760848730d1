package api_test

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/pawl-run/pawl/api"
)

// strictMeta is the schema of OpenAPI 3.1 documents, whose schemas are JSON Schemas of 2020-12: the one of OpenAPI alone does not look
// into them.
const strictMeta = `{
	"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "https://pawl.example/strict",
	"$ref": "https://spec.openapis.org/oas/3.1/schema/2022-10-07",
	"$defs": {"schema": {"$dynamicAnchor": "meta", "$ref": "https://json-schema.org/draft/2020-12/schema"}}
}`

// compileMeta returns the schema of strictMeta.
func compileMeta(t *testing.T) *jsonschema.Schema {
	t.Helper()
	text, err := os.ReadFile("testdata/openapi-3.1-2022-10-07.json")
	require.NoError(t, err)
	c := jsonschema.NewCompiler()
	for id, text := range map[string]string{"https://spec.openapis.org/oas/3.1/schema/2022-10-07": string(text), "https://pawl.example/strict": strictMeta} {
		doc, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		require.NoError(t, err)
		require.NoError(t, c.AddResource(id, doc))
	}
	schema, err := c.Compile("https://pawl.example/strict")
	require.NoError(t, err)
	return schema
}

// The document is one of OpenAPI 3.1, and each of its schemas a JSON Schema, as the schemas of both say: generators of clients read it.
// Documents with a field that does not exist, and with a type that does not, are none.
func TestDocumentIsOpenAPI(t *testing.T) {
	schema := compileMeta(t)
	validate := func(text []byte) error {
		var raw any
		require.NoError(t, yaml.Unmarshal(text, &raw))
		asJSON, err := json.Marshal(raw)
		require.NoError(t, err)
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(asJSON))
		require.NoError(t, err)
		return schema.Validate(doc)
	}
	require.NoError(t, validate(api.OpenAPI))
	for good, bad := range map[string]string{
		"operationId: doBatch": "operation: doBatch", "openapi: 3.1": "openapi: 3.0", "in: query": "in: body",
		"schema: {type: string}": "schema: {type: text}", "format: date-time": "required: yes",
	} {
		require.Contains(t, string(api.OpenAPI), good)
		require.Error(t, validate([]byte(strings.Replace(string(api.OpenAPI), good, bad, 1))), bad)
	}
}
