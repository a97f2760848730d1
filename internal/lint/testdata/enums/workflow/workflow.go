// Package workflow has an enumeration whose list lacks a value.
package workflow

import "slices"

// A Mode has two values.
type Mode string

// The modes.
const (
	ModeGraph Mode = "graph"
	ModeDAG   Mode = "dag"
)

var modes = []Mode{ModeGraph}

// Values returns the modes.
func (Mode) Values() []Mode { return slices.Clone(modes) }

// An On has two values.
type On string

// The outcomes.
const (
	OnSuccess On = "success"
	OnError   On = "error"
)

var outcomes = []On{OnError}

var enumerations = []any{outcomes}
