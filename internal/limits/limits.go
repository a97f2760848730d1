// Package limits has the bounds of definitions and of runs that a definition cannot change. docs/limits.md lists them
// for users; a test compares the two.
package limits

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Bounds that a definition cannot change.
const (
	MaxRunID           = 255     // bytes
	MaxName            = 255     // bytes of names, ids and codes of a definition; as many as of a run's id, so that a name fits wherever an id does
	MaxDefinitionBytes = 4 << 20 // of the definition as JSON
	MaxExpressionBytes = 1 << 20 // of the source of all its expressions, each different one once
	MaxNodes           = 10_000
	MaxTransitions     = 50_000
	MaxMergedBytes     = 16 << 20   // of a merged value
	MaxExpression      = 16 << 10   // bytes of source
	MaxQuestion        = 16 << 10   // bytes of the message of an approval, if that is an expression
	MaxPlan            = 500_000    // decisions that answer one message
	MaxNotes           = 100_000    // of why they were made
	MaxNoteBytes       = 16 << 20   // of their text
	MaxNesting         = 256        // groups within each other
	MaxSignals         = 10_000     // that are kept until somebody takes them
	MaxChoices         = 256        // names among which an expression chooses a task type or a subworkflow
	MaxVotes           = 1_000      // on one approval
	MaxArtifacts       = 10_000     // of one run
	MaxPatch           = 1_000      // operations of one patch
	MaxSubschemas      = 5_000      // of one JSON Schema
	MaxAllSubschemas   = 50_000     // of all JSON Schemas of a definition
	MaxAppliedSchemas  = 10_000     // of them to one value, each as often as $ref leads to it
	MaxSchemaCost      = 10_000_000 // units of cost of all checks against schemas that one message comes to
	MaxReason          = 1 << 10    // bytes of why a call was made
	MaxTenant          = 255        // bytes of the name of a tenant
)

// Bounds of what a handler says.
const (
	MaxDetails    = 16 << 10            // bytes of JSON of the details of a heartbeat
	MaxRetryAfter = 24 * time.Hour      // of an error that chooses when the next attempt begins
	MinSnooze     = time.Second         // of a task that asks to be called again
	MaxSnooze     = 30 * 24 * time.Hour // likewise
)

// MaxRefusals bounds the refusals that a report of acts on many runs has.
const MaxRefusals = 1000

// The bounds of the labels of a run: how many, and the bytes of a key and of a value.
const (
	MaxLabels     = 16
	MaxLabelKey   = 64
	MaxLabelValue = 256
)

// SchemaCost names, in a workflow.LimitError, the cost of a check against a JSON Schema. It has no field in
// workflow.Limits: a definition cannot change it.
const SchemaCost = "schemaCost"

// SignalBytes names, in a workflow.LimitError, the bytes of the signals that a run keeps.
const SignalBytes = "signalBytes"

// The bound of the cost of all expressions of one message: PlanCosts times the limit of one expression, and
// DecisionCost more for each decision that the message leads to. That is 10 million units, about a second at the
// very most, and 25 million more for a fan-out of 100,000. Every evaluation counts EvaluationCost beside its own
// cost, its result as much beside its size, and a loop CountCost for each loop count that it hands on.
const (
	PlanCosts      = 10
	DecisionCost   = 250
	EvaluationCost = 10
	CountCost      = 10
)

// NameFault says what is wrong with a name, an id or a code; "" is nothing. Names come into paths of events, URLs
// and lists that people read. Everything else is free, spaces within a name too.
func NameFault(s string) string {
	switch {
	case len(s) > MaxName:
		return fmt.Sprintf("%d bytes are more than %d", len(s), MaxName)
	case !utf8.ValidString(s):
		return "it is not UTF-8"
	case strings.ContainsFunc(s, unicode.IsControl):
		return "it has control characters"
	// A blank at an end cannot be seen where the name is shown.
	case strings.TrimSpace(s) != s || s == "":
		return "it is blank at an end"
	}
	return ""
}
