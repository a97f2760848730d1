package hiding_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/expr"
	"github.com/pawl-run/pawl/internal/hiding"
	"github.com/pawl-run/pawl/workflow"
)

// The text of an error ends where values of a run may begin.
func TestHideValues(t *testing.T) {
	failure := &workflow.Failure{Code: "closed", Node: "a", Message: "at 4111"}
	for _, x := range []struct {
		err  error
		want string
	}{
		{fmt.Errorf("skip: %w: at 4111", failure), `skip: closed at node "a"`},
		{&workflow.InputError{Path: "/card", Message: "4111 is no object", More: []workflow.SchemaError{{Message: "4111"}}}, `input: at "/card": a value does not fit`},
		{fmt.Errorf("skip: %w", &workflow.SchemaError{Path: "/card", Message: "4111 is no object"}), `skip: at "/card": a value does not fit`},
		{fmt.Errorf("input.n: %w", &expr.Error{Code: expr.CodeExpression, Message: "4111 is no timestamp", Line: 1}), "input.n: expression_error"},
		{errors.Join(pawl.ErrSuspended, errors.New("panic: 4111")), "the run is suspended"},
		{fmt.Errorf("run r: %w: its records do not fit each other: 4111", pawl.ErrCorrupt), "run r: corrupt"},
		{&pawl.CorruptError{Run: "4111", What: "its file", File: "f"}, `run "4111": corrupt: its file (f; restore it from a backup, or what its journal has by pawl repair)`},
		{&pawl.ImportError{Run: "r", Record: 3, Was: "set 4111"}, (&pawl.ImportError{Run: "r", Record: 3}).Error()},
		{fmt.Errorf("%w: there is no node %q", pawl.ErrNotLive, "4111"), `nothing there waits for this: there is no node "4111"`},
	} {
		require.Equal(t, x.want, hiding.HideValues(x.err.Error(), x.err))
	}
	require.Equal(t, "closed", hiding.HideValues("it was closed, since 4111 was lost", &workflow.Failure{Code: "closed", Message: "at 4111"}), "the text is another")
}
