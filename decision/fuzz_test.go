package decision

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/codec"
	"github.com/pawl-run/pawl/internal/state"
)

// Any text in a journal is refused with an error, or is a record that comes back
// as it is when it is written again.
func FuzzRecord(f *testing.F) {
	f.Add([]byte(`{"kind":"Pause"}`), []byte(`[]`), []byte(`"large"`))
	f.Add([]byte(`{}`), []byte(`[{"kind":"CreateToken"}]`), []byte(`{}`))
	f.Fuzz(func(t *testing.T, message, decisions, large []byte) {
		var values codec.Values
		values.Add(large)
		e := Encoded{Seq: 1, Message: message, Decisions: decisions, Values: &values}
		r, err := e.Decode(values.Lookup)
		if err != nil {
			return
		}
		text, err := r.Encode()
		require.NoError(t, err)
		again, err := text.Decode(text.Values.Lookup)
		require.NoError(t, err, "%s %s", text.Message, text.Decisions)
		require.Equal(t, r, again)
		for _, d := range r.Decisions {
			require.NotEmpty(t, d.String())
			require.NotContains(t, d.String(), "\n")
		}
		same, err := again.Encode()
		require.NoError(t, err)
		require.True(t, bytes.Equal(text.Message, same.Message))
		require.True(t, bytes.Equal(text.Decisions, same.Decisions))
	})
}

// A message is refused with an error, or comes back as it is.
func FuzzMessage(f *testing.F) {
	f.Add([]byte(`{"kind":"Start","input":{"a":1}}`))
	f.Add([]byte(`{"kind":"Signal","name":"paid","payload":[null]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := state.Messages.Decode(data, nil)
		if err != nil {
			return
		}
		text, err := state.Messages.Append(nil, m, nil)
		require.NoError(t, err)
		again, err := state.Messages.Decode(text, nil)
		require.NoError(t, err, "%s", text)
		require.Equal(t, m, again)
	})
}
