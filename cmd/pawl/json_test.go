package main

import (
	"encoding"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/history"
	"github.com/pawl-run/pawl/pawltest"
	"github.com/pawl-run/pawl/replay"
	"github.com/pawl-run/pawl/rescue"
	"github.com/pawl-run/pawl/schedule"
	"github.com/pawl-run/pawl/workflow"
)

// jsonLines are the lines that each command writes with --json.
var jsonLines = []struct {
	commands, what string
	line           reflect.Type
}{
	{"ls", "a run", reflect.TypeFor[listedRun]()},
	{"du", "a group of runs, or another part", reflect.TypeFor[history.DiskUse]()},
	{"stats", "the times", reflect.TypeFor[history.Timings]()},
	{"show", "the run", reflect.TypeFor[pawl.Overview]()},
	{"threads", "a token", reflect.TypeFor[pawl.Token]()},
	{"data", "the values", reflect.TypeFor[api.Data]()},
	{"events", "an event", reflect.TypeFor[history.Event]()},
	{"journal", "a record", reflect.TypeFor[api.Record]()},
	{"revisions", "a revision", reflect.TypeFor[pawl.RunRevision]()},
	{"inbox", "what waits", reflect.TypeFor[inboxItem]()},
	{"why", "the explanation", reflect.TypeFor[replay.Explanation]()},
	{"signal, vote, add, close, raise, retry, skip, pause, resume, cancel, patch", "what was done, or tried", reflect.TypeFor[doneDeed]()},
	{"simulate", "what was tried", reflect.TypeFor[api.ActReport]()},
	{"start, import, wait", "the run", reflect.TypeFor[pawl.RunSummary]()},
	{"fork", "the run", reflect.TypeFor[api.ForkReport]()},
	{"start, fork, import with --dry-run", "what was tried", reflect.TypeFor[api.DryRunReport]()},
	{"run", "how it ended", reflect.TypeFor[workflow.Outcome]()},
	{"publish", "a file", reflect.TypeFor[publishedFile]()},
	{"graph", "the picture", reflect.TypeFor[graphReport]()},
	{"trace", "the trace", reflect.TypeFor[traceReport]()},
	{"check", "a definition", reflect.TypeFor[fileReport]()},
	{"schedule check", "a file", reflect.TypeFor[scheduleReport]()},
	{"schedule ls, schedule show, why of a schedule", "a schedule", reflect.TypeFor[schedule.Standing]()},
	{"schedule show --events", "an event", reflect.TypeFor[schedule.Event]()},
	{"schedule apply", "what is changed, or would be", reflect.TypeFor[api.ScheduleChanges]()},
	{"schedule pause, resume, trigger, backfill, rm", "what was done", reflect.TypeFor[api.ScheduleReport]()},
	{"schedule next, backfill with --dry-run", "an instant, or a change of clocks", reflect.TypeFor[scheduleLine]()},
	{"coverage", "a definition that was met", reflect.TypeFor[coveredDefinition]()},
	{"diff", "the comparison", reflect.TypeFor[replay.Comparison]()},
	{"replay", "a run", reflect.TypeFor[replay.Report]()},
	{"replay --definition", "a run", reflect.TypeFor[replay.Substitution]()},
	{"replay", "the last line", reflect.TypeFor[replaySummary]()},
	{"step", "a record", reflect.TypeFor[replay.Frame]()},
	{"test", "a scenario", reflect.TypeFor[pawltest.Report]()},
	{"test", "the last line", reflect.TypeFor[summary]()},
	{"purge, archive", "a run with what is below it", reflect.TypeFor[api.PurgeReport]()},
	{"blob", "the file", reflect.TypeFor[writtenBlob]()},
	{"put", "the reference", reflect.TypeFor[blob.Ref]()},
	{"export", "the file", reflect.TypeFor[exportedFile]()},
	{"backup", "the copy", reflect.TypeFor[api.BackupReport]()},
	{"backup --follow", "a stage of the copy", reflect.TypeFor[api.FollowReport]()},
	{"restore", "what was restored", reflect.TypeFor[pawl.RestoreInfo]()},
	{"verify, repair", "a finding", reflect.TypeFor[rescue.Finding]()},
	{"verify, repair", "the last line", reflect.TypeFor[rescue.Report]()},
	{"recover", "the report", reflect.TypeFor[pawl.RecoverReport]()},
	{"serve", "the first line", reflect.TypeFor[serving]()},
	{"worker", "the first line", reflect.TypeFor[joined]()},
	{"version", "the program", reflect.TypeFor[versionReport]()},
}

// lines.md has the lines of every command, and every field of their types with what the source says of it. Write it with
// -rewrite. docs/json.md leads there.
func TestLinesAreDocumented(t *testing.T) {
	const path = "lines.md"
	text := newLinePage(t).write()
	if *rewrite {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		return
	}
	old, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(old), text, "write it with -rewrite")
	page, err := os.ReadFile("../../docs/json.md")
	require.NoError(t, err)
	require.Contains(t, string(page), "](../cmd/pawl/"+path+")")
}

// A linePage is made of the types of the lines and of those below them.
type linePage struct {
	t       *testing.T
	types   []reflect.Type               // structs, in the order in which they are met
	sources map[string]map[string]string // comments on fields as TYPE.FIELD, by package
}

func newLinePage(t *testing.T) *linePage {
	p := &linePage{t: t, sources: map[string]map[string]string{}}
	for _, l := range jsonLines {
		p.typeText(l.line)
	}
	return p
}

func (p *linePage) write() string {
	var b strings.Builder
	b.WriteString("<!-- Generated from the Go types: go test ./cmd/pawl -run TestLinesAreDocumented -rewrite -->\n\n# The lines of JSON\n\n" +
		"[docs/json.md](../../docs/json.md) says what the columns mean.\n\n| command | a line is | type |\n|---|---|---|\n")
	for _, l := range jsonLines {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", l.commands, l.what, p.typeText(l.line))
	}
	for i := 0; i < len(p.types); i++ { // which finds more of them
		fmt.Fprintf(&b, "\n## %s\n\n| field | type | |\n|---|---|---|\n", p.nameOf(p.types[i]))
		p.writeFields(&b, p.types[i])
	}
	return b.String()
}

// writeFields writes the fields of a struct, also those of what it embeds.
func (p *linePage) writeFields(b *strings.Builder, of reflect.Type) {
	for f := range of.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && name == "" {
			embedded := f.Type
			if embedded.Kind() == reflect.Pointer {
				embedded = embedded.Elem()
			}
			p.writeFields(b, embedded)
			continue
		}
		if !f.IsExported() || name == "-" {
			continue
		}
		if name == "" {
			name = f.Name
		}
		optional := ""
		if strings.Contains(options, "omit") {
			optional = "?"
		}
		comment := strings.ReplaceAll(p.commentOn(of, f.Name), "|", `\|`)
		fmt.Fprintf(b, "| `%s`%s | %s | %s |\n", name, optional, p.typeText(f.Type), comment)
	}
}

// typeText names a type as it is in JSON, and notes the structs.
func (p *linePage) typeText(of reflect.Type) string {
	switch of {
	case reflect.TypeFor[time.Time]():
		return "instant"
	case reflect.TypeFor[time.Duration]():
		return "nanoseconds"
	case reflect.TypeFor[json.RawMessage]():
		return "any value"
	case reflect.TypeFor[schedule.Schedule]():
		return "[schedule](../../docs/schedules.md#fields)"
	case reflect.TypeFor[workflow.Definition]():
		return "[definition](../../docs/definition.md)"
	}
	if of.Implements(reflect.TypeFor[encoding.TextMarshaler]()) {
		return "text"
	}
	require.False(p.t, of.Kind() != reflect.Pointer && of.Implements(reflect.TypeFor[json.Marshaler]()), "what %v is in JSON, nobody has said", of)
	switch of.Kind() {
	case reflect.String:
		return "text"
	case reflect.Bool:
		return "boolean"
	case reflect.Int, reflect.Int32, reflect.Int64, reflect.Uint32, reflect.Uint64:
		return "integer"
	case reflect.Float64:
		return "number"
	case reflect.Interface:
		return "any value"
	case reflect.Pointer:
		return p.typeText(of.Elem())
	case reflect.Slice:
		return "list: " + p.typeText(of.Elem())
	case reflect.Map:
		if of.Elem().Kind() == reflect.Interface {
			return "object"
		}
		return fmt.Sprintf("object: %s by %s", p.typeText(of.Elem()), p.typeText(of.Key()))
	case reflect.Struct:
		if !slices.Contains(p.types, of) {
			p.types = append(p.types, of)
		}
		name := p.nameOf(of)
		return fmt.Sprintf("[%s](#%s)", name, strings.ReplaceAll(strings.ToLower(name), ".", ""))
	default:
		require.Fail(p.t, "no such type is in JSON", "%v", of)
		return ""
	}
}

// nameOf returns the name of a struct, with its package unless it is the command's own.
func (p *linePage) nameOf(of reflect.Type) string {
	return strings.TrimPrefix(of.String(), "main.")
}

// commentOn returns what the source says of a field, in one line.
func (p *linePage) commentOn(of reflect.Type, field string) string {
	pkg := of.PkgPath()
	if p.sources[pkg] == nil {
		p.sources[pkg] = p.commentsIn(pkg)
	}
	return p.sources[pkg][of.Name()+"."+field]
}

func (p *linePage) commentsIn(pkg string) map[string]string {
	const module = "github.com/pawl-run/pawl"
	files, err := filepath.Glob(filepath.Join("..", "..", strings.TrimPrefix(pkg, module), "*.go"))
	require.NoError(p.t, err)
	if !strings.HasPrefix(pkg, module) { // as that of a command's test
		files, err = filepath.Glob("*.go")
		require.NoError(p.t, err)
	}
	out := map[string]string{}
	for _, path := range files {
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
		require.NoError(p.t, err)
		ast.Inspect(f, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			if s, ok := spec.Type.(*ast.StructType); ok {
				addComments(out, spec.Name.Name, s)
			}
			return true
		})
	}
	return out
}

// addComments adds what stands behind the fields of a struct or, where nothing does, above them.
func addComments(to map[string]string, name string, s *ast.StructType) {
	for _, f := range s.Fields.List {
		text := f.Comment.Text()
		if text == "" {
			text = f.Doc.Text()
		}
		for _, id := range f.Names {
			to[name+"."+id.Name] = strings.Join(strings.Fields(text), " ")
		}
	}
}
