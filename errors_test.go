package pawl_test

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/filter"
	"github.com/pawl-run/pawl/internal/importing"
	"github.com/pawl-run/pawl/internal/refusal"
	"github.com/pawl-run/pawl/internal/seal"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/workflow"
)

// ofHandlers are the errors that handlers return to the engine: none of its methods fails with them.
var ofHandlers = []string{"ErrPending", "SnoozeError", "TaskError"}

// wrapping are the errors that stand for that which they wrap, and the one of Close, which no surface answers with.
var wrapping = []string{"ForkError", "LeftBehindError"}

// conditions are the exported errors of package pawl, one in the form in which the store returns it. The test fails if one is missing here.
var conditions = map[string]error{
	"ErrRunExists": pawl.ErrRunExists, "ErrRunNotFound": pawl.ErrRunNotFound, "ErrScheduleNotFound": pawl.ErrScheduleNotFound, "ErrNotPublished": pawl.ErrNotPublished, "ErrPublished": pawl.ErrPublished,
	"ErrLocked": pawl.ErrLocked, "ErrForeign": pawl.ErrForeign, "ErrFenced": pawl.ErrFenced, "ErrCorrupt": pawl.ErrCorrupt, "ErrVersion": pawl.ErrVersion,
	"ErrFailed": pawl.ErrFailed, "ErrFollowed": pawl.ErrFollowed, "ErrNoBase": pawl.ErrNoBase, "ErrNoSpace": pawl.ErrNoSpace, "ErrStale": pawl.ErrStale,
	"ErrEnded": pawl.ErrEnded, "ErrNotEnded": pawl.ErrNotEnded, "ErrNotLive": pawl.ErrNotLive, "ErrAmbiguous": pawl.ErrAmbiguous,
	"ErrAlreadyVoted": pawl.ErrAlreadyVoted, "ErrGroupClosed": pawl.ErrGroupClosed, "ErrConflict": pawl.ErrConflict, "ErrAgain": pawl.ErrAgain,
	"ErrSuspended": pawl.ErrSuspended, "ErrUnknown": pawl.ErrUnknown, "ErrBusy": pawl.ErrBusy, "ErrClosed": pawl.ErrClosed,
	"ErrMaintenance": pawl.ErrMaintenance, "ErrInvalid": pawl.ErrInvalid, "ErrRemote": pawl.ErrRemote, "ErrOtherLog": pawl.ErrOtherLog,
	"ErrSealed": pawl.ErrSealed, "ErrGivesUp": pawl.ErrGivesUp, "ErrNothingLost": pawl.ErrNothingLost,
	"CorruptError": &pawl.CorruptError{}, "LockedError": &pawl.LockedError{}, "AgainError": &pawl.AgainError{}, "WhereError": fmt.Errorf("%w: %w", pawl.ErrInvalid, &pawl.WhereError{}),
	"EffortError": &store.EffortError{}, "LabelError": &pawl.LabelError{}, "TenantBusyError": &pawl.TenantBusyError{}, "TenantFullError": &pawl.TenantFullError{},
	"SealedError": &pawl.SealedError{}, "ImportError": &pawl.ImportError{},
}

// A run that failed is no fault of the caller who waits for it, as a result is that a node refuses.
func TestStatusOfARunThatFailed(t *testing.T) {
	failed := workflow.Outcome{Run: "r", Status: workflow.RunFailed, Failure: &workflow.Failure{Code: "x"}}
	require.Equal(t, 500, pawl.HTTPStatus(failed.Err()))
	require.Equal(t, 400, pawl.HTTPStatus(&workflow.Failure{Code: "x"}))
}

// The table has a row for every error that package pawl exports.
func TestEveryErrorHasARow(t *testing.T) {
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	var names []string
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, d := range f.Decls {
			g, _ := d.(*ast.GenDecl)
			if g == nil {
				continue
			}
			for _, spec := range g.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					if s.Name.IsExported() && strings.HasSuffix(s.Name.Name, "Error") {
						names = append(names, s.Name.Name)
					}
				case *ast.ValueSpec:
					for _, n := range s.Names {
						if strings.HasPrefix(n.Name, "Err") {
							names = append(names, n.Name)
						}
					}
				}
			}
		}
	}
	require.Greater(t, len(names), 30)
	for _, name := range names {
		if slices.Contains(ofHandlers, name) || slices.Contains(wrapping, name) {
			continue
		}
		require.Contains(t, conditions, name, "put the error into this test, and a row into the table")
		err := conditions[name]
		require.True(t, refusal.Knows(err), "%s has no row", name)
		wrapped := fmt.Errorf("run %q: %w", "r", err)
		require.Equal(t, refusal.Of(err).Code, refusal.Of(wrapped).Code)
		require.Equal(t, refusal.Of(err).Status, pawl.HTTPStatus(wrapped), name)
		if !strings.HasSuffix(name, "Error") {
			code, ok := refusal.CodeOf(err)
			require.True(t, ok && code == refusal.Of(err).Code, "%s is found by another row than its own", name)
		}
	}
	require.False(t, refusal.Knows(errors.New("something else")))
	require.Equal(t, 500, pawl.HTTPStatus(errors.New("something else")))
	require.Equal(t, 200, pawl.HTTPStatus(nil))
}

// Errors of one code are answered with one status.
func TestOneStatusForEachCode(t *testing.T) {
	seen := map[string]int{}
	for name, err := range conditions {
		row := refusal.Of(err)
		if status, ok := seen[row.Code]; ok {
			require.Equal(t, status, row.Status, "%s: %v", name, reflect.TypeOf(err))
		}
		seen[row.Code] = row.Status
	}
}

// docs/api.md has the table: a line for each HTTP status, exit status, and whether an error ends what is done to many.
func TestTableOfThePage(t *testing.T) {
	codes := map[string][]string{}
	for _, r := range refusal.Rows() {
		all := ""
		if r.All {
			all = " yes"
		}
		line := fmt.Sprintf("| %d | %d |%s |", r.Status, r.Exit, all)
		codes[line] = append(codes[line], "`"+r.Code+"`")
	}
	var want strings.Builder
	for _, line := range slices.Sorted(maps.Keys(codes)) {
		fmt.Fprintf(&want, "%s %s |\n", line, strings.Join(codes[line], ", "))
	}
	page, err := os.ReadFile("docs/api.md")
	require.NoError(t, err)
	require.True(t, strings.Contains(string(page), want.String()), "docs/api.md says otherwise than the table of errors:\n%s", &want)
}

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

// A context that ends with a cause is told as both: as its end, by which callers and HTTP know a deadline, and as the cause.
func TestTheCauseOfAContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := open(t, t.TempDir(), pawl.Options{})
		waits := workflow.Run{ID: "w", Definition: &workflow.Definition{Name: "w", Start: "a", Nodes: []workflow.Node{{ID: "a", Wait: &workflow.WaitSpec{Event: "go"}}}}}
		require.NoError(t, e.Start(t.Context(), waits, nil))
		reason := errors.New("the request took too long")
		late, stop := context.WithTimeoutCause(t.Context(), time.Second, reason)
		defer stop()
		_, err := e.Wait(late, "w")
		require.EqualError(t, err, "context deadline exceeded: the request took too long")
		gone, leave := context.WithCancelCause(t.Context())
		leave(reason)
		_, inspected := e.Inspect(gone, "w")
		_, summed := e.Summary(gone, "w")
		_, counted := e.Counts(gone)
		_, published := e.Published(gone, "w", 1)
		_, simulated := e.Simulate(gone, pawl.OfRun{Run: "w"})
		_, listed := e.Schedules().Get(gone, "w")
		sim, err2 := e.Simulate(t.Context(), pawl.OfRun{Run: "w"})
		require.NoError(t, err2)
		_, measured := e.DiskUse(gone)
		_, copied := e.Backup(gone, filepath.Join(t.TempDir(), "copy"))
		var once error
		_, err2 = e.Once(t.Context(), "key", func(context.Context) (any, error) { // others wait for it
			_, once = e.Once(gone, "key", func(context.Context) (any, error) { return 1, nil })
			return 1, nil
		})
		require.NoError(t, err2)
		for _, c := range []struct {
			err    error
			is     error
			status int
		}{
			{err, context.DeadlineExceeded, 504},
			{e.AwaitFailure(late), context.DeadlineExceeded, 504},
			{e.Signal(late, "w", workflow.Signal{Name: "go"}), context.DeadlineExceeded, 504},
			{inspected, context.Canceled, 503},
			{summed, context.Canceled, 503},
			{counted, context.Canceled, 503},
			{published, context.Canceled, 503},
			{simulated, context.Canceled, 503},
			{listed, context.Canceled, 503},
			{e.Export(gone, "w", io.Discard, pawl.ExportOptions{}), context.Canceled, 503},
			{e.Fork(gone, "w", "f", pawl.ForkOptions{}), context.Canceled, 503},
			{e.Signal(gone, "w", workflow.Signal{Name: "go"}), context.Canceled, 503},
			{sim.Do(gone, pawl.Signal{Name: "go"}), context.Canceled, 503},
			{measured, context.Canceled, 503},
			{copied, context.Canceled, 503},
			{once, context.Canceled, 503},
		} {
			require.ErrorIs(t, c.err, c.is)
			require.ErrorIs(t, c.err, reason)
			require.Equal(t, c.status, pawl.HTTPStatus(c.err))
		}
		plain, end := context.WithTimeout(t.Context(), time.Second)
		defer end()
		_, err = e.Wait(plain, "w")
		require.Equal(t, context.DeadlineExceeded, err)
		require.NoError(t, e.Close(t.Context()))
	})
}

// An engine that is closed says so once.
func TestAClosedEngineSaysSoOnce(t *testing.T) {
	e := open(t, t.TempDir(), pawl.Options{})
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "r", Definition: define(t, waitThenWork)}, nil))
	require.NoError(t, e.Close(t.Context()))
	_, inspected := e.Inspect(t.Context(), "r")
	_, put := e.PutBlob(t.Context(), strings.NewReader("x"), "")
	for call, err := range map[string]error{"inspect": inspected, "put": put, "start": e.Start(t.Context(), workflow.Run{ID: "s", Definition: define(t, waitThenWork)}, nil), "cancel": e.Cancel(t.Context(), "r", "")} {
		require.ErrorIs(t, err, pawl.ErrClosed, call)
		require.Equal(t, 1, strings.Count(err.Error(), "closed"), "%s: %v", call, err)
	}
}
