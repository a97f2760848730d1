// Package planning looks up.
package planning

import (
	_ "github.com/pawl-run/pawl"
	_ "github.com/pawl-run/pawl/decision"
	_ "github.com/pawl-run/pawl/store"
)
