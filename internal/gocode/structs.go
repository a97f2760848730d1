package gocode

import (
	"fmt"
	"strings"

	"github.com/pawl-run/pawl/workflow"
)

// A member is a field of a struct of package workflow.
type member struct {
	key  string // in the format
	name string // in Go
	text func(v any) string
}

// membersOf returns the fields of structs that calls take as they are, in their order.
func membersOf(structure string) []member {
	switch structure {
	case "workflow.Limits":
		return []member{
			{"foreach", "Foreach", literal}, {"liveTokens", "LiveTokens", literal}, {"tokens", "Tokens", literal}, {"loop", "Loop", literal},
			{"celCost", "CELCost", literal}, {"payloadBytes", "PayloadBytes", literal}, {"jsonDepth", "JSONDepth", literal},
			{"subworkflowDepth", "SubworkflowDepth", literal}, {"descendants", "Descendants", literal}, {"snoozes", "Snoozes", literal},
			{"runBytes", "RunBytes", literal}, {"signalBytes", "SignalBytes", literal},
			{"meta", "Meta", func(v any) string { return strings.Replace(literal(v), "map[string]any", "map[string]float64", 1) }},
		}
	case "workflow.Synchronization":
		return []member{
			{"strategy", "Strategy", func(v any) string { return choiceText("workflow.", v) }},
			{"remaining", "Remaining", func(v any) string { return enumText("workflow.Remaining", v) }},
			{"tolerate", "Tolerate", toleranceText},
			{"timeout", "Timeout", durationText},
			{"onTimeout", "OnTimeout", func(v any) string { return namedText(v, "workflow.TimeoutProceed", workflow.TimeoutProceed) }},
			{"onShortfall", "OnShortfall", func(v any) string { return enumText("workflow.Shortfall", v) }},
			{"merge", "Merge", func(v any) string { return "&" + structText("workflow.Merge", v.(map[string]any)) }},
			{"errors", "Errors", literal},
		}
	case "workflow.Merge":
		return []member{
			{"source", "Source", literal}, {"target", "Target", literal}, {"strategy", "Strategy", literal},
			{"as", "As", func(v any) string { return enumText("workflow.MergeAs", v) }},
		}
	case "workflow.RetrySpec":
		return []member{
			{"maxAttempts", "MaxAttempts", literal}, {"initialInterval", "InitialInterval", durationText},
			{"backoffCoefficient", "BackoffCoefficient", literal}, {"maxInterval", "MaxInterval", durationText}, {"jitter", "Jitter", literal},
			{"nonRetryable", "NonRetryable", sliceText}, {"exhausted", "Exhausted", func(v any) string { return enumText("workflow.Exhausted", v) }},
		}
	case "workflow.ApprovalSpec":
		return []member{
			{"message", "Message", literal}, {"messageExpr", "MessageExpr", literal}, {"quorum", "Quorum", literal},
			{"rejectQuorum", "RejectQuorum", literal}, {"onTimeout", "OnTimeout", func(v any) string { return enumText("workflow.Approval", v) }},
		}
	case "workflow.WaitSpec":
		return []member{{"for", "For", durationText}, {"until", "Until", literal}, {"event", "Event", literal}, {"match", "Match", literal}, {"any", "Any", waitsText}}
	case "workflow.SubworkflowSpec":
		return []member{{"name", "Name", literal}, {"nameExpr", "NameExpr", literal}, {"names", "Names", sliceText}, {"version", "Version", literal}}
	case "workflow.EndSpec":
		return []member{{"fail", "Fail", literal}, {"codeExpr", "CodeExpr", literal}, {"message", "Message", literal}, {"messageExpr", "MessageExpr", literal}}
	case "workflow.Node":
		return []member{
			{"id", "ID", literal}, {"taskExpr", "TaskExpr", literal},
			{"subworkflow", "Subworkflow", func(v any) string { return "&" + structText("workflow.SubworkflowSpec", v.(map[string]any)) }},
			{"end", "End", func(v any) string { return "&" + structText("workflow.EndSpec", v.(map[string]any)) }},
			{"tasks", "Tasks", sliceText},
		}
	}
	panic("gocode: unknown struct " + structure)
}

// structText returns a struct literal with the fields that are there.
func structText(structure string, m map[string]any) string {
	var parts []string
	for _, f := range membersOf(structure) {
		if v, ok := m[f.key]; ok {
			parts = append(parts, f.name+": "+f.text(v))
		}
	}
	return structure + "{" + strings.Join(parts, ", ") + "}"
}

func sliceText(v any) string { return "[]string{" + textList(v) + "}" }

func waitsText(v any) string {
	var parts []string
	for _, w := range objectsOf(v) {
		parts = append(parts, strings.TrimPrefix(structText("workflow.WaitSpec", w), "workflow.WaitSpec"))
	}
	return "[]workflow.WaitSpec{" + strings.Join(parts, ", ") + "}"
}

// enumText returns the constant of a value: its name is that of the type with the value.
func enumText(prefix string, v any) string {
	text := v.(string)
	return prefix + strings.ToUpper(text[:1]) + text[1:]
}

// namedText returns the name of the one value that is no default.
func namedText[T ~string](v any, name string, value T) string {
	if v == string(value) {
		return name
	}
	panic(fmt.Sprintf("gocode: unknown value %v", v))
}

// choiceText returns a strategy or a join.
func choiceText(prefix string, v any) string {
	if m, ok := v.(map[string]any); ok {
		return fmt.Sprintf("%sMOfN(%s)", prefix, literal(m["mOfN"]))
	}
	return enumText(prefix, v)
}

func toleranceText(v any) string {
	m := v.(map[string]any)
	if n, ok := m["failures"]; ok {
		return fmt.Sprintf("workflow.TolerateFailures(%s)", literal(n))
	}
	return fmt.Sprintf("workflow.TolerateRatio(%s)", literal(m["failureRatio"]))
}
