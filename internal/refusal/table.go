package refusal

import (
	"context"
	"errors"
	"slices"
	"strconv"

	"github.com/pawl-run/pawl/actor"
	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/internal/crowd"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/schedule"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/workflow"
)

// ErrScheduleNotFound says that no schedule has an id.
var ErrScheduleNotFound = errors.New("there is no such schedule")

// ErrAgain says that a Rerun would do again what has completed.
var ErrAgain = errors.New("it would do again what has completed, which ForkOptions.Again allows")

// The exit statuses of the command for errors of an engine.
const (
	ExitUnusable    = 2   // a file, a directory or an argument cannot be used
	ExitNotFound    = 3   // there is no such run or definition
	ExitNoEngine    = 4   // the engine cannot do it
	ExitRefused     = 5   // the engine does not do it as things stand
	ExitUnknown     = 6   // it may have been done, or not
	ExitTimeout     = 124 // as of timeout(1)
	ExitInterrupted = 130 // as of shells
)

// A Row says what one condition is to each surface.
type Row struct {
	Code   string // of the HTTP API
	Status int    // of HTTP
	Exit   int    // of the command

	All   bool // it concerns all runs: an act on many stops
	Gone  bool // somebody else was first: an act on many leaves what it is of as it is
	Later bool // nothing was done, and the same call may be taken a moment later: the answer has a Retry-After

	err   error            // the condition, or
	typed func(error) bool // the type of its errors
}

// Codes of the table that the API uses by itself as well.
const (
	CodeInvalid  = "invalid_request"
	CodeTooLarge = "too_large"
	CodeTooFast  = "too_fast"
	CodeBusy     = "busy"
	CodeTimeout  = "timeout"
	CodeInternal = "internal"
	CodeNoRun    = "run_not_found"
)

// A table has a row for each condition; the first that fits counts.
type table struct{ rows []Row }

// conditions are the errors with which an engine answers. A full disk comes before an
// outcome that is unknown, since nothing was changed then; ErrInvalid, which many errors wrap that say more, is one of the last. An error that is added gets a row here.
var conditions = &table{[]Row{
	{typed: is[*workflow.LimitError], Code: CodeTooLarge, Status: 413, Exit: ExitUnusable},
	{err: store.ErrRunNotFound, Code: CodeNoRun, Status: 404, Exit: ExitNotFound, Gone: true},
	{err: ErrScheduleNotFound, Code: "schedule_not_found", Status: 404, Exit: ExitNotFound},
	{err: store.ErrNotPublished, Code: "not_published", Status: 404, Exit: ExitNotFound},
	{err: blob.ErrMissing, Code: "blob_missing", Status: 404, Exit: ExitNotFound},
	{err: blob.ErrDamaged, Code: "blob_damaged", Status: 500, Exit: ExitUnusable},
	{err: store.ErrNoBase, Code: "no_base", Status: 404, Exit: ExitNotFound},
	{err: state.ErrRunExists, Code: "run_exists", Status: 409, Exit: ExitRefused},
	{err: store.ErrPublished, Code: "already_published", Status: 409, Exit: ExitRefused},
	{err: state.ErrStale, Code: "stale", Status: 409, Exit: ExitRefused},
	{err: state.ErrEnded, Code: "ended", Status: 409, Exit: ExitRefused, Gone: true},
	{err: store.ErrNotEnded, Code: "not_ended", Status: 409, Exit: ExitRefused},
	{err: state.ErrNotLive, Code: "not_live", Status: 409, Exit: ExitRefused},
	{err: state.ErrAmbiguous, Code: "ambiguous", Status: 409, Exit: ExitRefused},
	{err: state.ErrAlreadyVoted, Code: "already_voted", Status: 409, Exit: ExitRefused},
	{err: state.ErrGroupClosed, Code: "group_closed", Status: 409, Exit: ExitRefused},
	{err: state.ErrConflict, Code: "conflict", Status: 409, Exit: ExitRefused},
	{err: ErrAgain, Code: "done_again", Status: 409, Exit: ExitRefused},
	{err: state.ErrSuspended, Code: "suspended", Status: 409, Exit: ExitRefused},
	{err: ErrMaintenance, Code: "maintenance", Status: 409, Exit: ExitNoEngine, All: true},
	{err: store.ErrFollowed, Code: "followed", Status: 409, Exit: ExitRefused},
	{err: store.ErrRemote, Code: "remote", Status: 409, Exit: ExitNoEngine, All: true},
	{err: store.ErrOtherLog, Code: "other_log", Status: 409, Exit: ExitNoEngine, All: true},
	{err: store.ErrForeign, Code: "foreign", Status: 409, Exit: ExitUnusable, All: true},
	{typed: isUnknownForGood, Code: "unknown_outcome", Status: 503, Exit: ExitUnknown, All: true},
	{err: store.ErrNoSpace, Code: "no_space", Status: 507, Exit: ExitNoEngine, All: true},
	{err: actor.ErrBusy, Code: CodeBusy, Status: 503, Exit: ExitRefused, Later: true},
	{typed: is[*crowd.BusyError], Code: CodeBusy, Status: 503, Exit: ExitRefused, All: true, Later: true},
	{typed: is[*crowd.TooFastError], Code: CodeTooFast, Status: 429, Exit: ExitRefused, All: true, Later: true},
	{err: state.ErrUnknown, Code: "unknown_outcome", Status: 503, Exit: ExitUnknown, All: true},
	{err: store.ErrFenced, Code: "fenced", Status: 503, Exit: ExitNoEngine, All: true},
	{err: store.ErrFailed, Code: "failed", Status: 503, Exit: ExitNoEngine, All: true},
	{err: store.ErrLocked, Code: "locked", Status: 503, Exit: ExitNoEngine, All: true},
	{err: ErrClosed, Code: "closed", Status: 503, Exit: ExitNoEngine, All: true},
	{err: store.ErrSealed, Code: CodeInternal, Status: 500, Exit: ExitUnusable},
	{err: store.ErrCorrupt, Code: "corrupt", Status: 500, Exit: ExitUnusable},
	{err: store.ErrVersion, Code: "wrong_version", Status: 500, Exit: ExitUnusable},
	{err: store.ErrGivesUp, Code: CodeInternal, Status: 500, Exit: ExitUnusable},
	{err: store.ErrNothingLost, Code: CodeInternal, Status: 500, Exit: ExitUnusable},
	{typed: is[*store.EffortError], Code: CodeInternal, Status: 500, Exit: ExitUnusable, All: true},
	{err: context.DeadlineExceeded, Code: CodeTimeout, Status: 504, Exit: ExitTimeout},
	{err: context.Canceled, Code: "closed", Status: 503, Exit: ExitInterrupted},
	{err: ErrInvalid, Code: CodeInvalid, Status: 400, Exit: ExitUnusable, All: true},
	{err: errUnfit, Code: CodeInternal, Status: 500, Exit: ExitUnusable},
	{typed: is[*workflow.RunError], Code: CodeInternal, Status: 500, Exit: ExitUnusable}, // its failure is no result that a node refuses
	{typed: isGiven, Code: CodeInvalid, Status: 400, Exit: ExitUnusable},
}}

// is reports whether an error is, or wraps, one of a type.
func is[T error](err error) bool { return errors.As(err, new(T)) }

// isUnknownForGood reports whether nobody knows what was done until the directory is opened again, whatever it failed for: a full disk too.
func isUnknownForGood(err error) bool {
	return errors.Is(err, state.ErrUnknown) && errors.Is(err, store.ErrFailed)
}

// isGiven reports whether an error is of what a caller gives: a definition, schedules, an input, a patch or a signal, or a result that a node refuses.
func isGiven(err error) bool {
	return is[*workflow.DefinitionError](err) || is[*workflow.InputError](err) || is[*workflow.PatchError](err) || is[*workflow.SignalError](err) ||
		is[*schedule.Error](err) || is[*workflow.Failure](err) || is[*workflow.SchemaError](err)
}

func (r *Row) isOf(err error) bool {
	return r.err != nil && errors.Is(err, r.err) || r.typed != nil && r.typed(err)
}

// Of returns the row of an error: that of CodeInternal if no other fits.
func Of(err error) Row {
	for i := range conditions.rows {
		if conditions.rows[i].isOf(err) {
			return conditions.rows[i]
		}
	}
	return Row{Code: CodeInternal, Status: 500, Exit: ExitUnusable}
}

// Knows reports whether the table has a row for an error.
func Knows(err error) bool {
	return slices.ContainsFunc(conditions.rows, func(r Row) bool { return r.isOf(err) })
}

// ConcernsAll reports whether an error says something of the engine or of the caller, not of one run alone.
func ConcernsAll(err error) bool {
	return slices.ContainsFunc(conditions.rows, func(r Row) bool { return r.All && r.isOf(err) })
}

// RetryAfter returns after how many seconds a call may be made again that an error has refused, as the header of that name has it; "" where
// it is not known that nothing was done, or that it would help.
func RetryAfter(err error) string {
	if fast := (*crowd.TooFastError)(nil); errors.As(err, &fast) {
		return strconv.FormatInt(fast.Seconds, 10)
	}
	if Of(err).Later {
		return crowd.RetryAfter
	}
	return ""
}

// CodeOf returns the code of a condition itself, such as ErrClosed; ok is false for any other error.
func CodeOf(condition error) (code string, ok bool) {
	for i := range conditions.rows {
		if r := &conditions.rows[i]; r.err != nil && r.err == condition { //nolint:errorlint // it is the condition that is meant
			return r.Code, true
		}
	}
	return "", false
}

// Rows returns the rows of all conditions, the first of each code.
func Rows() (out []Row) {
	for _, r := range conditions.rows {
		if !slices.ContainsFunc(out, func(o Row) bool { return o.Code == r.Code }) {
			out = append(out, r)
		}
	}
	return out
}
