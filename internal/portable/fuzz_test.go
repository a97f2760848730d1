package portable

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A text is refused with an error, or what is read of it can be written and read again. It gets the end that fits, since no change would
// get behind the checksum otherwise.
func FuzzRead(f *testing.F) {
	whole := exported(f)
	f.Add(whole[:bytes.LastIndexByte(whole[:len(whole)-1], '\n')+1])
	shared := turnsOf(f, strings.Repeat("a", 2000), strings.Repeat("a", 2000))
	f.Add(shared[:bytes.LastIndexByte(shared[:len(shared)-1], '\n')+1])
	f.Add([]byte(`{"export":{"version":2,"run":"a"}}` + "\n" + `{"run":{"id":"a","hash":"h","definition":{}}}` + "\n"))
	f.Add([]byte(`{"export":{"version":2,"run":"a"}}` + "\n" + `{"record":{"seq":1,"at":0,"planner":2,"message":{"kind":"Pause"},"decisions":[]}}` + "\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		sum := sha256.Sum256(text)
		end := fmt.Sprintf(`{"end":{"lines":%d,"sha256":"%s"}}`+"\n", bytes.Count(text, []byte{'\n'}), hex.EncodeToString(sum[:]))
		_ = ReadBlobs(bytes.NewReader(append(bytes.Clone(text), end...)), func(string, io.Reader) error { return nil })
		runs, err := readAll(append(bytes.Clone(text), end...))
		if err != nil {
			return
		}
		once := written(t, runs)
		back, err := readAll(once)
		require.NoError(t, err)
		require.Len(t, back, len(runs))
		require.Equal(t, string(once), string(written(t, back)))
	})
}

// written returns one export of runs.
func written(t *testing.T, runs []*Run) []byte {
	var text bytes.Buffer
	w, err := NewWriter(&text, runs[0].ID)
	require.NoError(t, err)
	for _, r := range runs {
		require.NoError(t, w.WriteRun(r))
		for i := range r.Records {
			require.NoError(t, w.WriteRecord(&r.Records[i]))
		}
	}
	require.NoError(t, w.Close())
	return text.Bytes()
}
