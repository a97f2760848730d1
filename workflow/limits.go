package workflow

import "cmp"

// DefaultLimits returns the bounds that hold where a definition sets none. They are the engine's own: a definition
// can only ask for less.
func DefaultLimits() Limits {
	return Limits{
		Foreach: 100_000, LiveTokens: 200_000, Tokens: 1_000_000, Loop: 1_000_000,
		CELCost: 1_000_000, PayloadBytes: 1 << 20, JSONDepth: 128,
		SubworkflowDepth: 16, Descendants: 10_000, Snoozes: 10_000,
		RunBytes: 4 << 30, SignalBytes: 64 << 20,
	}
}

// Bounds that a definition cannot change.
const (
	MaxRunID           = 255     // bytes
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
)

// LimitSchemaCost names, in a [LimitError], the cost of a check against a JSON Schema. It has no field in Limits: a
// definition cannot change it.
const LimitSchemaCost = "schemaCost"

// LimitSignalBytes names, in a [LimitError], the bytes of the signals that a run keeps.
const LimitSignalBytes = "signalBytes"

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

// withDefaults returns l with d's values where l has none. A graph has the result, so that a planner finds every
// limit in one place.
func (l Limits) withDefaults(d Limits) Limits {
	return Limits{
		Foreach: cmp.Or(l.Foreach, d.Foreach), LiveTokens: cmp.Or(l.LiveTokens, d.LiveTokens),
		Tokens: cmp.Or(l.Tokens, d.Tokens), Loop: cmp.Or(l.Loop, d.Loop),
		CELCost: cmp.Or(l.CELCost, d.CELCost), PayloadBytes: cmp.Or(l.PayloadBytes, d.PayloadBytes),
		JSONDepth: cmp.Or(l.JSONDepth, d.JSONDepth), SubworkflowDepth: cmp.Or(l.SubworkflowDepth, d.SubworkflowDepth),
		Descendants: cmp.Or(l.Descendants, d.Descendants), Snoozes: cmp.Or(l.Snoozes, d.Snoozes),
		RunBytes: cmp.Or(l.RunBytes, d.RunBytes), SignalBytes: cmp.Or(l.SignalBytes, d.SignalBytes),
	}
}
