package api

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/history"
	"github.com/pawl-run/pawl/internal/expr"
	"github.com/pawl-run/pawl/schedule"
	"github.com/pawl-run/pawl/workflow"
)

// An answer leaves out what its caller may not see, and the answers to others keep it.
func TestAnEventIsShownByACopy(t *testing.T) {
	data := func() map[string]any {
		return map[string]any{"key": "k", "message": "at 4111", "error": map[string]any{"code": "closed", "message": "at 4111", "cause": map[string]any{"code": "lost", "message": "at 4111"}}}
	}
	e := history.Event{Type: workflow.EventTaskRetrying, Data: data()}
	v := &viewer{rights: View | Values}
	require.NotContains(t, v.eventOf(&e).Data, "key")
	v.redact = func(_ workflow.RunID, _ string, x any) any { return x }
	require.Equal(t, map[string]any{"error": map[string]any{"code": "closed", "cause": map[string]any{"code": "lost"}}}, v.eventOf(&e).Data)
	require.Equal(t, data(), e.Data)
}

// A refusal quotes no values to a caller who sees no texts: it ends where they may begin.
func TestARefusalIsShownWithoutValues(t *testing.T) {
	failure := &workflow.Failure{Code: "closed", Node: "a", Message: "at 4111", Cause: &workflow.Failure{Code: "lost", Message: "at 4111"}}
	for _, x := range []struct {
		err  error
		want string
	}{
		{fmt.Errorf("skip: %w: at 4111", failure), `skip: closed at node "a", because lost`},
		{placeRefusal(1, 2, fmt.Errorf("skip: %w", failure)), `act 2 of 2: skip: closed at node "a", because lost`},
		{unknownOutcome(fmt.Errorf("skip: %w", failure)), `the outcome is unknown, it may have been done: skip: closed at node "a", because lost`},
		{&workflow.InputError{Path: "/card", Message: "4111 is no object", Schema: true, More: []workflow.SchemaError{{Message: "4111"}}}, `input does not fit the schema: at "/card": a value does not fit`},
		{fmt.Errorf("%w: %w", pawl.ErrInvalid, &workflow.SchemaError{Path: "/card", Message: "4111 is no object"}), `invalid argument: at "/card": a value does not fit`},
		{fmt.Errorf("input.n: %w", &expr.Error{Code: expr.CodeExpression, Message: "4111 is no timestamp", Line: 1}), "input.n: expression_error"},
		{errors.Join(pawl.ErrSuspended, errors.New("panic: 4111")), "the run is suspended"},
		{fmt.Errorf("run r: %w: its records do not fit each other: 4111", pawl.ErrCorrupt), "run r: corrupt"},
		{&pawl.CorruptError{Run: "4111", What: "its file", File: "f"}, `run "4111": corrupt: its file (f; restore it from a backup, or what its journal has by pawl repair)`},
		{&pawl.ImportError{Run: "r", Record: 3, Was: "set 4111"}, (&pawl.ImportError{Run: "r", Record: 3}).Error()},
		{&inOtherWords{failure}, `closed at node "a", because lost`},
		{fmt.Errorf("%w: there is no node %q", pawl.ErrNotLive, "4111"), `nothing there waits for this: there is no node "4111"`},
		{invalidf("there is no act %q", "4111"), `there is no act "4111"`},
		{ofOwnInput(&workflow.InputError{Path: "/card", Message: "4111 is no object"}), `input: at "/card": 4111 is no object`},
	} {
		require.Equal(t, x.want, (&viewer{rights: All &^ Values}).showRefusal(x.err).Message)
		redact := func(_ workflow.RunID, _ string, x any) any { return x }
		require.Equal(t, x.want, (&viewer{rights: All, redact: redact}).showRefusal(x.err).Message)
		require.Contains(t, (&viewer{rights: All}).showRefusal(x.err).Message, "4111")
	}
}

// An inOtherWords says differently what an error says.
type inOtherWords struct{ error }

func (*inOtherWords) Error() string   { return "it was closed, since 4111 was lost" }
func (w *inOtherWords) Unwrap() error { return w.error }

// The reason of an incident is the text of an error, and not shown; that of a person is.
func TestAPauseIsShownWithoutTheError(t *testing.T) {
	const reason = "1 failures in a row, the last: it could not begin: input.n: 4111 is no timestamp"
	standing := func() *schedule.Standing {
		return &schedule.Standing{
			Paused: &schedule.Pause{By: "schedule s", Reason: reason, Incident: true}, Why: "it is paused since T: " + reason + "; resume it when that is mended",
			Events: []schedule.Event{{Kind: "paused", By: "schedule s", Reason: reason}, {Kind: "paused", By: "ann", Reason: "holidays"}, {Kind: "refused", Error: "4111"}},
		}
	}
	blind, sees := &call{server: &server{}, caller: caller{rights: View}}, &call{server: &server{}, caller: caller{rights: View | Values}}
	st := standing()
	paused := st.Paused
	require.Equal(t, &schedule.Standing{
		Paused: &schedule.Pause{By: "schedule s", Incident: true}, Why: "it is paused since T; resume it when that is mended",
		Events: []schedule.Event{{Kind: "paused", By: "schedule s"}, {Kind: "paused", By: "ann", Reason: "holidays"}, {Kind: "refused"}},
	}, blind.hideStanding(st))
	require.Equal(t, reason, paused.Reason, "the engine has it still")
	require.Equal(t, standing(), sees.hideStanding(standing()))
	byAnn := &schedule.Standing{Paused: &schedule.Pause{By: "ann", Reason: "holidays"}, Why: "it is paused since T by ann: holidays"}
	require.Equal(t, "holidays", blind.hideStanding(byAnn).Paused.Reason)
	require.Contains(t, byAnn.Why, "holidays")
}
