package inspector

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/schedule"
	"github.com/pawl-run/pawl/workflow"
)

// The text of an error is whole for readers who see texts, and ends for others where values of a run may begin.
func TestAnErrorIsShownWithoutValues(t *testing.T) {
	err := fmt.Errorf("skip: %w", &workflow.Failure{Code: "closed", Node: "a", Message: "at 4111"})
	const want = `skip: closed at node "a"`
	redact := func(_ workflow.RunID, _ string, v any) any { return v }
	require.Equal(t, want, (&page{rights: api.All &^ api.Values, s: &server{}}).errorAt(err))
	require.Equal(t, want, (&page{rights: api.All, s: &server{options: Options{Redact: redact}}}).errorAt(err))
	require.Equal(t, err.Error(), (&page{rights: api.All, s: &server{}}).errorAt(err))
}

// The reason of an incident is the text of an error, and not shown; that of a person is.
func TestAPauseIsShownWithoutTheError(t *testing.T) {
	const reason = "1 failures in a row, the last: it could not begin: input.n: 4111 is no timestamp"
	st := schedule.Standing{
		Schedule: schedule.Schedule{ID: "s", Every: time.Hour}, Paused: &schedule.Pause{Reason: reason, Incident: true},
		Why: "it is paused since T: " + reason + "; resume it when that is mended",
	}
	require.Equal(t, "It is paused since T; resume it when that is mended", (&page{rights: api.View, s: &server{}}).scheduleRowOf(&st).Why)
	require.Contains(t, (&page{rights: api.View | api.Values, s: &server{}}).scheduleRowOf(&st).Why, "4111")
	st.Paused.Incident = false
	require.Contains(t, (&page{rights: api.View, s: &server{}}).scheduleRowOf(&st).Why, reason, "of a person")
}
