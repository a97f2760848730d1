package late

import (
	"context"
	"errors"
	"fmt"
)

// Cause returns why a context has ended, or nil: for errors.Is it is both its Err, by which callers know a deadline, and its cause.
func Cause(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if err == nil || errors.Is(cause, err) {
		return cause
	}
	return fmt.Errorf("%w: %w", err, cause)
}
