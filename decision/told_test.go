package decision

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/pawl-run/pawl/internal/state"
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
	switch rapid.IntRange(0, 4).Draw(t, "kind") {
	case 0:
		told.later = noData{}
	case 1:
		told.later = scopeData{}
	case 2:
		told.later = dispatchData{texts.Draw(t, "task"), rapid.IntRange(1, 1000).Draw(t, "attempt"), workflow.Epoch(rapid.Uint64().Draw(t, "epoch"))}
	case 3:
		told.later = siblingData{workflow.TransitionID(texts.Draw(t, "via")), rapid.Bool().Draw(t, "completes")}
	case 4:
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

// Who has sent the message is named among data that would be made later, too.
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
