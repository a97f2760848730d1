package inspector

import (
	"fmt"
	"maps"
	"strings"

	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/history"
	"github.com/pawl-run/pawl/internal/hiding"
	"github.com/pawl-run/pawl/workflow"
)

// seesTexts reports whether texts are shown in which values may stand: messages of errors,
// decisions, readings of conditions.
//
// Redact knows values by their paths, and cannot know which of them stands in a sentence: so none is shown then.
func (p *page) seesTexts() bool { return p.rights&api.Values != 0 && p.s.options.Redact == nil }

// redactValue returns a value of a run at a path as this reader may see it.
//
// Redact is asked from the outside in: it is not asked about the parts of a value that it replaces as a whole, but about those of its
// answer. The value of the engine is never changed, as maps and lists are made anew.
func (p *page) redactValue(run workflow.RunID, path string, v any) any {
	redact := p.s.options.Redact
	if redact == nil || v == nil {
		return v
	}
	switch v := redact(run, path, v).(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, member := range v {
			out[key] = p.redactValue(run, path+"."+key, member)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, element := range v {
			out[i] = p.redactValue(run, fmt.Sprintf("%s[%d]", path, i), element)
		}
		return out
	default:
		return v
	}
}

// valueAt shows a value of a run at a path, or that it is not shown.
//
// All values of runs come to pages through here or eventData: a page that shows one in another way shows it to readers without the right
// Values.
func (p *page) valueAt(run workflow.RunID, path string, v any, b budget) *shownValue {
	if p.rights&api.Values == 0 {
		return &shownValue{Kind: "more", Text: "not shown to you"}
	}
	return valueOf("", p.redactValue(run, path, v), b)
}

// textAt returns a text in which values may stand, in short; else nothing.
//
// most is in characters.
func (p *page) textAt(text string, most int) string {
	if !p.seesTexts() {
		return ""
	}
	return shortText(text, most)
}

// failureAt returns a failure in a line: its code alone, and that of its cause, for those who do not see texts.
//
// It is "" without a failure. Codes are written by the authors of definitions and handlers to tell failures apart, and count as no values.
func (p *page) failureAt(f *workflow.Failure) string {
	if f == nil {
		return ""
	}
	if !p.seesTexts() {
		return f.Short()
	}
	return shortText(f.Error(), 400)
}

// errorAt returns what an error says. All but those of conditions on runs come to pages through here, as they may quote values of a run.
func (p *page) errorAt(err error) string {
	if p.seesTexts() {
		return err.Error()
	}
	return hiding.HideValues(err.Error(), err)
}

// decisionAt returns a decision in a line: its name alone for those who do not see texts.
//
// The name is what stands before the first space, as in CreateToken.
func (p *page) decisionAt(text string) string {
	if !p.seesTexts() {
		text, _, _ = strings.Cut(text, " ")
	}
	return shortText(text, 600)
}

// eventData returns the particulars of an event in a line.
//
// They are values at the path data. The event itself is not changed.
func (p *page) eventData(run workflow.RunID, e *history.Event) string {
	if len(e.Data) == 0 || p.rights&api.Values == 0 {
		return ""
	}
	data, _ := p.redactValue(run, "data", map[string]any(e.Data)).(map[string]any)
	// A copy, as without Redact the map is that of the event.
	if p.rights&api.Act == 0 {
		data = maps.Clone(data)
		delete(data, "key") // who has that of a task can complete it
	}
	if p.s.options.Redact != nil { // what is left may quote values
		for _, key := range []string{"failure", "error", "message"} {
			delete(data, key)
		}
		if _, ofFailure := data["cause"].(map[string]any); ofFailure { // and not the word for why a wait is over
			delete(data, "cause")
		}
	}
	if len(data) == 0 {
		return ""
	}
	return valueOf("", data, budget{1, 300, 300}).Text
}
