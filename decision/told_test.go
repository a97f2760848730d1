package decision

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/workflow"
)

// drawTold returns an event whose data are made later.
func drawTold(t *rapid.T) Told {
	texts := rapid.SampledFrom([]string{"", "a", "charge card", `a "b" \\ c`, "\n", "ö"})
	told := Told{
		event:  Event{Type: "x", Token: 3, Node: "n", Group: workflow.GroupID(rapid.IntRange(0, 2).Draw(t, "group"))},
		branch: rapid.IntRange(0, 1000).Draw(t, "branch"),
	}
	switch rapid.IntRange(0, 6).Draw(t, "kind") {
	case 0:
		told.later = noData{}
	case 1:
		told.later = scopeData{}
	case 2:
		told.later = dispatchData{texts.Draw(t, "task"), rapid.IntRange(1, 1000).Draw(t, "attempt"), state.Epoch(rapid.Uint64().Draw(t, "epoch"))}
	case 3:
		told.later = siblingData{workflow.TransitionID(texts.Draw(t, "via")), rapid.Bool().Draw(t, "completes")}
	case 4:
		told.later, told.began = noData{}, rapid.Int64Range(-1<<47, 1<<49).Draw(t, "began")
	case 5:
		told.later, told.began = siblingData{workflow.TransitionID(texts.Draw(t, "via")), true}, 1
	case 6:
		if rapid.Bool().Draw(t, "some") {
			told.event.Data = map[string]any{"b": int64(1), "a": "x"}
		}
	}
	return told
}

// The text of an event's data is that of the map, whichever is asked for, and nobody's map is another's.
func TestDataAreTheSameAsTextAndAsMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		told := drawTold(t)
		text, some := told.AppendText([]byte("before"))
		e := told.Event()
		require.Equal(t, e.Data != nil, some)
		if !some {
			require.Equal(t, "before", string(text))
			return
		}
		require.Equal(t, string(value.Append([]byte("before"), e.Data)), string(text))
		if told.later != nil {
			e.Data["more"] = true
			require.NotContains(t, told.Event().Data, "more")
		}
	})
}

// The sender of the message is named among data that would be made later, too.
func TestWhoSentTheMessageIsNamedInLaterData(t *testing.T) {
	told := Told{
		event:  Event{Type: workflow.EventTaskDispatched, Token: 3, Group: 1},
		branch: 2, later: dispatchData{"work", 4, 0xab},
	}
	nameActor(state.Retry{Token: 3, Act: state.Act{By: "ann"}}, &told)
	want := map[string]any{"task": "work", "attempt": int64(4), "epoch": "00000000000000ab", "branch": int64(2), "by": "ann"}
	require.Equal(t, want, told.Event().Data)
	text, some := told.AppendText(nil)
	require.True(t, some)
	require.Equal(t, string(value.Encode(want)), string(text))
}

// Events are added behind many others in pieces, between which others run.
func TestEventsAreAddedInPieces(t *testing.T) {
	many := make([]Told, 100_000)
	require.Greater(t, harness.CountTurns(func() { appendEvents(many, nil, CreateToken{}) }), int64(15))
}

// A list of events that has room for one more takes it, whatever a decision could tell.
func TestEventsTakeTheRoomThatThereIs(t *testing.T) {
	told := make([]Told, 3, 4)
	require.Same(t, &told[0], &appendEvents(told, nil, CreateToken{})[0])
}

// The text of a long record stays in the memory in which it was made, which is no longer anybody's scratch.
func TestTextsOfLongRecordsAreKept(t *testing.T) {
	record := func(task string) Record {
		r := Record{Seq: 1, Message: state.Start{}}
		for i := range 3000 {
			r.Decisions = append(r.Decisions, DispatchTask{Token: workflow.TokenID(i + 1), Task: task, Attempt: 1})
		}
		return r
	}
	var scratch []byte
	var all []Encoded
	for _, task := range []string{"first", "other", "third"} {
		e, used, err := record(task).EncodeWith(scratch)
		require.NoError(t, err)
		all, scratch = append(all, e), used
	}
	for i, task := range []string{"first", "other", "third"} {
		want, err := record(task).Encode()
		require.NoError(t, err)
		require.True(t, bytes.Equal(want.Decisions, all[i].Decisions), "the text is another one's")
		require.Greater(t, len(all[i].Decisions), largeText)
	}
}

// A large value stays in the memory in which it was encoded, which is no longer anybody's scratch; one that is there already, and one behind much
// else, does not.
func TestLargeValuesAreKept(t *testing.T) {
	large := func(letter string, n int) map[string]any { return map[string]any{"text": strings.Repeat(letter, n)} }
	var all []Encoded
	var want []string
	for _, n := range []int{70 << 10, 300 << 10, 65 << 10, 10 << 10, 80 << 10} {
		for _, letter := range []string{"a", "\n", "ö"} {
			// The large value is first in the decisions; the text of the other ones is before it in the second record.
			for _, before := range []int{0, 2000} {
				r := Record{Seq: 1, Message: state.TaskCompleted{Token: 1, Output: large(letter, n)}}
				for i := range before {
					r.Decisions = append(r.Decisions, DispatchTask{Token: workflow.TokenID(i + 1), Task: "some task", Attempt: 1})
				}
				r.Decisions = append(r.Decisions, CompleteToken{Token: 1, Output: large(letter, n)}, CompleteToken{Token: 2, Output: large(letter, n+1)})
				scratch := make([]byte, 0, n*9/8)
				e, used, err := r.EncodeWith(scratch)
				require.NoError(t, err)
				all, want = append(all, e), append(want, string(value.Encode(large(letter, n))), string(value.Encode(large(letter, n+1))))
				clear(scratch[:cap(scratch)]) // the next record would lie there
				clear(used[:cap(used)])
			}
		}
	}
	for i, e := range all {
		require.Equal(t, 2, e.Values.Len())
		for _, raw := range e.Values.All() {
			require.True(t, want[0] == string(raw), "value of record %d", i)
			require.Equal(t, len(raw), cap(raw))
			want = want[1:]
		}
		got, err := e.Decode(e.Values.Lookup)
		require.NoError(t, err)
		require.Equal(t, i%2*2000+2, len(got.Decisions))
	}
}

// The text that a message brings along is what the record keeps of its value, in the message and in what was decided of it.
func TestTextOfAMessageIsKept(t *testing.T) {
	v := map[string]any{"text": strings.Repeat("x", 2<<10)}
	text := value.TextOf(v, value.Text{})
	for _, m := range []state.Message{state.Start{Input: v, Text: text}, state.TaskCompleted{Token: 1, Attempt: 1, Output: v, Text: text}} {
		r := Record{Seq: 1, Message: m, Decisions: []Decision{CompleteToken{Token: 1, Output: v}}}
		e, err := r.Encode()
		require.NoError(t, err)
		require.Equal(t, 1, e.Values.Len())
		for hash, raw := range e.Values.All() {
			require.Equal(t, text.Hash, hash)
			require.Same(t, &text.JSON[0], &raw[0])
		}
		require.Contains(t, string(e.Message), text.Hash)
		require.Contains(t, string(e.Decisions), text.Hash)
	}
}
