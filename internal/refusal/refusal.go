// Package refusal has errors with which the engine answers its callers, for the packages below it. Package pawl shows them.
package refusal

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/pawl-run/pawl/actor"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/workflow"
)

// Conditions that callers test with errors.Is.
var (
	ErrClosed      = errors.New("the engine is closed")
	ErrMaintenance = errors.New("the engine is open for maintenance, and no run goes on: start your program")
	ErrInvalid     = errors.New("invalid argument")
)

// Closed returns err, or ErrClosed where it says that the engine stops.
func Closed(err error) error {
	if errors.Is(err, actor.ErrStopped) || errors.Is(err, store.ErrClosed) {
		return Stopped(err)
	}
	return err
}

// A stopped says that the engine is closed, and not that each part of it is closed as well.
type stopped struct {
	cause error
	doing string // "" if nothing more is known
}

// Stopped returns an error of a part of an engine that is closed as ErrClosed, without the end of its text.
func Stopped(err error) error {
	s := &stopped{cause: err, doing: err.Error()}
	for _, end := range []string{actor.ErrStopped.Error(), fs.ErrClosed.Error(), store.ErrClosed.Error()} {
		if before, ok := strings.CutSuffix(s.doing, end); ok {
			s.doing = strings.TrimSuffix(before, ": ")
			break
		}
	}
	return s
}

// Error says that the engine is closed, and for what that is too late.
func (s *stopped) Error() string {
	if s.doing == "" {
		return ErrClosed.Error()
	}
	return ErrClosed.Error() + ": " + s.doing
}

// Unwrap returns ErrClosed and the cause.
func (s *stopped) Unwrap() []error { return []error{ErrClosed, s.cause} }

// Limit returns a bound of the value model as one of the engine.
func Limit(e *value.Error) *workflow.LimitError {
	return &workflow.LimitError{Limit: e.Limit, Max: int64(e.Max)}
}

// UnfitResult returns the code and the message with which a task fails whose result cannot be taken. A result that is deeper or larger than is
// looked at fails as one that is deeper or larger than its definition takes, since no definition takes more than the defaults.
func UnfitResult(err error) (code, message string) {
	ve := &value.Error{}
	errors.As(err, &ve)
	switch ve.Limit {
	case value.LimitDepth:
		return workflow.CodeLimit, fmt.Sprintf("limit %s: more than %d containers inside each other in the result", ve.Limit, ve.Max)
	case value.LimitBytes:
		return workflow.CodeResultTooLarge, fmt.Sprintf("the result has %d bytes or more, at most %d are taken inline", ve.Value, workflow.DefaultLimits().PayloadBytes)
	}
	return workflow.CodeInvalidResult, err.Error()
}

// errUnfit says that a run has completed, and that its output does not fit the type that the caller has for it.
var errUnfit = errors.New("the output does not fit the type")

// Unfit returns the error of a Bind of an outcome so that callers tell an output that does not fit, by its type, from a run that did not complete.
func Unfit(err error) error {
	if err == nil || is[*workflow.RunError](err) {
		return err
	}
	return unfit{err}
}

// unfit is also a *workflow.SchemaError, and has the text of its error alone.
type unfit struct{ error }

// Unwrap returns what else the error is.
func (u unfit) Unwrap() []error {
	return []error{errUnfit, u.error, &workflow.SchemaError{Message: u.Error()}}
}

// InvalidValue returns why something that a caller gives is no value of the JSON
// model: it is ErrInvalid, and a *workflow.LimitError where it is too deep or too
// large to be looked at.
func InvalidValue(what string, err error) error {
	if ve := (*value.Error)(nil); errors.As(err, &ve) && ve.Code == value.CodeLimit {
		return fmt.Errorf("%w: %s: %w", ErrInvalid, what, Limit(ve))
	}
	return fmt.Errorf("%w: %s is not JSON: %w", ErrInvalid, what, err)
}

// InvalidPayload is [InvalidValue] of what the limit payloadBytes of a definition bounds, which is the default at most: it names that limit, where the
// value exceeds the higher one up to which it was looked at.
func InvalidPayload(what string, err error) error {
	if ve := (*value.Error)(nil); errors.As(err, &ve) && ve.Limit == value.LimitBytes {
		ve.Max = min(ve.Max, workflow.DefaultLimits().PayloadBytes)
	}
	return InvalidValue(what, err)
}
