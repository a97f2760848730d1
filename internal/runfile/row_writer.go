package runfile

import (
	"fmt"
	"time"

	"github.com/pawl-run/pawl/internal/codec"
	"github.com/pawl-run/pawl/internal/column"
	"github.com/pawl-run/pawl/internal/image"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/workflow"
)

// A rowWriter has the columns of one row, and room for those of its texts that are made for it. One rowWriter serves
// many rows: a row is of use until the next one begins.
type rowWriter struct {
	columns []image.Value
	made    []byte // texts; where it grows, those that are in columns keep what they had
}

// maxMade is how much room for texts is kept.
const maxMade = 64 << 10

// beginRow makes it the next row, which has no columns yet.
func (w *rowWriter) beginRow() {
	if w.columns = w.columns[:0]; cap(w.made) > maxMade {
		w.made = nil
	}
	w.made = w.made[:0]
}

func (w *rowWriter) putNull() { w.columns = append(w.columns, image.Value{}) }

func (w *rowWriter) putInts(ns ...int64) {
	for _, n := range ns {
		w.columns = append(w.columns, image.Int(n))
	}
}

// putTexts puts texts that nobody changes as long as the row is of use.
func (w *rowWriter) putTexts(texts ...string) {
	for _, s := range texts {
		w.columns = append(w.columns, image.Text(s))
	}
}

func (w *rowWriter) putBlob(b []byte) { w.columns = append(w.columns, image.Blob(b)) }

// putMade puts the text that begins at a place in what was made.
func (w *rowWriter) putMade(start int) { w.putTexts(column.SharedString(w.made[start:])) }

// putOptional puts a text that may be missing.
func (w *rowWriter) putOptional(s string) {
	if s == "" {
		w.putNull()
		return
	}
	w.putTexts(s)
}

// putText puts a value of the model as JSON.
func (w *rowWriter) putText(v any) {
	start := len(w.made)
	w.made = value.Append(w.made, v)
	w.putMade(start)
}

// putValue is putText, and NULL for nothing. It cannot tell nil from a value null, nor need it: both are nil in a state.
func (w *rowWriter) putValue(v any) {
	if v == nil {
		w.putNull()
		return
	}
	w.putText(v)
}

// putTime puts milliseconds, NULL for the zero time.
func (w *rowWriter) putTime(t time.Time) {
	if t.IsZero() {
		w.putNull()
		return
	}
	w.putInts(t.UnixMilli())
}

// putBool puts 1 for true and 0 for false, which SQLite has no type for.
func (w *rowWriter) putBool(b bool) {
	n := int64(0)
	if b {
		n = 1
	}
	w.putInts(n)
}

// putHex puts an epoch as sixteen hexadecimal digits.
func (w *rowWriter) putHex(e state.Epoch) {
	start := len(w.made)
	w.made = value.AppendHex(w.made, uint64(e))
	w.putMade(start)
}

// putEpoch is putHex, and NULL for none: of a token that has never been dispatched.
func (w *rowWriter) putEpoch(e state.Epoch) {
	if e == 0 {
		w.putNull()
		return
	}
	w.putHex(e)
}

// putJSON puts what encoding/json makes of v, NULL for nothing.
func (w *rowWriter) putJSON(isNothing bool, v any) {
	if isNothing {
		w.putNull()
		return
	}
	text, _ := column.JSONText(v).(string) // it is always one
	w.putTexts(text)
}

// putCounts puts loop counts.
func (w *rowWriter) putCounts(c state.Counts) { w.putJSON(c == nil, c) }

func (w *rowWriter) putFailure(f *workflow.Failure) { w.putJSON(f == nil, f) }

// votes encodes the votes of an approval: their data keeps its types.
var votes = codec.New[any](ballots{})

// ballots are the votes of one approval as a codec takes them: it encodes structs, and a list is not one.
type ballots struct {
	Votes []state.Vote `json:"votes"`
}

// memories encodes what tokens remember of their tasks: its values keep their types.
var memories = codec.New[any](state.TaskMemory{})

// putVotes puts the votes of an approval, NULL for none. Their values have passed a limit and a codec before, when the
// decision was recorded: an error here is a broken invariant.
func (w *rowWriter) putVotes(vs []state.Vote) {
	if vs == nil {
		w.putNull()
		return
	}
	w.putEncoded(votes, ballots{vs})
}

// putMemory puts what a token remembers, NULL for nothing, with the same right to panic.
func (w *rowWriter) putMemory(m *state.TaskMemory) {
	if m == nil {
		w.putNull()
		return
	}
	w.putEncoded(memories, *m)
}

func (w *rowWriter) putEncoded(by *codec.Union[any], v any) {
	start := len(w.made)
	made, err := by.Append(w.made, v, nil)
	if err != nil {
		panic(fmt.Sprintf("runfile: a %T: %v", v, err))
	}
	w.made = made
	w.putMade(start)
}
