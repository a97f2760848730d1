package pawltest

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/document"
)

const head = "scenario: s\ndefinition: {name: d, start: a, nodes: [{id: a, task: t}]}\n"

// Every field of a scenario that is a number, a text or a flag can be read.
func TestScalarsAreRead(t *testing.T) {
	var look func(goType reflect.Type, path string)
	seen := map[reflect.Type]bool{}
	look = func(goType reflect.Type, path string) {
		if goType == reflect.TypeFor[time.Duration]() {
			return
		}
		switch goType.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map:
			look(goType.Elem(), path)
		case reflect.Struct:
			if seen[goType] || goType == reflect.TypeFor[document.Element]() || goType == reflect.TypeFor[optional]() {
				return
			}
			seen[goType] = true
			for i := range goType.NumField() {
				if f := goType.Field(i); f.Tag.Get("yaml") != "" || f.Anonymous {
					look(f.Type, path+"."+f.Name)
				}
			}
		case reflect.Interface:
		default:
			require.Contains(t, scalarKinds, goType.Kind(), path)
		}
	}
	look(reflect.TypeFor[scenarioFields](), "scenario")
	require.Greater(t, len(seen), 5)
}

// A text that cannot be read as a scenario is refused, with its place.
func TestLoadErrors(t *testing.T) {
	tests := []struct{ text, want string }{
		{"", "s.yaml: the file is empty"},
		{"scenario: [", "s.yaml:1: did not find expected node content"},
		{"a: 1", `s.yaml:1:1: unknown field "a"; there are: definition, definitions, events, expect, file, input, metaLimits, mocks, scenario, schedule`},
		{"- 1", "s.yaml:1:1: a list, not a mapping"},
		{head, "s.yaml:1:1: a scenario needs expect"},
		{"expect: {}", "s.yaml:1:1: a scenario needs a name, in the field scenario"},
		{"scenario: s\nexpect: {}", "s.yaml:1:1: a scenario has either a definition or a file"},
		{head + "file: x\nexpect: {}", "s.yaml:1:1: a scenario has either a definition or a file"},
		{"scenario: s\nfile: nowhere.yaml\nexpect: {}", "s.yaml:1:1: file: nowhere.yaml: no such file or directory"},
		{"scenario: 7\nexpect: {}", "s.yaml:1:11: scenario: an integer, not a string"},
		{head + "expect:\n  satus: failed", `s.yaml:4:3: unknown field "satus"`},
		{head + "expect: {status: fine}", `s.yaml:1:1: expect: status: "fine" is none of completed, failed`},
		{head + "expect: {status: failed, status: failed}", `s.yaml:3:26: expect: "status" is there twice`},
		{head + "expect: {duration: 3}", "s.yaml:3:20: expect: duration: not a duration such as 30s or 1h30m"},
		{head + "expect: {nodes: {a: x}}", "s.yaml:3:21: expect: nodes: a: a string, not an integer"},
		{head + "expect: {nodes: {z: 1}}", `s.yaml:3:18: expect: nodes: no definition has a node "z"`},
		{head + "expect: {never: [z]}", `s.yaml:3:18: expect: never: no definition has a node "z"`},
		{head + "expect:\n  path:\n    - a\n    - z", `s.yaml:6:7: expect: path: no definition has a node "z"`},
		{head + "expect: {before: [[a, z]]}", `s.yaml:3:23: expect: before: no definition has a node "z"`},
		{head + "expect: {events: {workflow.complete: 0}}", `s.yaml:3:19: expect: events: there is no event type "workflow.complete"; did you mean "workflow.completed"?`},
		{head + "expect: {forks: {b: {events: {x.y: 0}}}}\nevents: [{at: 1s, fork: {as: b}}]", `s.yaml:3:31: expect: forks: events: there is no event type "x.y"`},
		{head + "events: [{at: 1s, simulate: {expect: {events: {x: 1}}}}]\nexpect: {}", `s.yaml:3:48: events: simulate: expect: events: there is no event type "x"`},
		{head + "expect: {children: {zz: []}}", `s.yaml:3:21: expect: children: there is no definition "zz"`},
		{head + "definitions: [{name: child, start: b, nodes: [{id: b, wait: {for: 1s}}]}]\nexpect: {children: {chld: []}}", `s.yaml:4:21: expect: children: there is no definition "chld"; did you mean "child"?`},
		{head + "mocks: {a: {output: {}}}\nexpect: {}", "s.yaml:3:12: mocks: a: a mock is a list of calls, such as [{output: {}}], or {byIndex"},
		{head + "mocks: {a: 7}\nexpect: {}", "s.yaml:3:12: mocks: a: a mock is a list of calls"},
		{head + "expect: {before: [[a]]}", "s.yaml:1:1: expect: before: a list of pairs of nodes"},
		{head + "expect: {rejected: [0]}", "s.yaml:1:1: expect: rejected: there is no event 0; the first is 0"},
		{head + "mocks: {z: []}\nexpect: {}", `s.yaml:3:9: mocks: no definition has a node "z"`},
		{head + "mocks: {a: [{expr: 'x +'}]}\nexpect: {}", "s.yaml:3:20: mocks: a: expr: "},
		{head + "mocks: {a: [{delay: -1s}]}\nexpect: {}", "s.yaml:3:21: mocks: a: delay: a duration is not negative, and whole milliseconds"},
		{head + "mocks: {a: {byIndex: {x: []}}}\nexpect: {}", `s.yaml:3:12: mocks: a: byIndex: "x" is neither the index of a branch nor "*", for all others`},
		{head + "events: [{cancel: true}]\nexpect: {}", "s.yaml:3:10: events: an event needs at"},
		{head + "events: [{at: 1s}]\nexpect: {}", "s.yaml:3:10: events: an event is exactly one thing, not 0"},
		{head + "events: [{at: 1s, cancel: true, pause: true}]\nexpect: {}", "s.yaml:3:10: events: an event is exactly one thing, not 2"},
		{head + "events: [{at: 1s, fork: {as: a/b}}]\nexpect: {}", "s.yaml:1:1: fork: as: a fork needs a name without a slash"},
		{head + "events: [{at: 1s, fork: {as: scenario}}]\nexpect: {}", `s.yaml:1:1: fork: as: "scenario" is the scenario's own run`},
		{head + "expect: {forks: {b: {}}}", `s.yaml:1:1: expect: forks: no event makes the fork "b"`},
		{head + "events: [{at: 1s, simulate: {try: [{at: 1s, cancel: true}]}}]\nexpect: {}", "s.yaml:3:36: events: simulate: try: what is tried has neither at nor run"},
		{head + "events: [{at: 1s, simulate: {try: [{crash: true}]}}]\nexpect: {}", "s.yaml:3:36: events: simulate: try: a crash, a fork, a simulation and a replay cannot be tried"},
		{head + "events: [{at: 1s, simulate: {try: [{}]}}]\nexpect: {}", "s.yaml:3:36: events: simulate: try: an event is exactly one thing, not 0"},
		{head + "events: [{at: 1s, cancel: true, downtime: 1s}]\nexpect: {}", "s.yaml:3:10: events: downtime goes with crash"},
		{head + "events:\n  - {at: 1s, retry: {nod: a}}\nexpect: {}", `s.yaml:4:22: unknown field "nod"`},
		{head + "expect: {}\n---\nscenario: second\nexpect: {}", "s.yaml:5:1: a scenario has either"},
	}
	for _, tt := range tests {
		folder := t.TempDir()
		path := filepath.Join(folder, "s.yaml")
		require.NoError(t, os.WriteFile(path, []byte(tt.text), 0o600))
		_, err := Load(path)
		var at *FileError
		require.ErrorAs(t, err, &at, tt.text)
		assert.Contains(t, err.Error(), filepath.Join(folder, tt.want), tt.text)
	}
	_, err := Load(filepath.Join(t.TempDir(), "nothing"))
	assert.ErrorIs(t, err, os.ErrNotExist)
	_, err = Load(t.TempDir())
	assert.ErrorContains(t, err, "no file in it holds a scenario")
}

// An expectation may count every type of event.
func TestEventTypesAreKnown(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "workflow", "event.go"))
	require.NoError(t, err)
	found := regexp.MustCompile(`EventType = "([^"]+)"`).FindAllStringSubmatch(string(text), -1)
	require.Len(t, eventTypes, len(found))
	for _, m := range found {
		assert.Contains(t, eventTypes, m[1])
	}
}

// Aliases do not make a small file stand for a huge document.
func TestLoadBomb(t *testing.T) {
	text := "scenario: s\na: &a [x, x, x, x, x, x, x, x, x, x]\n"
	for c := 'b'; c <= 'j'; c++ {
		p := "*" + string(c-1)
		text += string(c) + ": &" + string(c) + " [" + p + ", " + p + ", " + p + ", " + p + ", " + p + ", " + p + ", " + p + ", " + p + "]\n"
	}
	path := filepath.Join(t.TempDir(), "s.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	_, err := Load(path)
	assert.ErrorContains(t, err, "the document is too large: aliases stand for too much")
}

// A problem of a definition inside a scenario has its place in the scenario file,
// whether parsing or validating finds it.
func TestLoadPlaces(t *testing.T) {
	const text = `scenario: unknown field
definition:
  name: d
  start: a
  nodes:
    - {id: a, tsk: t}
expect: {}
---
scenario: no such node
definitions:
  - name: child
    start: nowhere
    nodes: [{id: a, task: t}]
definition: {name: d, start: a, nodes: [{id: a, task: t}]}
expect: {}
`
	path := filepath.Join(t.TempDir(), "s.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	scenarios, err := Load(path)
	require.NoError(t, err)
	require.Len(t, scenarios, 2)
	for i, want := range []string{`line 6:15: node "a": tsk: there is no such field`, "line 12:5: start: "} {
		r := Play(t, scenarios[i], Options{})
		require.Len(t, r.Failures, 1)
		assert.Equal(t, "expect.status", r.Failures[0].What)
		assert.Contains(t, r.Failures[0].Got, want)
	}
}

// A scenario takes numbers in every way of YAML, and integers of JSON's.
func TestLoadNumbers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.yaml")
	text := head + "input: [0x10, 1_000, .5, +3, 1e3, 18446744073709551616, !!float 7, -0, -0.0]\nexpect: {nodes: {a: 0x1}}\n"
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	scenarios, err := Load(path)
	require.NoError(t, err)
	assert.Equal(t, []any{int64(16), int64(1000), 0.5, int64(3), int64(1000), 18446744073709551616.0, int64(7), int64(0), int64(0)}, scenarios[0].document.Input.value)
	assert.Equal(t, 1, scenarios[0].document.Expect.Nodes["a"])
	require.NoError(t, os.WriteFile(path, []byte(head+"input: .inf\nexpect: {}\n"), 0o600))
	_, err = Load(path)
	assert.ErrorContains(t, err, "s.yaml:3:8: input: .inf is not a number of JSON")
	require.NoError(t, os.WriteFile(path, []byte(head+"input: 1e400\nexpect: {}\n"), 0o600))
	_, err = Load(path)
	assert.ErrorContains(t, err, "s.yaml:3:8: input: 1e400 cannot be held: number 1e400 is out of range")
}

// The files of a folder that can be read are, whatever is wrong with the others.
func TestLoadFolderWithBadFiles(t *testing.T) {
	folder := t.TempDir()
	for name, text := range map[string]string{"a.yaml": "a: [", "b.yaml": head + "expect: {}", "c.yaml": head} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
	}
	require.NoError(t, os.Mkdir(filepath.Join(folder, "d.yaml"), 0o700))
	scenarios, err := Load(folder)
	require.Len(t, scenarios, 1)
	assert.Equal(t, filepath.Join(folder, "b.yaml"), scenarios[0].File)
	assert.EqualError(t, err, filepath.Join(folder, "a.yaml:1: did not find expected node content")+"\n"+
		filepath.Join(folder, "c.yaml:1:1: a scenario needs expect"))
}

// The scenarios of a file that can be read are, whatever is wrong with the others.
func TestLoadFileWithBadScenarios(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.yaml")
	text := head + "expect: {}\n---\nscenario: lost\nfile: gone.yaml\nexpect: {}\n---\nscenario: mistyped\nexpected: {}\n---\n" + head + "expect: {}\n"
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	for _, at := range []string{path, filepath.Dir(path)} {
		scenarios, err := Load(at)
		require.Len(t, scenarios, 2)
		assert.Equal(t, []int{1, 12}, []int{scenarios[0].Line, scenarios[1].Line})
		assert.ErrorContains(t, err, path+":5:1: file: gone.yaml: no such file or directory\n"+path+`:10:1: unknown field "expected"`)
	}
}

// A definition may stand in a file of its own, which is not taken for a scenario.
func TestLoadFolder(t *testing.T) {
	folder := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(folder, name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
	}
	write("defs/d.yaml", "name: d\nstart: a\nnodes: [{id: a, task: t}]\n")
	write("defs/empty.yaml", "# a definition to come\n")
	write("a.yaml", "scenario: one\nfile: defs/d.yaml\nexpect: {path: [a]}\n")
	write("deep/b.yml", "scenario: two\nfile: ../defs/d.yaml\nexpect: {path: [a]}\n---\nscenario: three\nfile: ../defs/d.yaml\nexpect: {}\n")
	scenarios, err := Load(folder)
	require.NoError(t, err)
	var names []string
	for _, s := range scenarios {
		names = append(names, s.Name)
	}
	assert.Equal(t, []string{"one", "two", "three"}, names)
	Run(t, folder)
}

func schema(t *testing.T) *jsonschema.Schema {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema))
	require.NoError(t, err)
	c := jsonschema.NewCompiler()
	require.NoError(t, c.AddResource("mem:///scenario", doc))
	s, err := c.Compile("mem:///scenario")
	require.NoError(t, err)
	return s
}

// Every scenario of the repository fits the schema.
func TestSchema(t *testing.T) {
	s := schema(t)
	for _, folder := range folders(t) {
		paths, err := filepath.Glob(filepath.Join(folder, "*.y*ml"))
		require.NoError(t, err)
		require.NotEmpty(t, paths)
		for _, path := range paths {
			data, err := os.ReadFile(path)
			require.NoError(t, err)
			documents, err := scenarioTexts.ReadYAMLStream(data)
			require.NoError(t, err)
			for _, n := range documents {
				doc, err := jsonOf(n)
				require.NoError(t, err)
				text, err := json.Marshal(doc)
				require.NoError(t, err)
				v, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
				require.NoError(t, err)
				assert.NoError(t, s.Validate(v), "%s:%d", path, n.Line)
			}
		}
	}
}

// The schema has the fields that are read, and no others.
func TestSchemaFields(t *testing.T) {
	var doc map[string]any
	require.NoError(t, json.Unmarshal(Schema, &doc))
	at := func(path ...string) map[string]any {
		v := doc
		for _, key := range path {
			v = v[key].(map[string]any)
		}
		return v["properties"].(map[string]any)
	}
	tests := []struct {
		properties map[string]any
		read       any
	}{
		{at(), scenarioFields{}}, {at("$defs", "mock"), mock{}}, {at("$defs", "error"), mockError{}}, {at("$defs", "event"), event{}},
		{at("$defs", "event", "properties", "signal"), signalEvent{}}, {at("$defs", "event", "properties", "vote"), voteEvent{}},
		{at("$defs", "event", "properties", "result"), resultEvent{}}, {at("$defs", "group"), groupEvent{}},
		{at("$defs", "retry"), retryEvent{}}, {at("$defs", "skip"), skipEvent{}}, {at("$defs", "expect"), expectation{}},
		{at("$defs", "fork"), forkEvent{}}, {at("$defs", "given"), givenResult{}}, {at("$defs", "simulate"), simulateEvent{}},
		{at("$defs", "replay"), replayEvent{}}, {at("$defs", "standing"), standing{}},
		{at("properties", "schedule"), scheduling{}}, {at("$defs", "event", "properties", "schedule"), scheduleEvent{}},
		{at("$defs", "scheduled"), scheduleStanding{}}, {at("$defs", "fired"), firedRun{}},
	}
	for _, tt := range tests {
		var want, got []string
		typ := reflect.TypeOf(tt.read)
		for i := range typ.NumField() {
			if name := typ.Field(i).Tag.Get("yaml"); name != "" {
				want = append(want, name)
			}
		}
		for name := range tt.properties {
			got = append(got, name)
		}
		assert.ElementsMatch(t, want, got, typ.Name())
	}
}

// The page about scenario files names every field of the schema.
func TestSchemaIsDocumented(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "docs", "scenarios.md"))
	require.NoError(t, err)
	var doc any
	require.NoError(t, json.Unmarshal(Schema, &doc))
	var fields []string
	var collect func(v any)
	collect = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			if properties, ok := v["properties"].(map[string]any); ok {
				fields = append(fields, slices.Sorted(maps.Keys(properties))...)
			}
			for _, x := range v {
				collect(x)
			}
		case []any:
			for _, x := range v {
				collect(x)
			}
		}
	}
	collect(doc)
	require.Greater(t, len(fields), 50)
	for _, field := range fields {
		assert.Regexp(t, "`[^`\n]*\\b"+field+"\\b[^`\n]*`", string(page))
	}
}

// Any text is a list of scenarios or an error that names the file.
func FuzzLoad(f *testing.F) {
	f.Add(head + "expect: {}")
	f.Add("a: &a [*a]")
	f.Add("? {}\n: []")
	f.Fuzz(func(t *testing.T, text string) {
		path := filepath.Join(t.TempDir(), "s.yaml")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		_, err := Load(path)
		var at *FileError
		if err != nil && !errors.As(err, &at) {
			t.Errorf("%T: %v", err, err)
		}
	})
}

// A definition in a scenario has the bounds of one in a file.
func TestLoadDeepDefinition(t *testing.T) {
	deep := strings.Repeat("[", 130) + strings.Repeat("]", 130)
	path := filepath.Join(t.TempDir(), "s.yaml")
	text := "scenario: deep\ndefinition: {name: d, start: a, nodes: [{id: a}], state: {initial: {x: " + deep + "}}}\nexpect: {status: completed}\n"
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	_, err := Load(path)
	require.ErrorContains(t, err, "the definition has more than 128 levels")
}
