package value

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"reflect"

	"github.com/pawl-run/pawl/internal/pace"
)

// A Taken is a value that the host has handed over, in the model, with all that the copy has told of it.
type Taken struct {
	Value   any
	Measure Measure
	Text    Text
}

// A Text is the canonical JSON of a value, which is kept beside it, so that nobody encodes the value again; Hash is what [Hash] returns of
// the value, and empty where nobody has asked. The zero Text is that of no value. The bytes must not be changed.
type Text struct {
	JSON []byte
	Hash string
}

// keptText is how many bytes a text has at least that is kept: to encode a shorter value costs less than to look its text up.
const keptText = 1 << 10

// Canonical returns the canonical JSON of the value; see [Append].
func (t Taken) Canonical() []byte {
	if t.Text.JSON != nil {
		return t.Text.JSON
	}
	return Encode(t.Value)
}

// Plain returns the value as a host takes it: as its text, if that is known.
func (t Taken) Plain() any {
	if t.Text.JSON != nil {
		return json.RawMessage(t.Text.JSON)
	}
	return t.Value
}

// TextOf returns the canonical JSON of a model value with its hash. have is the text that is known, perhaps none.
func TextOf(v any, have Text) Text {
	if have.JSON == nil {
		have.JSON = Encode(v)
	}
	if have.Hash == "" {
		sum := pace.Sum256(have.JSON)
		have.Hash = hex.EncodeToString(sum[:])
	}
	return have
}

// ReadAll returns the JSON that v reads, as json.RawMessage, if v is an io.Reader; any other value as it is. It reads to the end, at most so
// many bytes, and closes what is an io.Closer. The error is that of the reader, or a *Error of what it has read too much.
//
// It is called where a value is handed over once: the input of a run, the result of a task. A json.Marshaler is no reader here, nor is an
// encoding.TextMarshaler.
func ReadAll(v any, most int) (any, error) {
	r, reads := v.(io.Reader)
	if !reads || !IsReader(v) {
		return v, nil
	}
	if c, closes := r.(io.Closer); closes {
		defer func() { _ = c.Close() }() // what was read counts
	}
	text, err := io.ReadAll(io.LimitReader(r, int64(most)+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the JSON of %T: %w", v, err)
	case len(text) > most:
		return nil, limitError(LimitBytes, most, len(text))
	}
	if text = bytes.TrimRight(text, " \t\r\n"); len(text) == 0 {
		return json.RawMessage{}, nil // which is no JSON, while nil would be null
	}
	return json.RawMessage(text), nil
}

// IsReader reports whether v reads something, by itself or where it lies, and has no JSON of its own: encoding/json would make {} of it.
func IsReader(v any) bool { return v != nil && isReader(reflect.ValueOf(v)) }
