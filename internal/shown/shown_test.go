package shown_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/filter"
	"github.com/pawl-run/pawl/internal/importing"
	"github.com/pawl-run/pawl/internal/seal"
	"github.com/pawl-run/pawl/store"
)

// The errors of inner packages are found as the types of package pawl, with all of their fields and their text.
func TestErrorsAreShown(t *testing.T) {
	requireShown(t, &store.CorruptError{Run: "r", File: "f", What: "w", Err: errCause}, func(e *store.CorruptError) *pawl.CorruptError { return (*pawl.CorruptError)(e) })
	requireShown(t, &store.LockedError{Process: 7, Command: "pawl ls"}, func(e *store.LockedError) *pawl.LockedError { return (*pawl.LockedError)(e) })
	requireShown(t, &store.EffortError{Most: time.Second, Run: "r", Token: 3}, func(e *store.EffortError) *pawl.EffortError { return (*pawl.EffortError)(e) })
	requireShown(t, &seal.Error{KeyID: "k", Place: "p", Err: errCause}, func(e *seal.Error) *pawl.SealedError { return (*pawl.SealedError)(e) })
	requireShown(t, &importing.Error{Run: "r", Record: 2, Was: "a", Is: "b"}, func(e *importing.Error) *pawl.ImportError { return (*pawl.ImportError)(e) })
	requireShown(t, &filter.Error{Line: 1, Column: 2, Message: "m", Run: "r"}, func(e *filter.Error) *pawl.WhereError { return (*pawl.WhereError)(e) })
}

func requireShown[E, P error](t *testing.T, inner E, convert func(E) P) {
	var found P
	require.ErrorAs(t, fmt.Errorf("list runs: %w", inner), &found)
	require.Equal(t, convert(inner), found)
	require.Equal(t, inner.Error(), found.Error())
	for _, of := range []error{pawl.ErrCorrupt, pawl.ErrLocked, pawl.ErrSealed, errCause} {
		require.Equal(t, errors.Is(inner, of), errors.Is(found, of), "%v", of)
	}
}

var errCause = errors.New("cause")

// lockedError has the fields of a LockedError, and is not one.
type lockedError struct {
	Process int
	Command string
}

func (*lockedError) Error() string { return "" }

// A type of another package is not found, whatever its fields are, nor one of package pawl with other fields.
func TestOtherTypesAreNotShown(t *testing.T) {
	inner := fmt.Errorf("open: %w", &store.LockedError{Process: 7})
	require.NotErrorAs(t, inner, new(*lockedError))
	require.NotErrorAs(t, inner, new(*pawl.CorruptError))
	require.NotErrorAs(t, inner, new(interface{ Timeout() bool }))
}
