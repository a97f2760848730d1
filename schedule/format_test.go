package schedule

import (
	"encoding/json"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/document"
	"github.com/pawl-run/pawl/internal/schema"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/workflow"
)

// readSchema returns schedule.schema.json.
func readSchema(t *testing.T) map[string]any {
	data, err := os.ReadFile("schedule.schema.json")
	require.NoError(t, err)
	doc, err := value.Decode(data, value.Limits{})
	require.NoError(t, err)
	return doc.(map[string]any)
}

// The schema, the Go types and the format have the same fields and values.
func TestSchemaNamesTheFields(t *testing.T) {
	require.Len(t, enumerations, len(lists), "each type of listed values has its list")
	compareFields(t, reflect.TypeFor[Schedule](), readSchema(t)["$defs"].(map[string]any)["schedule"].(map[string]any), fieldsOf(&Schedule{}))
}

// lists are the lists of the enumerations.
var lists = map[reflect.Type][]string{
	reflect.TypeFor[Overlap](): textsOf(overlaps), reflect.TypeFor[Missing](): textsOf(missings), reflect.TypeFor[Repeated](): textsOf(repeateds),
}

func textsOf[T ~string](values []T) []string { return strings.Split(joinValues(values), ", ") }

func compareFields(t *testing.T, goType reflect.Type, schema map[string]any, fields []field) {
	require.Equal(t, false, schema["additionalProperties"])
	properties := schema["properties"].(map[string]any)
	var names []string
	for i := range goType.NumField() {
		f := goType.Field(i)
		if !f.IsExported() {
			continue
		}
		name := strings.ToLower(f.Name[:1]) + f.Name[1:]
		switch f.Name {
		case "ID", "DST":
			name = strings.ToLower(f.Name)
		}
		names = append(names, name)
		p, ok := properties[name].(map[string]any)
		require.True(t, ok, name)
		require.NotEmpty(t, p["description"], name)
		switch list, isEnum := lists[f.Type]; {
		case isEnum:
			var have []string
			for _, v := range p["enum"].([]any) {
				have = append(have, v.(string))
			}
			require.Equal(t, list, have, name)
		case f.Type.Kind() == reflect.Struct && f.Type != reflect.TypeFor[time.Time]():
			compareFields(t, f.Type, p, nil)
		}
	}
	for _, f := range fields {
		require.Contains(t, names, f.name)
	}
	require.True(t, fields == nil || len(fields) == len(names))
	require.Len(t, properties, len(names))
}

// The schema accepts a file of schedules, and refuses one with a schedule that has no form, two, or a number for a duration.
func TestSchemaAccepts(t *testing.T) {
	schema, err := schema.Compile(readSchema(t))
	require.NoError(t, err)
	check := func(text string) error {
		e, err := document.Reader{Noun: "schedule", Depth: 100}.ReadYAML([]byte(text))
		require.NoError(t, err)
		return schema.Check(newReader().ReadValue(e))
	}
	require.NoError(t, check(nightly))
	for _, text := range []string{"schedules: [{id: a}]", "schedules: [{id: a, workflow: {name: w}, every: 1m, at: ['2026-12-01T00:00:00Z']}]", "schedules: [{id: a, workflow: {name: w}, every: 90}]"} {
		require.Error(t, check(text), text)
	}
}

// FuzzParse holds that no text makes Parse, Check or the first instants panic, and that what is read, and has no problem,
// is the same when it is written and read again.
func FuzzParse(f *testing.F) {
	f.Add([]byte(nightly))
	f.Add([]byte(`{"schedules":[{"id":"a","workflow":{"name":"w"},"cron":["@daily","*/5 1-3,MON 1/2 JAN SUN-SUN"],"except":["0 0 29 2 */6"],"timezone":"Asia/Beirut"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		set, err := Parse(data)
		if err != nil || slices.ContainsFunc(Check(set, time.Time{}), func(p workflow.Problem) bool { return !p.Warning }) {
			return
		}
		for i := range set {
			tt, err := Compile(&set[i])
			require.NoError(t, err)
			first, ok := tt.Next(time.Unix(0, 0))
			if second, more := tt.Next(first.At); ok && more {
				require.True(t, first.At.Before(second.At))
			}
		}
		text, err := json.Marshal(map[string]any{"schedules": set})
		require.NoError(t, err)
		again, err := Parse(text)
		require.NoError(t, err)
		second, err := json.Marshal(map[string]any{"schedules": again})
		require.NoError(t, err)
		require.Equal(t, string(text), string(second))
	})
}

// The page has an example that is a file of schedules, and names each field and each value.
func TestPage(t *testing.T) {
	page, err := os.ReadFile("../docs/schedules.md")
	require.NoError(t, err)
	_, example, found := strings.Cut(string(page), "```yaml\n")
	require.True(t, found)
	example, _, _ = strings.Cut(example, "```")
	set, err := Parse([]byte(example))
	require.NoError(t, err)
	require.Empty(t, Check(set, time.Time{}))
	for _, f := range fieldsOf(&Schedule{}) {
		require.Contains(t, string(page), "`"+f.name+"`")
	}
	for _, values := range lists {
		for _, v := range values {
			require.Contains(t, string(page), v)
		}
	}
	for text := range macros {
		if text != "@midnight" && text != "@annually" { // other words for two of them
			require.Contains(t, string(page), "`"+text+"`")
		}
	}
}
