package portable

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/state"
)

// turnsOf returns an export of a run with a record for each text: its message and a decision have that text.
func turnsOf(t testing.TB, texts ...string) []byte {
	t.Helper()
	var text bytes.Buffer
	w, err := NewWriter(&text, "r")
	require.NoError(t, err)
	require.NoError(t, w.WriteRun(&Run{ID: "r", Hash: "h", Definition: json.RawMessage(`{}`)}))
	for i, s := range texts {
		v := map[string]any{"text": s}
		r := decision.Record{
			Seq: int64(i) + 1, At: time.UnixMilli(1893495600000).UTC(), Epoch: 1, Planner: 2,
			Message: state.Start{Input: v}, Decisions: []decision.Decision{decision.CompleteRun{Output: v}},
		}
		require.NoError(t, w.WriteRecord(&r))
	}
	require.NoError(t, w.Close())
	return text.Bytes()
}

// sealLines returns an export of lines without an end, with the end that they have.
func sealLines(lines ...[]byte) []byte {
	text := bytes.Join(lines, nil)
	sum := sha256.Sum256(text)
	return fmt.Appendf(text, `{"end":{"lines":%d,"sha256":%q}}`+"\n", len(lines), hex.EncodeToString(sum[:]))
}

// A value is written once, however many records have it, and read where each has it; redacted it is once as well.
func TestValuesAreWrittenOnce(t *testing.T) {
	texts := make([]string, 4000)
	for i := range texts {
		texts[i] = strings.Repeat("<&", 2500) // 5 KB
	}
	text := turnsOf(t, texts...)
	require.Less(t, len(text), 1<<20+1<<19)
	var redacted bytes.Buffer
	require.NoError(t, Redact(&redacted, bytes.NewReader(text)))
	require.Less(t, redacted.Len(), 1<<20+1<<19)
	for wanted, text := range map[string][]byte{texts[0]: text, strings.Repeat("x", 5000): redacted.Bytes()} {
		runs, err := readAll(text)
		require.NoError(t, err)
		require.Len(t, runs[0].Records, len(texts))
		for _, r := range runs[0].Records {
			require.Equal(t, wanted, r.Message.(state.Start).Input["text"])
			require.Equal(t, wanted, r.Decisions[0].(decision.CompleteRun).Output["text"])
		}
	}
	changing := make([]string, 100)
	for i := range changing {
		changing[i] = fmt.Sprint(i) + strings.Repeat("y", 70<<10)
	}
	require.Less(t, len(turnsOf(t, changing...)), 101*(71<<10))
}

// Exports of the first versions, whose records have all of their values, are read, redacted and written anew.
func TestEarlierVersions(t *testing.T) {
	for version := 1; version <= 2; version++ {
		text, err := os.ReadFile(fmt.Sprintf("testdata/version%d.pawl", version))
		require.NoError(t, err)
		runs, err := readAll(text)
		require.NoError(t, err)
		require.Len(t, runs, 1)
		require.Len(t, runs[0].Records, 2)
		for _, r := range runs[0].Records {
			require.Equal(t, strings.Repeat("<&", 600), r.Decisions[0].(decision.CompleteRun).Output["large"])
		}
		blobs := 0
		require.NoError(t, ReadBlobs(bytes.NewReader(text), func(hash string, content io.Reader) error {
			blobs++
			have, err := io.ReadAll(content)
			require.Equal(t, "content", string(have))
			return err
		}))
		require.Equal(t, version-1, blobs)
		require.NoError(t, Redact(io.Discard, bytes.NewReader(text)))
	}
}

// An export that was written by hand can refer to a value that is not there, give one twice, give one that nothing refers to,
// or another one than its name says: each is refused, and told with its line.
func TestHostileValues(t *testing.T) {
	a, b := strings.Repeat("a", 2000), strings.Repeat("b", 2000)
	lines := bytes.SplitAfter(turnsOf(t, a, a, b), []byte("\n")) // begin, run, a, a again, b, end
	values := func(line []byte) []byte {
		from := bytes.Index(line, []byte(`,"values":`))
		return line[from : len(line)-len("}}\n")]
	}
	with := func(line, more []byte) []byte {
		return append(append(bytes.Clone(line[:len(line)-len("}}\n")]), more...), "}}\n"...)
	}
	without := func(line []byte) []byte { return bytes.Replace(line, values(line), nil, 1) }
	require.NotContains(t, string(lines[3]), "values")
	for name, c := range map[string]struct {
		lines [][]byte
		says  string
	}{
		"not there": {[][]byte{lines[0], lines[1], without(lines[2])}, "line 3: .*no value with the hash"},
		"later":     {[][]byte{lines[0], lines[1], without(lines[2]), with(lines[3], values(lines[2]))}, "line 3: .*no value with the hash"},
		"twice":     {[][]byte{lines[0], lines[1], lines[2], with(lines[3], values(lines[2]))}, "line 4: .*comes twice"},
		"unused":    {[][]byte{lines[0], lines[1], lines[2], with(lines[3], values(lines[4]))}, "line 4: the record does not refer to its value"},
		"another":   {[][]byte{lines[0], lines[1], bytes.Replace(lines[2], []byte("aaaa"), []byte("aaab"), 1)}, "line 3: value .* is not what was written"},
		"version 2": {[][]byte{bytes.Replace(lines[0], []byte(`"version":3`), []byte(`"version":2`), 1), lines[1], lines[2], lines[3]}, "line 4: .*no value with the hash"},
	} {
		runs, err := readAll(sealLines(c.lines...))
		require.ErrorIs(t, err, ErrDamaged, name)
		require.Regexp(t, c.says, err.Error(), name)
		require.Empty(t, runs, name)
	}
	_, err := readAll(sealLines(lines[:5]...))
	require.NoError(t, err)
}

// The values that records refer to are bounded, each counted as often as it is referred to.
func TestReferredValuesAreBounded(t *testing.T) {
	a := strings.Repeat("a", 2000)
	lines := bytes.Split(turnsOf(t, a, a, a), []byte("\n"))[2:5]
	for _, references := range []int{5, 6} { // each record has two
		kept := values{room: references * (2000 + len(`{"text":""}`))}
		for i, text := range lines {
			var l line
			require.NoError(t, json.Unmarshal(text, &l))
			_, err := kept.decode(l.Record, Version)
			if i == 2 && references < 6 {
				require.ErrorIs(t, err, errReferred)
			} else {
				require.NoError(t, err)
			}
		}
	}
}
