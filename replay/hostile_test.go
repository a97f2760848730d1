package replay_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/portable"
	"github.com/pawl-run/pawl/internal/retrace"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/replay"
	"github.com/pawl-run/pawl/workflow"
)

// exportOf returns what an export of a run has on its lines but the last, without the checksum of its end.
func exportOf(t *testing.T, r *recorder) [][]byte {
	t.Helper()
	var text bytes.Buffer
	doc, err := r.graph.Definition.MarshalJSON()
	require.NoError(t, err)
	w, err := portable.NewWriter(&text, r.state.Run)
	require.NoError(t, err)
	require.NoError(t, w.WriteRun(&portable.Run{ID: r.state.Run, Hash: r.graph.Hash, Definition: doc}))
	for i := range r.records {
		require.NoError(t, w.WriteRecord(&r.records[i]))
	}
	require.NoError(t, w.Close())
	lines := bytes.Split(bytes.TrimSuffix(text.Bytes(), []byte("\n")), []byte("\n"))
	return lines[:len(lines)-1]
}

// closed returns an export with these lines, and the checksum that they have.
func closed(lines [][]byte) []byte {
	text := append(bytes.Join(lines, []byte("\n")), '\n')
	sum := sha256.Sum256(text)
	return fmt.Appendf(text, `{"end":{"lines":%d,"sha256":%q}}`+"\n", len(lines), hex.EncodeToString(sum[:]))
}

// A mutator changes values of JSON at random, as somebody who knows the form might.
type mutator struct {
	*rand.Rand
	left int // values to go until the one that is changed
}

var hostileTexts = []string{"", "x", "quote", "work", "quotes", "t", strings.Repeat("a", 5000), "\x00", "../../x", "$ref", "completed", "running", "all"}

// mutate returns v with one of its values changed.
func (m *mutator) mutate(v any) any {
	m.left--
	switch v := v.(type) {
	case map[string]any:
		names := make([]string, 0, len(v))
		for name := range v {
			names = append(names, name)
		}
		slices.Sort(names)
		if m.left == 0 && len(names) > 0 {
			delete(v, names[m.IntN(len(names))])
			return v
		}
		for _, name := range names {
			v[name] = m.mutate(v[name])
		}
	case []any:
		if m.left == 0 && len(v) > 0 {
			return [][]any{v[:len(v)-1], append(v, v[m.IntN(len(v))]), {}, append(v[1:], v[0]), nil}[m.IntN(5)]
		}
		for i := range v {
			v[i] = m.mutate(v[i])
		}
	case json.Number:
		if m.left == 0 {
			return []any{-1, 0, 1, 2, 3, 4, 7, 1 << 40, -1 << 62, 1e300, nil, "1"}[m.IntN(12)]
		}
	case string:
		if m.left == 0 {
			return append([]any{nil, 1}, toAny(hostileTexts)...)[m.IntN(2+len(hostileTexts))]
		}
	default:
		if m.left == 0 {
			return []any{nil, true, 1, "x", []any{}, map[string]any{}}[m.IntN(6)]
		}
	}
	return v
}

func toAny(texts []string) (out []any) {
	for _, s := range texts {
		out = append(out, s)
	}
	return out
}

// mutated returns lines with some values of some records changed.
func mutated(rnd *rand.Rand, lines [][]byte) [][]byte {
	out := slices.Clone(lines)
	for range 1 + rnd.IntN(3) {
		n := 1 + rnd.IntN(len(lines)-1)
		d := json.NewDecoder(bytes.NewReader(out[n]))
		d.UseNumber()
		var v map[string]any
		if d.Decode(&v) != nil {
			continue
		}
		for kind, of := range v {
			if kind == "record" || rnd.IntN(10) == 0 {
				m := mutator{rnd, 1 + rnd.IntN(1+bytes.Count(out[n], []byte(":")))}
				v[kind] = m.mutate(of)
			}
		}
		out[n] = appendJSON(nil, v)
	}
	return out
}

// appendJSON appends a value as a journal has it: kind is the first member of an object.
func appendJSON(to []byte, v any) []byte {
	switch v := v.(type) {
	case map[string]any:
		names := slices.SortedFunc(maps.Keys(v), func(a, b string) int {
			first := func(name string) string { return strings.Replace(name, "kind", "", 1) }
			return strings.Compare(first(a), first(b))
		})
		to = append(to, '{')
		for i, name := range names {
			if i > 0 {
				to = append(to, ',')
			}
			to = appendJSON(append(appendJSON(to, name), ':'), v[name])
		}
		return append(to, '}')
	case []any:
		to = append(to, '[')
		for i := range v {
			if i > 0 {
				to = append(to, ',')
			}
			to = appendJSON(to, v[i])
		}
		return append(to, ']')
	}
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // it is a number, a text, a bool or null
	return append(to, bytes.TrimSpace(text.Bytes())...)
}

// lookAt does with a recording whatever can be done.
func lookAt(rec, other *replay.Recording, d *workflow.Definition) {
	_, _ = replay.Check(rec)
	if x, err := replay.Why(rec); err == nil {
		_ = x.String()
	}
	_, _ = replay.Diff(rec, other)
	_, _ = replay.Diff(other, rec)
	for _, err := range replay.Moves(rec) {
		if err != nil {
			break
		}
	}
	if s, err := replay.NewStepper(rec); err == nil {
		for n := range s.Len() + 1 {
			if f, err := s.At(s.Len() - n); err == nil {
				_, _ = json.Marshal(f)
				_ = fmt.Sprint(f)
			}
		}
	}
	if trace, err := retrace.Of(rec, 0, func(workflow.RunID) (*replay.Recording, error) { return nil, nil }); err == nil {
		_, _ = json.Marshal(trace)
	}
	var c replay.Coverage
	_ = c.Add(rec)
	_ = c.Definitions()
	if s, err := replay.Substitute(rec, d); err == nil {
		_ = s.String()
	}
}

// An export comes from somebody else, and a checksum is no signature: whatever its records say, looking at them ends, soon, with
// an answer or an error.
func TestHostileExports(t *testing.T) {
	ordered := playOrder(t, "order-41", 0.93, 12, 7, 9)
	waits := playOrder(t, "order-42", 0.5, 1, 2)
	dir := t.TempDir()
	for seed := range uint64(harness.Figure(100, 300, 20_000)) {
		r := []*recorder{ordered, waits}[seed%2]
		path := filepath.Join(dir, "hostile.pawl")
		text := closed(mutated(rand.New(rand.NewPCG(seed, 1)), exportOf(t, r)))
		require.NoError(t, os.WriteFile(path, text, 0o600))
		done := make(chan any, 1)
		go func() {
			defer func() { done <- recover() }()
			for rec, err := range replay.All(replay.Options{}, path) {
				if err == nil {
					lookAt(rec, ordered.recording(), r.graph.Definition)
				}
			}
		}()
		select {
		case panicked := <-done:
			require.Nil(t, panicked, "seed %d:\n%s", seed, text)
		case <-time.After(time.Minute):
			require.Fail(t, "it does not end", "seed %d:\n%s", seed, text)
		}
	}
}
