package workflow

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/document"
	"github.com/pawl-run/pawl/internal/problem"
	"github.com/pawl-run/pawl/internal/schema"
	"github.com/pawl-run/pawl/internal/value"
)

func publishedSchema(t testing.TB) map[string]any {
	doc, err := value.Decode([]byte(readFile(t, "definition.schema.json")), value.Limits{})
	require.NoError(t, err)
	return doc.(map[string]any)
}

// TestPublishedSchemaNamesTheFields holds definition.schema.json against the Go
// types and against the tables of the format, both ways.
func TestPublishedSchemaNamesTheFields(t *testing.T) {
	w := schemaWalk{t, publishedSchema(t)}
	w.object(reflect.TypeFor[Definition](), w.root, "definition")
}

type schemaWalk struct {
	t    *testing.T
	root map[string]any
}

func (w schemaWalk) resolve(s map[string]any) map[string]any {
	ref, ok := s["$ref"].(string)
	if !ok {
		return s
	}
	return w.root["$defs"].(map[string]any)[strings.TrimPrefix(ref, "#/$defs/")].(map[string]any)
}

// object compares the fields of a struct with the properties of a schema.
func (w schemaWalk) object(goType reflect.Type, s map[string]any, path string) {
	require.Equal(w.t, false, s["additionalProperties"], path)
	require.NotEmpty(w.t, s["description"], path)
	properties := s["properties"].(map[string]any)
	var fields []string
	for i := range goType.NumField() {
		f := goType.Field(i)
		nested := goType == reflect.TypeFor[WaitSpec]() && f.Name == "Any" && strings.HasSuffix(path, "[]")
		if !f.IsExported() || nested {
			continue
		}
		name := camel(f.Name)
		fields = append(fields, name)
		require.Contains(w.t, properties, name, path)
		p := properties[name].(map[string]any)
		require.NotEmpty(w.t, p["description"], path+"."+name)
		w.value(f.Type, w.resolve(p), path+"."+name)
	}
	require.ElementsMatch(w.t, fields, sortedKeys(properties), path)
}

func (w schemaWalk) value(goType reflect.Type, s map[string]any, path string) {
	for goType.Kind() == reflect.Pointer {
		goType = goType.Elem()
	}
	if values := enumerated(goType); values != nil {
		if goType.Kind() == reflect.Struct { // a word or a quorum
			s = w.resolve(s["oneOf"].([]any)[0].(map[string]any))
		}
		require.ElementsMatch(w.t, values, texts(s["enum"]), path)
		return
	}
	switch goType {
	case reflect.TypeFor[Tolerance]():
		require.Equal(w.t, []string{"failureRatio", "failures"}, sortedKeys(s["properties"].(map[string]any)), path)
		return
	case reflect.TypeFor[EndSpec]():
		w.object(goType, s["oneOf"].([]any)[1].(map[string]any), path)
		return
	}
	want := map[reflect.Kind]string{
		reflect.Int: "integer", reflect.Uint64: "integer", reflect.Int64: "integer", reflect.Float64: "number", reflect.Bool: "boolean",
		reflect.Slice: "array", reflect.Map: "object", reflect.Struct: "object", reflect.String: "string", reflect.Interface: "object",
	}[goType.Kind()]
	if goType == reflect.TypeFor[time.Duration]() {
		want = "string"
	}
	require.NotEmpty(w.t, want, "%s: %s", path, goType)
	if strings.HasSuffix(path, "merge.strategy") {
		require.Equal(w.t, mergeStrategies, texts(s["enum"]))
		return
	}
	require.Contains(w.t, typesOf(s), want, path)
	switch goType.Kind() {
	case reflect.Struct:
		w.object(goType, s, path)
	case reflect.Slice:
		w.value(goType.Elem(), w.resolve(s["items"].(map[string]any)), path+"[]")
	default:
	}
}

func typesOf(s map[string]any) []string {
	if one, ok := s["type"].(string); ok {
		return []string{one}
	}
	return texts(s["type"])
}

func texts(list any) []string {
	items, _ := list.([]any)
	out := make([]string, len(items))
	for i, e := range items {
		out[i] = e.(string)
	}
	return out
}

// camel returns the name of a Go field in the format: CELCost is celCost.
func camel(name string) string {
	runes := []rune(name)
	for i := range runes {
		if i > 0 && i+1 < len(runes) && unicode.IsLower(runes[i+1]) || !unicode.IsUpper(runes[i]) {
			break
		}
		runes[i] = unicode.ToLower(runes[i])
	}
	return string(runes)
}

// TestFormatNamesTheFields holds the tables of the format against the Go types.
func TestFormatNamesTheFields(t *testing.T) {
	for _, c := range []struct {
		goType reflect.Type
		fields []field
	}{
		{reflect.TypeFor[Definition](), definitionFormat(&Definition{})},
		{reflect.TypeFor[InputSpec](), inputFormat(&InputSpec{})},
		{reflect.TypeFor[StateSpec](), stateFormat(&StateSpec{})},
		{reflect.TypeFor[OutputSpec](), outputFormat(&OutputSpec{})},
		{reflect.TypeFor[Limits](), limitsFormat(&Limits{})},
		{reflect.TypeFor[Node](), nodeFormat(&Node{})},
		{reflect.TypeFor[SubworkflowSpec](), subworkflowFormat(&SubworkflowSpec{})},
		{reflect.TypeFor[ApprovalSpec](), approvalFormat(&ApprovalSpec{})},
		{reflect.TypeFor[WaitSpec](), waitFormat(&WaitSpec{})},
		{reflect.TypeFor[RetrySpec](), retryFormat(&RetrySpec{})},
		{reflect.TypeFor[Transition](), transitionFormat(&Transition{})},
		{reflect.TypeFor[Foreach](), foreachFormat(&Foreach{})},
		{reflect.TypeFor[Loop](), loopFormat(&Loop{})},
		{reflect.TypeFor[Synchronization](), synchronizationFormat(&Synchronization{})},
		{reflect.TypeFor[Merge](), mergeFormat(&Merge{})},
	} {
		var want, got []string
		for i := range c.goType.NumField() {
			if f := c.goType.Field(i); f.IsExported() {
				want = append(want, camel(f.Name))
			}
		}
		for _, f := range c.fields {
			got = append(got, f.name)
		}
		require.Equal(t, want, got, c.goType.String())
	}
}

func TestPublishedSchemaLimits(t *testing.T) {
	properties := publishedSchema(t)["properties"].(map[string]any)["limits"].(map[string]any)["properties"].(map[string]any)
	most := DefaultLimits()
	for name, v := range writeFields(limitsFormat(&most)) {
		n, err := value.Normalize(v, value.Limits{})
		require.NoError(t, err)
		require.Equal(t, n, properties[name].(map[string]any)["maximum"], name)
	}
}

// TestPublishedSchemaFits: it takes every good definition, and what MarshalJSON
// makes of it, and refuses what the parser refuses.
func TestPublishedSchemaFits(t *testing.T) {
	schema, err := schema.Compile(publishedSchema(t))
	require.NoError(t, err)
	for file, text := range goodDefinitions(t) {
		require.NoError(t, schema.Check(valueOf(t, definitionTexts.ReadYAML, text)), file)
		d, err := Parse([]byte(text))
		require.NoError(t, err)
		data, err := d.MarshalJSON()
		require.NoError(t, err)
		require.NoError(t, schema.Check(valueOf(t, definitionTexts.ReadJSON, string(data))), file)
	}
	refused := 0
	datadriven.Walk(t, "testdata/bad", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			read := map[string]func([]byte) (*document.Element, error){"json": definitionTexts.ReadJSON, "yaml": definitionTexts.ReadYAML}[d.Cmd]
			v := valueOf(t, read, d.Input)
			bad := problemsOf(t, d.Cmd, d.Input)
			parsed := !slices.ContainsFunc(bad, isFromParser)
			if v != nil && !parsed {
				require.Error(t, schema.Check(v), "%s", d.Input)
				refused++
			}
			return d.Expected
		})
	})
	require.Greater(t, refused, 10)
}

func isFromParser(p Problem) bool {
	return p.Code == problem.UnknownField || p.Code == problem.WrongType
}

// valueOf reads a text as a value, nil if it has none.
func valueOf(t *testing.T, read func([]byte) (*document.Element, error), text string) any {
	e, err := read([]byte(text))
	if err != nil {
		return nil
	}
	p := newParser(place{})
	p.owner.places = &places{}
	v := p.ReadValue(e)
	if len(p.problems) > 0 {
		return nil
	}
	return v
}

func TestPublishedSchemaTakesChoices(t *testing.T) {
	schema, err := schema.Compile(publishedSchema(t))
	require.NoError(t, err)
	for text, ok := range map[string]bool{
		`"all"`: true, `"any"`: true, `"synchronize"`: true, `{"mOfN": 2}`: true, `{"mOfN": 0}`: false, `{}`: false, `"some"`: false, `2`: false,
	} {
		doc := `{"name": "x", "nodes": [{"id": "a", "join": ` + text + `}]}`
		_, err := ParseJSON([]byte(doc))
		require.Equal(t, ok, err == nil, text)
		require.Equal(t, ok, schema.Check(valueOf(t, definitionTexts.ReadJSON, doc)) == nil, text)
	}
}
