//go:build never

// Package value is below everything, whatever is built.
package value

import _ "github.com/pawl-run/pawl/merge"
