package diagram

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
	"pgregory.net/rapid"

	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/workflow"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

func compile(t testing.TB, text string) *compiled.Graph {
	t.Helper()
	d, err := workflow.Parse([]byte(text))
	require.NoError(t, err)
	g, err := compiled.Compile(workflow.Bounds{}, d)
	require.NoError(t, err)
	return g
}

// definitions returns the definitions of all patterns and examples, by name: the first of
// each scenario file, and of the examples the files, the texts in the programs, and what those left that have Go values.
func definitions(t *testing.T) map[string]*compiled.Graph {
	out := map[string]*compiled.Graph{}
	patterns, err := filepath.Glob("../../testdata/patterns/*.yaml")
	require.NoError(t, err)
	require.Len(t, patterns, 43)
	for _, path := range patterns {
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		var doc struct{ Definition, Definitions any }
		require.NoError(t, yaml.NewDecoder(bytes.NewReader(data)).Decode(&doc), path)
		if list, ok := doc.Definitions.([]any); ok && doc.Definition == nil {
			doc.Definition = list[0]
		}
		text, err := yaml.Marshal(doc.Definition)
		require.NoError(t, err)
		out[strings.TrimSuffix(filepath.Base(path), ".yaml")] = compile(t, string(text))
	}
	programs := map[string]bool{} // of the examples, those that have a definition
	require.NoError(t, filepath.WalkDir("../../examples", func(path string, _ fs.DirEntry, err error) error {
		name := "example_" + filepath.Base(filepath.Dir(path))
		switch filepath.Ext(path) {
		case ".yaml":
			data, err := os.ReadFile(path)
			require.NoError(t, err)
			if folder := filepath.Base(filepath.Dir(path)); folder != "scenarios" && folder != "testdata" && filepath.Base(path) != "schedules.yaml" {
				out[name+"_"+strings.TrimSuffix(filepath.Base(path), ".yaml")] = compile(t, string(data))
				programs[filepath.Base(filepath.Dir(path))] = true
			}
		case ".json":
			data, err := os.ReadFile(path)
			require.NoError(t, err)
			example, _, _ := strings.Cut(filepath.Base(path), "_")
			name := "example_" + strings.TrimSuffix(filepath.Base(path), ".json")
			out[name], programs[example] = compile(t, string(data)), true
		case ".go":
			for i, g := range definitionsIn(t, path) {
				out[name+"_"+strings.TrimSuffix(filepath.Base(path), ".go")+strconv.Itoa(i)] = g
			}
		}
		return err
	}))
	examples, err := filepath.Glob("../../examples/*/main.go")
	require.NoError(t, err)
	for _, path := range examples {
		require.True(t, programs[filepath.Base(filepath.Dir(path))], "%s has no definition here", path)
	}
	return out
}

// definitionsIn returns the definitions that are texts in a program.
func definitionsIn(t *testing.T, path string) (out []*compiled.Graph) {
	f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	require.NoError(t, err)
	ast.Inspect(f, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING && strings.Contains(lit.Value, "nodes:") {
			text, err := strconv.Unquote(lit.Value)
			require.NoError(t, err)
			if d, err := workflow.Parse([]byte(text)); err == nil {
				g, err := compiled.Compile(workflow.Bounds{}, d)
				require.NoError(t, err, path)
				out = append(out, g)
			}
		}
		return true
	})
	return out
}

// The pictures and outlines of all patterns and examples are as they were when somebody
// looked at them. Rewrite them with -rewrite, and look at those that change.
func TestGolden(t *testing.T) {
	all := definitions(t)
	for name, g := range all {
		d := New(g, nil)
		compareGolden(t, name+".svg", d.SVG(0))
		compareGolden(t, name+".txt", d.Outline(OutlineStyle{Width: 80}))
		checkXML(t, d.SVG(0))
	}
	files, err := os.ReadDir("testdata")
	require.NoError(t, err)
	for _, f := range files {
		base := strings.TrimSuffix(f.Name(), filepath.Ext(f.Name()))
		assert.True(t, all[base] != nil || strings.HasPrefix(base, "run_"), "%s is of nothing", f.Name())
	}
}

func compareGolden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *rewrite {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, string(want), got, name)
}

func checkXML(t require.TestingT, text string) {
	d := xml.NewDecoder(strings.NewReader(text))
	for {
		_, err := d.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		require.NoError(t, err)
	}
}

// A run is drawn in words, shapes and numbers before colours.
func TestRunOnDiagram(t *testing.T) {
	g := compile(t, `
name: import
start: split
nodes:
  - {id: split}
  - {id: load, task: load, retry: {maxAttempts: 3, exhausted: park}}
  - {id: sum, task: sum}
  - {id: report, task: report}
  - {id: failed, end: {fail: no_data}}
transitions:
  - {from: split, to: load, foreach: {collection: input.files}, siblingGroup: files, maxConcurrency: 256}
  - {from: load, to: sum, synchronization: {siblingGroup: files, tolerate: {failures: 10}}}
  - {from: sum, to: report}
  - {from: sum, to: failed, outcome: error}
`)
	run := &Run{ID: "import-7", Status: workflow.RunRunning, Seq: 29448, Tokens: map[workflow.NodeID]map[workflow.TokenStatus]int{
		"split": {workflow.Completed: 1},
		"load": {
			workflow.WaitingForSiblings: 1, workflow.Completed: 9811, workflow.Dispatched: 185, workflow.Retrying: 1, workflow.WaitingForOperator: 2, workflow.TimedOut: 3,
		},
	}}
	d := New(g, run)
	compareGolden(t, "run_import.svg", d.SVG(0))
	compareGolden(t, "run_import.txt", d.Outline(OutlineStyle{Width: 80})+d.Outline(OutlineStyle{Width: 160}))
	compareGolden(t, "run_import.mmd", d.Mermaid())
	compareGolden(t, "run_import.dot", d.Dot())
	colored := d.Outline(OutlineStyle{Width: 80, Color: true})
	assert.Contains(t, colored, "\x1b[31m✗\x1b[0m load")
}

// How many runs took a transition stands at it in words.
func TestTakenTransitions(t *testing.T) {
	g := compile(t, `
name: order
start: quote
nodes: [{id: quote, task: quote}, {id: check, task: check}, {id: ship, task: ship}]
transitions: [{id: dear, from: quote, to: check, condition: state.dear}, {id: cheap, from: quote, to: ship, priority: 1}, {id: checked, from: check, to: ship}]
`)
	got := New(g, &Run{Taken: map[workflow.TransitionID]int{"cheap": 1200, "dear": 1}}).Embed(Embedding{})
	for _, want := range []string{"quote to ship: 1: else, taken in 1,200 runs<", ">in 1,200 runs</text>", "taken in one run<", `class="edge never"><title>check to ship: taken in no run<`} {
		assert.Contains(t, got, want)
	}
	assert.NotContains(t, New(g, &Run{}).Embed(Embedding{}), "taken")

	// The more of the runs took it, the wider it is; at nodes stands how many came there.
	got = New(g, &Run{
		Taken: map[workflow.TransitionID]int{"cheap": 25, "dear": 1}, Counted: 25, Reached: map[workflow.NodeID]int{"quote": 1234, "check": 7}, Runs: 1500,
	}).Embed(Embedding{})
	for _, want := range []string{`class="edge share-4"><title>quote to ship`, `class="edge share-1"><title>quote to check`, `class="edge never"><title>check to ship`, ">1,234 of 1,500 runs</text>", "check, task, 7 of 1,500 runs: not reached"} {
		assert.Contains(t, got, want)
	}
}

// A difference shows what a definition has, and had, with what has changed in words and classes.
func TestDifference(t *testing.T) {
	before := compile(t, `
name: order
start: quote
nodes: [{id: quote, task: quote}, {id: check, task: check}, {id: ship, task: ship}]
transitions: [{from: quote, to: check}, {from: check, to: ship}]
`)
	after := compile(t, `
name: order
start: quote
nodes: [{id: quote, task: quote, timeout: 1h}, {id: approve, approval: {message: ok}}, {id: ship, task: ship}]
transitions: [{from: quote, to: approve, condition: state.dear}, {from: quote, to: ship, priority: 1}, {from: approve, to: ship}]
`)
	changes, err := workflow.CompareDefinitions(before.Definition, after.Definition)
	require.NoError(t, err)
	run := &Run{ID: "order-1", Status: workflow.RunRunning, Tokens: map[workflow.NodeID]map[workflow.TokenStatus]int{"quote": {workflow.Completed: 1}, "check": {workflow.Dispatched: 1}}}
	got := NewDifference(before, after, changes, run).Embed(Embedding{Link: func(id workflow.NodeID) string { return "#" + string(id) }})
	compareGolden(t, "run_difference.svg", got)
	checkXML(t, got)
	for _, want := range []string{
		`class="node task changed done start"`, `class="node approval added unreached"`, `class="node task removed running"`, `class="edge removed"><title>quote to check: removed<`,
		`class="edge added"><title>quote to approve: added, `,
	} {
		assert.Contains(t, got, want)
	}
	same, err := workflow.CompareDefinitions(after.Definition, after.Definition)
	require.NoError(t, err)
	assert.Equal(t, New(after, run).SVG(0), NewDifference(after, after, same, run).SVG(0))
}

// A large graph is drawn too: nodes, transitions back and across, a self loop.
func TestLargeDiagram(t *testing.T) {
	var b strings.Builder
	b.WriteString("name: large\nstart: n0\nnodes:\n")
	for i := range 300 {
		fmt.Fprintf(&b, "- {id: n%d, task: t}\n", i)
	}
	b.WriteString("transitions:\n")
	for i := range 299 {
		fmt.Fprintf(&b, "- {from: n%d, to: n%d, condition: 'result.x > %d'}\n", i/2, i+1, i)
	}
	b.WriteString("- {from: n299, to: n0, loop: {maxIterations: 2}}\n- {from: n7, to: n7, loop: {maxIterations: 2}}\n")
	d := New(compile(t, b.String()), nil)
	svg := d.SVG(0)
	checkXML(t, svg)
	var picture struct {
		Width int `xml:"width,attr"`
	}
	require.NoError(t, xml.Unmarshal([]byte(svg), &picture))
	assert.LessOrEqual(t, picture.Width, 1600+2*margin)
	for line := range strings.Lines(d.Outline(OutlineStyle{Width: 80})) {
		require.LessOrEqual(t, CountColumns(strings.TrimSuffix(line, "\n")), 80)
	}
	assert.Equal(t, svg, d.SVG(0))
}

// A drawing shows every text of a definition as text: no markup, no escape sequence, no
// further line, and no line is too wide.
func TestHostileTexts(t *testing.T) {
	harness.CheckProperty(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{
			"</text><script>alert(1)</script>", "]]>", "a\x1b[31mb", "\u202Eabc", "\"];n9[label=\"", "-->|x|", "&lt;", "\x00\n\r\t", "漢字漢字漢字", "e\u0301", "`%%`", "#35;",
		}))
		d := &Diagram{title: cleanText(text.Draw(t, "title")), run: &Run{ID: workflow.RunID(text.Draw(t, "run"))}}
		n := rapid.IntRange(1, 6).Draw(t, "nodes")
		for range n {
			d.nodes = append(d.nodes, node{id: cleanText(text.Draw(t, "id")), kind: workflow.KindTask, detail: cleanText(text.Draw(t, "task"))})
		}
		for i := range rapid.IntRange(0, 9).Draw(t, "edges") {
			e := edge{from: rapid.IntRange(0, n-1).Draw(t, "from"), to: rapid.IntRange(0, n-1).Draw(t, "to"), full: cleanText(text.Draw(t, "label"))}
			e.label = []string{shorten(e.full, maxLabel)}
			d.nodes[e.from].outgoing = append(d.nodes[e.from].outgoing, i)
			d.edges = append(d.edges, e)
		}
		svg := d.SVG(0)
		checkXML(t, svg)
		require.NotContains(t, svg, "<script")
		width := rapid.IntRange(40, 160).Draw(t, "width")
		outline := d.Outline(OutlineStyle{Width: width})
		require.Equal(t, outline, cleanLines(outline))
		for line := range strings.Lines(outline) {
			require.LessOrEqual(t, CountColumns(strings.TrimSuffix(line, "\n")), width, "%q", line)
		}
		told := strings.Count(outline, "○ ")
		require.GreaterOrEqual(t, told, n, "every node is told")
		require.Equal(t, n, strings.Count(d.Dot(), ", shape="), d.Dot())
		require.Equal(t, 4+n+len(d.edges), strings.Count(d.Mermaid(), "\n"))
	})
}

func cleanLines(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = cleanText(lines[i])
	}
	return strings.Join(lines, "\n")
}

// In a page nodes are links that say all of a node, and nothing of the page's style is written.
func TestEmbed(t *testing.T) {
	g := compile(t, "name: w\nstart: a\nnodes: [{id: a, task: load}, {id: b}]\ntransitions: [{from: a, to: b}]")
	d := New(g, &Run{ID: "r", Tokens: map[workflow.NodeID]map[workflow.TokenStatus]int{"a": {workflow.Completed: 2, workflow.Retrying: 1}}})
	got := d.Embed(Embedding{Link: func(id workflow.NodeID) string { return "?node=" + string(id) + "&x=<" }, Chosen: "b"})
	checkXML(t, got)
	require.Contains(t, got, `<a class="node task retrying start" href="?node=a&amp;x=&lt;" data-node="a"><title>a, task load: 2 done, 1 retrying</title>`)
	require.Contains(t, got, `<a class="node gateway unreached chosen" href="?node=b&amp;x=&lt;" data-node="b"><title>b: not reached</title>`)
	require.NotContains(t, got, "<style")
	require.NotContains(t, d.Embed(Embedding{}), "<a ")
}

// Loops that nothing leads to, as a patch may leave them, are told as well.
func TestOutlineOfLoopsThatNothingLeadsTo(t *testing.T) {
	d := &Diagram{}
	for _, id := range []string{"start", "a", "b", "c"} {
		d.nodes = append(d.nodes, node{id: id, kind: workflow.KindTask, detail: id})
	}
	for i, e := range []edge{{from: 1, to: 2}, {from: 2, to: 1}, {from: 3, to: 3}} {
		d.nodes[e.from].outgoing = append(d.nodes[e.from].outgoing, i)
		d.edges = append(d.edges, e)
	}
	require.Equal(t, `
• start  task start
• c      task c
└▶ ↑ c
• a      task a
• b      task b
└▶ ↑ a
`, d.Outline(OutlineStyle{}))
}
