package workflow

import (
	"github.com/pawl-run/pawl/internal/document"
	"github.com/pawl-run/pawl/internal/problem"
	"github.com/pawl-run/pawl/timeout"
)

// The functions of this file are the format of definitions in JSON and YAML: the
// fields of each struct, in the order of its Go fields.

// definitionFormat is the format of the whole.
func definitionFormat(d *Definition) []field {
	return []field{
		{"name", nameForm(&d.Name)},
		{"version", positiveForm(&d.Version, 1)},
		{"mode", oneOfForm(&d.Mode, ModeGraph, modes)},
		{"failFast", failFastForm(&d.FailFast)},
		{"start", nameForm(&d.Start)},
		{"input", partForm(&d.Input, inputFormat)},
		{"state", partForm(&d.State, stateFormat)},
		{"output", partForm(&d.Output, outputFormat)},
		{"timeout", durationForm(&d.Timeout, 0)},
		{"limits", partForm(&d.Limits, limitsFormat)},
		{"signals", namesForm(&d.Signals)},
		{"groups", groupsForm(&d.Groups)},
		{"nodes", nodesForm(d)},
		{"transitions", transitionsForm(d)},
	}
}

// failFastForm is the form of a bool whose default is true. false and true are both written in texts, and only false
// is kept when it is written again.
func failFastForm(to **bool) form {
	c := optionalForm(to, flagForm)
	write := c.write
	c.write = func() any { return omitDefault(any(true), write()) }
	return c
}

// inputFormat is the format of input. Without a schema any object is an input.
func inputFormat(s *InputSpec) []field {
	return []field{{"schema", schemaForm(&s.Schema)}}
}

// stateFormat is the format of state. An empty first value counts as absent: state is an object from the beginning.
// Later writes to it are checked against the schema by its properties.
func stateFormat(s *StateSpec) []field {
	return []field{{"schema", schemaForm(&s.Schema)}, {"initial", objectForm(&s.Initial)}}
}

// outputFormat is the format of output. Its mapping may be empty, which is another thing than none: the run then
// returns an empty object and not the output section.
func outputFormat(s *OutputSpec) []field {
	return []field{{"schema", schemaForm(&s.Schema)}, {"mapping", expressionsForm(&s.Mapping, true)}}
}

// limitsFormat is the format of limits, whose zero is the engine's default: no number stands for it in a text.
// checkBounds goes through the same fields.
func limitsFormat(l *Limits) []field {
	return []field{
		{"foreach", positiveForm(&l.Foreach, 0)},
		{"liveTokens", positiveForm(&l.LiveTokens, 0)},
		{"tokens", positiveForm(&l.Tokens, 0)},
		{"loop", positiveForm(&l.Loop, 0)},
		{"celCost", positiveForm(&l.CELCost, 0)},
		{"payloadBytes", positiveForm(&l.PayloadBytes, 0)},
		{"jsonDepth", positiveForm(&l.JSONDepth, 0)},
		{"subworkflowDepth", positiveForm(&l.SubworkflowDepth, 0)},
		{"descendants", positiveForm(&l.Descendants, 0)},
		{"snoozes", positiveForm(&l.Snoozes, 0)},
		{"runBytes", positiveForm(&l.RunBytes, 0)},
		{"signalBytes", positiveForm(&l.SignalBytes, 0)},
		{"meta", numbersForm(&l.Meta)},
	}
}

// nodeFormat is the format of a node. From task to end stand the kinds: checkKinds counts on it.
func nodeFormat(n *Node) []field {
	return []field{
		{"id", nameForm(&n.ID)},
		{"task", nameForm(&n.Task)},
		{"taskExpr", expressionForm(&n.TaskExpr)},
		{"subworkflow", sectionForm(&n.Subworkflow, subworkflowFormat)},
		{"approval", sectionForm(&n.Approval, approvalFormat)},
		{"wait", sectionForm(&n.Wait, waitFormat)},
		{"end", endForm(&n.End)},
		{"tasks", namesForm(&n.Tasks)},
		{"input", expressionsForm(&n.Input, false)},
		{"output", expressionsForm(&n.Output, false)},
		{"outputSchema", schemaForm(&n.OutputSchema)},
		{"retry", sectionForm(&n.Retry, retryFormat)},
		{"timeout", durationForm(&n.Timeout, 0)},
		{"heartbeat", durationForm(&n.Heartbeat, 0)},
		{"priority", integerForm(&n.Priority)},
		{"lock", nameForm(&n.Lock)},
		{"join", joinForm(&n.Join)},
		{"cancels", namesForm(&n.Cancels)},
		{"unmatched", oneOfForm(&n.Unmatched, "", unmatchedValues)},
		{"needs", namesForm(&n.Needs)},
		{"budget", numbersForm(&n.Budget)},
	}
}

// subworkflowFormat is the format of a subworkflow. A version cannot be written as 0: to leave it out is to take the
// latest.
func subworkflowFormat(s *SubworkflowSpec) []field {
	return []field{
		{"name", nameForm(&s.Name)},
		{"nameExpr", expressionForm(&s.NameExpr)},
		{"names", namesForm(&s.Names)},
		{"version", positiveForm(&s.Version, 0)},
	}
}

// approvalFormat is the format of an approval. Quorums of 1 and the timeout that fails are left out when it is
// written. message and messageExpr exclude each other, which the checker says.
func approvalFormat(s *ApprovalSpec) []field {
	return []field{
		{"message", textForm(&s.Message)},
		{"messageExpr", expressionForm(&s.MessageExpr)},
		{"quorum", positiveForm(&s.Quorum, 1)},
		{"rejectQuorum", positiveForm(&s.RejectQuorum, 1)},
		{"onTimeout", oneOfForm(&s.OnTimeout, ApprovalFail, approvalTimeouts)},
	}
}

// waitFormat is the format of wait: one thing, or a list of such things under any.
func waitFormat(s *WaitSpec) []field {
	return append(eventFormat(s), field{"any", listForm(&s.Any, eventFormat)})
}

// eventFormat is one of the things that any waits for. Any of them is a WaitSpec, which may not have a list again.
func eventFormat(s *WaitSpec) []field {
	return []field{
		{"for", delayForm(s)},
		{"until", untilForm(s)},
		{"event", nameForm(&s.Event)},
		{"match", expressionForm(&s.Match)},
	}
}

// atOnce is the instant for which for: 0s is short. The variable now is the instant of the message, so that the timer
// is due in the very plan that begins it.
const atOnce = "now"

// delayForm is the form of the duration of a timer. A timer of 0 cannot be told from none in a Go value, so it
// becomes one until now, which is over at once.
func delayForm(s *WaitSpec) form {
	c := durationForm(&s.For, 0)
	c.read = func(p *parser, e *document.Element) {
		// A duration that could not be read is 0 too, and must not become a timer.
		n := len(p.problems)
		if s.For = p.ReadDuration(e, true); s.For > 0 || len(p.problems) > n {
			return
		}
		// The other field was read before this one.
		if s.Until != "" {
			p.ReportProblem(problem.Conflict, "only one of for and until")
		}
		s.Until = atOnce
	}
	return c
}

// untilForm is the form of the instant of a timer. Whichever of for and until comes second in the text finds the
// first.
func untilForm(s *WaitSpec) form {
	c := expressionForm(&s.Until)
	read := c.read
	c.read = func(p *parser, e *document.Element) {
		if s.Until != "" {
			p.ReportProblem(problem.Conflict, "only one of for and until")
		}
		read(p, e)
	}
	return c
}

// retryFormat is the format of a retry policy, whose defaults are those of package timeout. To write a default out
// changes no hash.
func retryFormat(s *RetrySpec) []field {
	return []field{
		{"maxAttempts", positiveForm(&s.MaxAttempts, 1)},
		{"initialInterval", durationForm(&s.InitialInterval, timeout.DefaultInitialInterval)},
		{"backoffCoefficient", numberForm(&s.BackoffCoefficient, timeout.DefaultBackoffCoefficient)},
		{"maxInterval", durationForm(&s.MaxInterval, 0)},
		{"jitter", numberForm(&s.Jitter, 0)},
		{"nonRetryable", namesForm(&s.NonRetryable)},
		{"exhausted", oneOfForm(&s.Exhausted, ExhaustedFail, exhaustedValues)},
	}
}

// transitionFormat is the format of a transition. Joins of one group are compared by it.
func transitionFormat(t *Transition) []field {
	return []field{
		{"id", nameForm(&t.ID)},
		{"from", nameForm(&t.From)},
		{"to", nameForm(&t.To)},
		{"priority", integerForm(&t.Priority)},
		{"condition", expressionForm(&t.Condition)},
		{"outcome", oneOfForm(&t.Outcome, OnSuccess, outcomes)},
		{"errors", namesForm(&t.Errors)},
		{"spawnCount", positiveForm(&t.SpawnCount, 0)},
		{"foreach", sectionForm(&t.Foreach, foreachFormat)},
		{"siblingGroup", nameForm(&t.SiblingGroup)},
		{"maxConcurrency", positiveForm(&t.MaxConcurrency, 0)},
		{"open", flagForm(&t.Open)},
		{"loop", sectionForm(&t.Loop, loopFormat)},
		{"synchronization", sectionForm(&t.Synchronization, synchronizationFormat)},
	}
}

// foreachFormat is the format of foreach. The element is item in any case, and as gives it a further name.
func foreachFormat(f *Foreach) []field {
	return []field{{"collection", expressionForm(&f.Collection)}, {"as", nameForm(&f.As)}}
}

// loopFormat is the format of loop, which has no default: a loop without a bound is written by leaving loop out.
func loopFormat(l *Loop) []field {
	return []field{{"maxIterations", positiveForm(&l.MaxIterations, 0)}}
}

// synchronizationFormat is the format of a join. The settings of a group have it too, but for siblingGroup, which is
// their key.
func synchronizationFormat(s *Synchronization) []field {
	return []field{
		{"siblingGroup", nameForm(&s.SiblingGroup)},
		{"strategy", strategyForm(&s.Strategy)},
		{"remaining", oneOfForm(&s.Remaining, RemainingCancel, remainings)},
		{"tolerate", toleranceForm(&s.Tolerate)},
		{"timeout", durationForm(&s.Timeout, 0)},
		{"onTimeout", oneOfForm(&s.OnTimeout, TimeoutFail, joinTimeouts)},
		{"onShortfall", oneOfForm(&s.OnShortfall, ShortfallFail, shortfalls)},
		{"merge", sectionForm(&s.Merge, mergeFormat)},
		{"errors", nameForm(&s.Errors)},
	}
}

// mergeFormat is the format of merge. The strategy has no default, since none of them would be expected by everybody.
func mergeFormat(m *Merge) []field {
	return []field{
		{"source", expressionForm(&m.Source)},
		{"target", nameForm(&m.Target)},
		{"strategy", oneOfForm(&m.Strategy, "", mergeStrategies)},
		{"as", oneOfForm(&m.As, MergeAsValue, mergeForms)},
	}
}
