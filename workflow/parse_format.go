package workflow

import (
	"time"

	"github.com/pawl-run/pawl/internal/document"
	"github.com/pawl-run/pawl/merge"
	"github.com/pawl-run/pawl/timeout"
)

// The values of enumerated fields.
var (
	modes            = []Mode{ModeGraph, ModeDAG}
	outcomes         = []On{OnSuccess, OnError, OnAlways}
	remainings       = []Remaining{RemainingCancel, RemainingIgnore, RemainingBlock}
	joinTimeouts     = []JoinTimeout{TimeoutFail, TimeoutProceed}
	shortfalls       = []Shortfall{ShortfallFail, ShortfallProceed}
	approvalTimeouts = []ApprovalTimeout{ApprovalFail, ApprovalApprove, ApprovalReject}
	exhaustedValues  = []Exhausted{ExhaustedFail, ExhaustedPark}
	unmatchedValues  = []Unmatched{UnmatchedEnd, UnmatchedFail}
	mergeStrategies  = []string{
		string(merge.Append), string(merge.Collect), string(merge.Object), string(merge.Keyed), string(merge.Last),
	}
)

// The functions of this file are the format of definitions in JSON and YAML: the
// fields of each struct, in the order of its Go fields.

func definitionFormat(d *Definition) []field {
	return []field{
		{"name", name(&d.Name)},
		{"version", positive(&d.Version, 1)},
		{"mode", oneOf(&d.Mode, ModeGraph, modes)},
		{"failFast", failFast(&d.FailFast)},
		{"start", name(&d.Start)},
		{"input", part(&d.Input, inputFormat)},
		{"state", part(&d.State, stateFormat)},
		{"output", part(&d.Output, outputFormat)},
		{"timeout", duration(&d.Timeout, 0)},
		{"limits", part(&d.Limits, limitsFormat)},
		{"nodes", nodes(d)},
		{"transitions", transitions(d)},
	}
}

// failFast is a bool whose default is true.
func failFast(to **bool) form {
	c := optional(to, flag)
	write := c.write
	c.write = func() any { return unless(any(true), write()) }
	return c
}

func inputFormat(s *InputSpec) []field {
	return []field{{"schema", schema(&s.Schema)}}
}

func stateFormat(s *StateSpec) []field {
	return []field{{"schema", schema(&s.Schema)}, {"initial", object(&s.Initial)}}
}

func outputFormat(s *OutputSpec) []field {
	return []field{{"schema", schema(&s.Schema)}, {"mapping", expressions(&s.Mapping, true)}}
}

func limitsFormat(l *Limits) []field {
	return []field{
		{"foreach", positive(&l.Foreach, 0)},
		{"liveTokens", positive(&l.LiveTokens, 0)},
		{"tokens", positive(&l.Tokens, 0)},
		{"loop", positive(&l.Loop, 0)},
		{"celCost", positive(&l.CELCost, 0)},
		{"payloadBytes", positive(&l.PayloadBytes, 0)},
		{"jsonDepth", positive(&l.JSONDepth, 0)},
		{"subworkflowDepth", positive(&l.SubworkflowDepth, 0)},
		{"descendants", positive(&l.Descendants, 0)},
	}
}

func nodeFormat(n *Node) []field {
	return []field{
		{"id", name(&n.ID)},
		{"task", name(&n.Task)},
		{"subworkflow", section(&n.Subworkflow, subworkflowFormat)},
		{"approval", section(&n.Approval, approvalFormat)},
		{"wait", section(&n.Wait, waitFormat)},
		{"end", end(&n.End)},
		{"input", expressions(&n.Input, false)},
		{"output", expressions(&n.Output, false)},
		{"outputSchema", schema(&n.OutputSchema)},
		{"retry", section(&n.Retry, retryFormat)},
		{"timeout", duration(&n.Timeout, 0)},
		{"heartbeat", duration(&n.Heartbeat, 0)},
		{"priority", integer(&n.Priority)},
		{"lock", name(&n.Lock)},
		{"join", join(&n.Join)},
		{"cancels", names(&n.Cancels)},
		{"unmatched", oneOf(&n.Unmatched, UnmatchedEnd, unmatchedValues)},
		{"needs", names(&n.Needs)},
	}
}

func subworkflowFormat(s *SubworkflowSpec) []field {
	return []field{{"name", name(&s.Name)}, {"version", positive(&s.Version, 0)}}
}

func approvalFormat(s *ApprovalSpec) []field {
	return []field{
		{"message", prose(&s.Message)},
		{"quorum", positive(&s.Quorum, 1)},
		{"rejectQuorum", positive(&s.RejectQuorum, 1)},
		{"onTimeout", oneOf(&s.OnTimeout, ApprovalFail, approvalTimeouts)},
	}
}

func waitFormat(s *WaitSpec) []field {
	return append(eventFormat(s), field{"any", list(&s.Any, eventFormat)})
}

// eventFormat is one of the things that any waits for.
func eventFormat(s *WaitSpec) []field {
	return []field{
		{"for", delay(&s.For)},
		{"until", expression(&s.Until)},
		{"event", name(&s.Event)},
		{"match", expression(&s.Match)},
	}
}

// delay is a duration above 0.
func delay(to *time.Duration) form {
	c := duration(to, 0)
	c.read = func(p *parser, e *document.Element) { *to = p.duration(e, false) }
	return c
}

func retryFormat(s *RetrySpec) []field {
	return []field{
		{"maxAttempts", positive(&s.MaxAttempts, 1)},
		{"initialInterval", duration(&s.InitialInterval, timeout.DefaultInitialInterval)},
		{"backoffCoefficient", number(&s.BackoffCoefficient, timeout.DefaultBackoffCoefficient)},
		{"maxInterval", duration(&s.MaxInterval, 0)},
		{"jitter", number(&s.Jitter, 0)},
		{"nonRetryable", names(&s.NonRetryable)},
		{"exhausted", oneOf(&s.Exhausted, ExhaustedFail, exhaustedValues)},
	}
}

func transitionFormat(t *Transition) []field {
	return []field{
		{"id", name(&t.ID)},
		{"from", name(&t.From)},
		{"to", name(&t.To)},
		{"priority", integer(&t.Priority)},
		{"condition", expression(&t.Condition)},
		{"outcome", oneOf(&t.Outcome, OnSuccess, outcomes)},
		{"errors", names(&t.Errors)},
		{"spawnCount", positive(&t.SpawnCount, 0)},
		{"foreach", section(&t.Foreach, foreachFormat)},
		{"siblingGroup", name(&t.SiblingGroup)},
		{"maxConcurrency", positive(&t.MaxConcurrency, 0)},
		{"open", flag(&t.Open)},
		{"loop", section(&t.Loop, loopFormat)},
		{"synchronization", section(&t.Synchronization, synchronizationFormat)},
	}
}

func foreachFormat(f *Foreach) []field {
	return []field{{"collection", expression(&f.Collection)}, {"as", name(&f.As)}}
}

func loopFormat(l *Loop) []field {
	return []field{{"maxIterations", positive(&l.MaxIterations, 0)}}
}

func synchronizationFormat(s *Synchronization) []field {
	return []field{
		{"siblingGroup", name(&s.SiblingGroup)},
		{"strategy", strategy(&s.Strategy)},
		{"remaining", oneOf(&s.Remaining, RemainingCancel, remainings)},
		{"tolerate", section(&s.Tolerate, tolerateFormat)},
		{"timeout", duration(&s.Timeout, 0)},
		{"onTimeout", oneOf(&s.OnTimeout, TimeoutFail, joinTimeouts)},
		{"onShortfall", oneOf(&s.OnShortfall, ShortfallFail, shortfalls)},
		{"merge", section(&s.Merge, mergeFormat)},
		{"errors", name(&s.Errors)},
	}
}

func tolerateFormat(t *Tolerate) []field {
	return []field{
		{"failures", optional(&t.Failures, integer)},
		{"failureRatio", optional(&t.FailureRatio, func(to *float64) form { return number(to, 0) })},
	}
}

func mergeFormat(m *Merge) []field {
	return []field{
		{"source", expression(&m.Source)},
		{"target", name(&m.Target)},
		{"strategy", oneOf(&m.Strategy, "", mergeStrategies)},
	}
}
