package bombtest

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/limits"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/rescue"
	"github.com/pawl-run/pawl/workflow"
)

// hostile are texts that want to be something else: paths, devices, SQL, escapes,
// markup, formats, twins, and what is no text.
func hostile() []string {
	out := []string{
		"", ".", "..", "...", "../x", "../../etc/passwd", "/abs", "//", "/", "a/b", "a/../b", "./a", "~", "~root", "a\\b", "..\\x", "C:\\x", "C:", "\\\\?\\C:\\x", "\\\\host\\share",
		"CON", "con", "PRN", "AUX", "NUL", "nul.txt", "COM1", "COM1 ", "COM1.db", "COM\u00b9", "LPT1", "CLOCK$", "CONIN$", "x.", "x..", "x ", " x", " ", "  ", "\t", "x\t", "\n", "a\nb", "a\r\nb", "\r",
		"\x00", "a\x00b", "a\x00", "\x00a", "\x01", "\x1b[2J", "\x7f", "a\u0085b", "a\u2028b", "a\u2029b", "\u200b", "\u200d", "\u202egpj.exe", "\u2066x", "\ufeff", "\ufeffx", "\ufffd", "\ufffe", "\uffff", "\U0010ffff",
		"\xff", "a\xffb", "\xc0\xaf", "\xc0\xae\xc0\xae", "\xed\xa0\x80", "\xed\xb0\x80", "\xf8\x88\x80\x80\x80", "\xe2\x82", "\xf4\x90\x80\x80",
		"x.db", "x.db-wal", "x.db-shm", "x.db-journal", "pawl.db", "pawl.db-wal", "LOCK", "runs", "blobs", ".git", ".hidden", "-rf", "--help", "-", "lost+found",
		"Run", "run", "RUN", "rUn", "ı", "I", "i", "İ", "ß", "ss", "SS", "ẞ", "ſ", "K", "\u212a", "é", "e\u0301", "Å", "A\u030a", "\u212b", "ﬁ", "fi", "①", "1", "01", "1.0", "1e0", "²", "½",
		"%2e%2e", "%2e%2e%2f", "%00", "%", "%s", "%d%n", "%!s(MISSING)", "$HOME", "$(id)", "`id`", "${x}", "!x", "*", "?", "[a]", "{a,b}", "a|b", "a>b", "a<b", "a&b", "a;b", "#", "#1.1.0", "a#1.1.0000000000000001", "a:b", "::$DATA", "x:stream",
		"'", "\"", "''", "`", "'; DROP TABLE runs; --", "\"; DROP TABLE runs; --", "' OR '1'='1", "x' UNION SELECT 1 --", "/* x */", "--", ";", "sqlite_master", "sqlite_", "sqlite_sequence", "main.runs", "temp", "rowid", "oid", "_rowid_", "select", "NULL", "null", "true", "PRAGMA x", "1=1",
		"__proto__", "constructor", "prototype", "toString", "<script>", "&amp;", "]]>", "<!--", "{{x}}", "{% x %}", "\\u0000", "\\x00", "\\", "\\\\", "\\n", "=1+1", "@x", "+x", "NaN", "Infinity", "-0", "0", "yes", "no", "on", "y", "~", "!!str", "&a", "*a", ": ", "- ", "? ",
		"🦫", "👩\u200d👩\u200d👧", "🇩🇪", "👍🏽", "\u0d9e", "ｘ", "日本語", "עברית", "عربي", "\u0e33", "Z̸a̸l̸g̸o̸", "x" + strings.Repeat("\u0301", 100),
		strings.Repeat("x", 254), strings.Repeat("x", 255), strings.Repeat("x", 256), strings.Repeat("x", 300), strings.Repeat("é", 127), strings.Repeat("é", 128), strings.Repeat("🦫", 63), strings.Repeat("🦫", 64), strings.Repeat("x", 4096), strings.Repeat("x", 64<<10), strings.Repeat("../", 100), strings.Repeat("a/", 200),
	}
	seen := map[string]bool{}
	unique := out[:0]
	for _, s := range out {
		if !seen[s] {
			seen[s] = true
			unique = append(unique, s)
		}
	}
	return unique
}

// allowed says which ids a caller may give.
func allowed(id string) bool {
	return id != "" && len(id) <= limits.MaxRunID && utf8.ValidString(id) && !regexp.MustCompile(`[/\x00-\x1f\x7f-\x{9f}]`).MatchString(id)
}

// paths lists everything below a directory, but what SQLite keeps beside a
// database.
func paths(t *testing.T, dir string) (out []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		rel, rerr := filepath.Rel(dir, path)
		require.NoError(t, rerr)
		out = append(out, rel)
		return err
	}))
	return out
}

// ours is the form of every path of an engine.
var ours = regexp.MustCompile(`^(\.|data|data/(pawl\.db(-wal|-shm)?|LOCK|timings|runs|tmp|tmp/reserve|blobs.*|runs/[0-9a-f]{2}|runs/[0-9a-f]{2}/[0-9a-f]{32}-[0-9a-f]{16}[ab]\.db))$`)

// TestHostileRunIDs: an id is a run of its own, under a file name made of its
// hash, or is refused and leaves nothing.
func TestHostileRunIDs(t *testing.T) {
	root, c := t.TempDir(), tally{}
	e, err := pawl.Open(t.Context(), filepath.Join(root, "data"), pawl.Options{Durability: pawl.ProcessCrash})
	require.NoError(t, err)
	d := define(t, "{name: x, start: a, nodes: [{id: a, output: {output.n: input.n}}]}")
	ids := hostile()
	for i, id := range ids {
		c.tried++
		run := workflow.Run{ID: workflow.RunID(id), Definition: d}
		if err := e.Start(t.Context(), run, map[string]any{"n": i}); !allowed(id) {
			require.ErrorIs(t, err, pawl.ErrInvalid, "%q", id)
			_, err = e.Inspect(t.Context(), run.ID)
			require.ErrorIs(t, err, pawl.ErrRunNotFound, "%q", id)
			c.refused++
			continue
		}
		require.NoError(t, err, "%q", id)
		c.taken++
	}
	for i, id := range ids {
		if allowed(id) {
			out, err := e.Wait(t.Context(), workflow.RunID(id))
			require.NoError(t, err)
			require.Equal(t, id, string(out.Run))
			require.Equal(t, map[string]any{"n": int64(i)}, out.Output, "%q", id)
		}
	}
	listed := 0
	for s, err := range e.Runs(t.Context(), pawl.RunFilter{}) {
		require.NoError(t, err)
		require.True(t, allowed(string(s.Run)), "%q", s.Run)
		listed++
	}
	require.Equal(t, c.taken, listed)
	require.NoError(t, e.Close(t.Context()))
	files := 0
	for _, path := range paths(t, root) {
		require.Regexp(t, ours, filepath.ToSlash(path))
		if strings.HasPrefix(path, filepath.Join("data", "runs")) && strings.HasSuffix(path, ".db") {
			files++
		}
	}
	require.Equal(t, c.taken, files, "no two share a file")
	report, err := rescue.Verify(t.Context(), filepath.Join(root, "data"), rescue.Options{})
	require.NoError(t, err)
	require.Zero(t, report.Damage)
	c.report(t, "hostile run ids")
}

// TestHostileNames: names of nodes, groups, tasks, events, locks, fields and keys
// are stored and returned unchanged, or the definition is refused.
func TestHostileNames(t *testing.T) {
	harness.InTurn(t, 4)
	w, c := open(t), tally{}
	for _, name := range hostile() {
		c.tried++
		d := named(name)
		id := w.fresh()
		err := w.Start(t.Context(), workflow.Run{ID: id, Definition: d}, map[string]any{"k": 1})
		if err != nil {
			var de *workflow.DefinitionError
			require.ErrorAs(t, err, &de, "%q", name)
			c.refused++
			continue
		}
		c.taken++
		require.True(t, utf8.ValidString(name) && name != "", "%q", name)
		w.checkNamed(id, name)
	}
	require.Greater(t, c.taken, c.refused)
	c.report(t, "hostile names")
}

// named is a definition in which everything has the same name.
func named(name string) *workflow.Definition {
	n := workflow.NodeID(name)
	return &workflow.Definition{
		Name: name, Start: "s",
		Nodes: []workflow.Node{
			{ID: "s"},
			{ID: n, Wait: &workflow.WaitSpec{Event: name}, Lock: name, Output: map[string]string{"state[" + quoted(name) + "]": "result.payload"}},
			{ID: "end", Output: map[string]string{"output[" + quoted(name) + "]": "result"}},
		},
		Transitions: []workflow.Transition{
			{ID: workflow.TransitionID(name), From: "s", To: n, SpawnCount: 1, SiblingGroup: name},
			{From: n, To: "end", Synchronization: &workflow.Synchronization{
				SiblingGroup: name, Merge: &workflow.Merge{Strategy: "collect", Source: "result.payload", Target: "state[" + quoted(name) + "]"},
			}},
		},
	}
}

// quoted writes a name as a path has it.
func quoted(name string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(name) + `"`
}

func (w *world) checkNamed(id workflow.RunID, name string) {
	w.t.Helper()
	ctx := w.t.Context()
	require.NoError(w.t, w.Signal(ctx, id, workflow.Signal{Name: name, ID: name, Payload: map[string]any{name: name}}), "%q", name)
	w.outcome(id)
	snap, err := w.Inspect(ctx, id)
	require.NoError(w.t, err)
	require.Equal(w.t, name, snap.Workflow)
	require.Equal(w.t, name, snap.Groups[0].Name)
	require.Equal(w.t, map[string]any{name: []any{map[string]any{name: name}}}, snap.State, "%q", name)
	stood := false
	for i := range snap.Tokens {
		stood = stood || string(snap.Tokens[i].Node) == name
	}
	require.True(w.t, stood, "%q", name)
	told := map[string]bool{}
	for ev, err := range w.Events(ctx, id, pawl.EventsOptions{}) {
		require.NoError(w.t, err)
		told[string(ev.Node)] = true
	}
	require.True(w.t, told[name], "%q", name)
	def, _, err := w.Definition(ctx, id)
	require.NoError(w.t, err)
	require.Equal(w.t, name, string(def.Nodes[1].ID))
}

// TestManyFields: an object of 10,000 fields, among them twins, is a value like
// any other.
func TestManyFields(t *testing.T) {
	w := open(t)
	in := map[string]any{}
	for i := range 10_000 {
		in[fmt.Sprintf("Column %d", i)], in[fmt.Sprintf("column %d", i)] = int64(i), int64(-i)
	}
	d := define(t, "{name: x, start: a, nodes: [{id: a, task: echo, input: {all: input}, output: {output: result}}]}")
	out := w.end(d, in, nil)
	require.NoError(t, out.Err())
	require.Equal(t, map[string]any{"all": in}, out.Output)
}
