package workflow

import "cmp"

// DefaultLimits returns the limits that apply where a definition sets none. They are the engine's own: a definition
// can only lower them.
func DefaultLimits() Limits {
	return Limits{
		Foreach: 100_000, LiveTokens: 200_000, Tokens: 1_000_000, Loop: 1_000_000,
		CELCost: 1_000_000, PayloadBytes: 1 << 20, JSONDepth: 128,
		SubworkflowDepth: 16, Descendants: 10_000, Snoozes: 10_000,
		RunBytes: 4 << 30, SignalBytes: 64 << 20,
	}
}

// withDefaults returns l with d's values where l has none. A graph has the result, so that a planner finds every
// limit in one place.
func (l Limits) withDefaults(d Limits) Limits {
	return Limits{
		Foreach: cmp.Or(l.Foreach, d.Foreach), LiveTokens: cmp.Or(l.LiveTokens, d.LiveTokens),
		Tokens: cmp.Or(l.Tokens, d.Tokens), Loop: cmp.Or(l.Loop, d.Loop),
		CELCost: cmp.Or(l.CELCost, d.CELCost), PayloadBytes: cmp.Or(l.PayloadBytes, d.PayloadBytes),
		JSONDepth: cmp.Or(l.JSONDepth, d.JSONDepth), SubworkflowDepth: cmp.Or(l.SubworkflowDepth, d.SubworkflowDepth),
		Descendants: cmp.Or(l.Descendants, d.Descendants), Snoozes: cmp.Or(l.Snoozes, d.Snoozes),
		RunBytes: cmp.Or(l.RunBytes, d.RunBytes), SignalBytes: cmp.Or(l.SignalBytes, d.SignalBytes), Meta: l.Meta,
	}
}
