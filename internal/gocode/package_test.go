package gocode

import (
	"bytes"
	"go/ast"
	"go/format"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/workflow"
)

func readDefinition(t *testing.T, path string) *workflow.Definition {
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	d, err := workflow.Parse(data)
	require.NoError(t, err)
	return d
}

func writePackage(t *testing.T, d *workflow.Definition, o Options) []byte {
	text, err := Package(d, o)
	require.NoError(t, err)
	again, err := Package(d, o)
	require.NoError(t, err)
	require.Equal(t, string(text), string(again), "the same bytes each time")
	formatted, err := format.Source(text)
	require.NoError(t, err)
	require.Equal(t, string(text), string(formatted))
	return text
}

// The package of a definition is as it was when somebody looked at it. Rewrite it with -rewrite.
func TestPackage(t *testing.T) {
	got := writePackage(t, readDefinition(t, "testdata/order.yaml"), Options{File: "order.yaml", Output: "order.go"})
	path := filepath.Join("testdata", "order.txt")
	if *rewrite {
		require.NoError(t, os.WriteFile(path, got, 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), string(got))
}

// hostile is a definition whose names are what Go would rather not have.
const hostile = `
name: "type"
input:
  schema:
    type: object
    required: [func, Func, a-b, a_b]
    description: "*/ package\n//go:build ignore\n\u2028\uFEFF"
    properties:
      func: {type: string}
      Func: {type: integer}
      a-b: {type: boolean}
      a_b: {enum: ["", " ", "a-b", a_b, "日本", "9"]}
      "-": {type: string}
      "9": {type: [integer, string]}
      日本: {type: string, description: "` + "`\\\"" + `"}
      self: {$ref: "#"}
      input: {type: object, properties: {item: {type: array, items: {type: array, items: {type: object, properties: {x: {type: string}}}}}}}
      inputItem: {type: object, properties: {y: {type: number}}}
      none: {allOf: [{type: string}, {maxLength: 3}]}
      maybe: {anyOf: [{$ref: "#/properties/inputItem"}, {type: "null"}]}
      bad: {type: object, properties: {"a,b": {type: string}, 'q"q': {type: string}}}
      open: {type: object, properties: {a: {type: string}}, additionalProperties: {type: integer}}
      tuple: {type: array, prefixItems: [{type: string}]}
      bytes: {type: string, contentEncoding: base64}
      any: true
output: {mapping: {"select": input.func, "Select": "1", "a,b": "2"}}
start: "go"
nodes:
  - {id: "go", task: "for", input: {"range": input.func, "Range": "1", "type": input.self}}
  - {id: "Go", task: "For", input: {"range": "1"}}
  - {id: "go!", task: "for", input: {"range": "'x'", "more": input.maybe}}
  - {id: "9", task: "9"}
  - {id: "日本", task: "日本", output: {output.x: result}}
  - {id: "\"", task: "\"", input: {"a,b": "1"}}
  - {id: "wait", wait: {event: "paid*/"}}
transitions:
  - {from: "go", to: "Go", siblingGroup: "for;ever"}
  - {from: "Go", to: "go!", synchronization: {siblingGroup: "for;ever"}}
  - {from: "go!", to: "9", outcome: error, errors: [input, Input, "in.put"]}
  - {from: "go!", to: "日本"}
  - {from: "9", to: "\""}
  - {from: "日本", to: "wait"}
`

// The packages of all patterns and examples have the types that they say.
func TestPackagesOfPatterns(t *testing.T) {
	harness.InTurn(t, 4)
	list := exec.CommandContext(t.Context(), "go", "list", "-export", "-deps", "-f", "{{if .Export}}{{.ImportPath}} {{.Export}}{{end}}", "github.com/pawl-run/pawl")
	out, err := list.Output()
	require.NoError(t, err)
	exports := map[string]string{}
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		exports[path] = file
	}
	fset := token.NewFileSet()
	check := types.Config{Importer: importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })}
	for _, n := range append(definitionsOf(t, "../../testdata/patterns/*.yaml", 43), examples(t)...) {
		if n.definition.Validate() != nil {
			continue
		}
		text := writePackage(t, n.definition, Options{File: n.name})
		f, err := parser.ParseFile(fset, n.name, text, 0)
		require.NoError(t, err, "%s", text)
		_, err = check.Check(n.name, fset, []*ast.File{f}, nil)
		require.NoError(t, err, "%s", text)
	}
}

// A program that uses the package of a definition stops being compiled when the definition changes what the program says. Hostile names are no matter.
func TestPackagesCompile(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, text []byte) {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, text, 0o600))
	}
	write("hostile/hostile.go", writePackage(t, workflow.MustParse([]byte(hostile)), Options{File: "a b\n.yaml", Output: "x y.go"}))
	for name, o := range odd {
		d := workflow.MustParse([]byte(o.text))
		write("odd/"+name+"/odd.go", writePackage(t, d, Options{File: "odd.yaml"}))
		calls, err := BuilderPackage(d, "calls")
		require.NoError(t, err)
		write("odd/"+name+"/calls/calls.go", calls)
	}
	before, err := os.ReadFile("testdata/order.yaml")
	require.NoError(t, err)
	caller, err := os.ReadFile("testdata/caller.txt")
	require.NoError(t, err)
	changes := map[string][2]string{ // what changes, and what a caller then reads
		"input":   {"customer", "client"},
		"type":    {"express: {type: boolean}", "express: {type: string}"},
		"signal":  {"paid", "settled"},
		"payload": {"[cents], properties: {cents: {type: integer}, by", "[amount], properties: {amount: {type: integer}, by"},
		"node":    {"id: ship, ", "id: send, "},
		"task":    {"task: quote", "task: ask"},
		"element": {"quantity: line.quantity", "number: line.quantity"},
		"code":    {"no_address", "nowhere"},
	}
	tried := append(harness.Today(t, 8, slices.Sorted(maps.Keys(changes))), "same")
	changes["same"] = [2]string{"Is this order fine?", "Is it fine?"}
	for _, name := range tried {
		change := changes[name]
		after := strings.ReplaceAll(string(before), change[0], change[1])
		if name == "node" {
			after = strings.NewReplacer("to: ship,", "to: send,", "from: ship,", "from: send,", "nodes.ship.", "nodes.send.").Replace(after)
		}
		require.NotEqual(t, string(before), after)
		write(name+"/order/order.go", writePackage(t, workflow.MustParse([]byte(after)), Options{File: "order.yaml"}))
		write("caller/"+name+"/caller.go", bytes.ReplaceAll(caller, []byte("PACKAGE"), []byte(name+"/order")))
	}
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	write("go.mod", []byte("module callers\n\ngo 1.26\n"))
	write("go.work", []byte("go 1.26.0\nuse "+strconv.Quote(root)+"\nuse .\n"))
	cmd := exec.CommandContext(t.Context(), "go", "build", "./...")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK="+filepath.Join(dir, "go.work"))
	out, _ := cmd.CombinedOutput()
	for _, name := range tried {
		refused := strings.Contains(string(out), "caller/"+name+"/caller.go:")
		require.Equal(t, name != "same", refused, "%s: %s", name, out)
	}
	for line := range strings.Lines(string(out)) {
		require.True(t, strings.HasPrefix(line, "#") || strings.Contains(line, "caller/"), "%s", out)
	}
}

// Every field of the structs that calls take as they are can be written.
func TestStructsAreWhole(t *testing.T) {
	for name, typ := range map[string]reflect.Type{
		"workflow.Limits": reflect.TypeFor[workflow.Limits](), "workflow.Merge": reflect.TypeFor[workflow.Merge](),
		"workflow.RetrySpec": reflect.TypeFor[workflow.RetrySpec](), "workflow.ApprovalSpec": reflect.TypeFor[workflow.ApprovalSpec](),
		"workflow.WaitSpec": reflect.TypeFor[workflow.WaitSpec](), "workflow.SubworkflowSpec": reflect.TypeFor[workflow.SubworkflowSpec](),
		"workflow.EndSpec": reflect.TypeFor[workflow.EndSpec](), "workflow.Synchronization": reflect.TypeFor[workflow.Synchronization](),
	} {
		var want, have []string
		for f := range typ.Fields() {
			if f.Name != "SiblingGroup" { // the group's own name
				want = append(want, f.Name)
			}
		}
		for _, m := range membersOf(name) {
			have = append(have, m.name)
		}
		require.ElementsMatch(t, want, have, name)
	}
}

func TestIdentifiers(t *testing.T) {
	for name, want := range map[string]string{
		"order_id": "OrderID", "orderId": "OrderID", "ORDER": "ORDER", "http-url": "HTTPURL", "": "X", "--": "X", "9lives": "X9lives", "日本": "X日本", "éclair": "Éclair", "a.b[c]": "ABC", "ǆ": "Ǆ",
	} {
		require.Equal(t, want, Identifier(name), name)
	}
	for name, want := range map[string]string{"order": "order", "type": "flowtype", "Ann.Sum": "annsum", "9": "flow9", "main": "flowmain", "": "flow", "日本": "日本"} {
		require.Equal(t, want, packageName(name), name)
	}
}
