// Package refusal has errors with which the engine answers its callers, for the packages below it. Package pawl shows them.
package refusal

import (
	"errors"
	"fmt"

	"github.com/pawl-run/pawl/actor"
	"github.com/pawl-run/pawl/store"
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
		return fmt.Errorf("%w: %w", ErrClosed, err)
	}
	return err
}
