package portable

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/state"
)

// exported returns an export of one run of two records; the first has a large value.
func exported(t testing.TB) []byte {
	t.Helper()
	var text bytes.Buffer
	w, err := NewWriter(&text, "order-1")
	require.NoError(t, err)
	require.NoError(t, w.WriteRun(&Run{ID: "order-1", Tenant: "me", Labels: map[string]string{"k": "<v>"}, Hash: "h", Definition: json.RawMessage(`{"name":"order"}`)}))
	for i, d := range [][]decision.Decision{
		{decision.CompleteRun{Output: map[string]any{"large": strings.Repeat("<&", 600)}}}, {},
	} {
		r := decision.Record{Seq: int64(i) + 1, At: time.UnixMilli(1893495600000).UTC(), Epoch: 1<<63 + 1, Planner: 2, Message: state.Start{}, Decisions: d}
		require.NoError(t, w.WriteRecord(&r))
	}
	require.NoError(t, w.Close())
	return text.Bytes()
}

func readAll(text []byte) (runs []*Run, failed error) {
	for r, err := range Read(bytes.NewReader(text)) {
		if err != nil {
			return runs, err
		}
		runs = append(runs, r)
	}
	return runs, nil
}

// Runs are read as they were written, from one export and from several.
func TestReadsWhatWasWritten(t *testing.T) {
	text := exported(t)
	runs, err := readAll(append(text, text...))
	require.NoError(t, err)
	require.Len(t, runs, 2)
	require.Equal(t, runs[0], runs[1])
	require.Equal(t, map[string]string{"k": "<v>"}, runs[0].Labels)
	require.JSONEq(t, `{"name":"order"}`, string(runs[0].Definition))
	require.Len(t, runs[0].Records, 2)
	r := runs[0].Records[0]
	require.Equal(t, uint64(1<<63+1), uint64(r.Epoch))
	require.Equal(t, strings.Repeat("<&", 600), r.Decisions[0].(decision.CompleteRun).Output["large"])
}

// A text with any byte changed (every fifth is tried), or cut anywhere, is refused, and no run of that export is told.
func TestDamageIsRefused(t *testing.T) {
	text := exported(t)
	for i := 0; i < len(text); i += 5 {
		damaged := bytes.Clone(text)
		damaged[i] ^= 1
		runs, err := readAll(damaged)
		require.Error(t, err, "byte %d", i)
		require.Empty(t, runs, "byte %d", i)
	}
	for n := 0; n < len(text)-1; n += 5 { // the last byte is the end of the line
		runs, err := readAll(text[:n])
		require.ErrorIs(t, err, ErrDamaged, "%d bytes", n)
		require.Empty(t, runs)
	}
	_, err := readAll([]byte(`{"export":{"version":4,"run":"a"}}` + "\n"))
	require.ErrorIs(t, err, ErrVersion)
}

// A line that says several things, where one program would take the first and another the last, is refused, and so is one
// that says nothing.
func TestALineSaysOneThing(t *testing.T) {
	lines := bytes.SplitAfter(exported(t), []byte("\n"))
	run, record := string(lines[1]), string(lines[2])
	both := strings.TrimSuffix(run, "}\n") + "," + strings.TrimPrefix(record, "{")
	for _, line := range []string{both, "{}\n", `{"run":null}` + "\n", `{"end":{"lines":1,"sha256":""},` + strings.TrimPrefix(run, "{")} {
		_, err := readAll([]byte(string(lines[0]) + line))
		require.ErrorIs(t, err, ErrDamaged)
		require.ErrorContains(t, err, "things, not one", line)
	}
}
