// Package actor knows the store.
package actor

import (
	_ "context"

	_ "github.com/pawl-run/pawl/planning"
	_ "github.com/pawl-run/pawl/store"
)
