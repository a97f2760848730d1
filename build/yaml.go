package build

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/pawl-run/pawl/internal/problem"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/workflow"
)

// YAML returns a definition as a text that workflow.Parse reads, with the same hash: a line for each node and transition, if they are
// short enough. It fails if d is nil, or holds a value that JSON cannot represent; it does not check d.
func YAML(d *workflow.Definition) ([]byte, error) {
	if d == nil {
		return nil, &workflow.DefinitionError{Problems: []workflow.Problem{{Code: problem.Missing, Message: "there is no definition"}}}
	}
	text, err := d.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("write a definition as YAML: %w", err)
	}
	v, err := value.Decode(text, value.Limits{})
	if err != nil {
		return nil, fmt.Errorf("write a definition as YAML: %w", err)
	}
	var w yamlWriter
	w.writeBlock(v, 0)
	return []byte(w.String()), nil
}

// maxLine is how wide a line may become before a value is spread over several.
const maxLine = 110

// A yamlWriter writes values of the JSON model.
type yamlWriter struct{ strings.Builder }

// writeBlock writes an object or a list over several lines, at an indent.
func (w *yamlWriter) writeBlock(v any, indent int) {
	margin := strings.Repeat(" ", indent)
	switch v := v.(type) {
	case map[string]any:
		for i, key := range sortKeys(v) {
			if i > 0 {
				w.WriteString(margin)
			}
			w.writeKey(scalarText(key), margin)
			w.writeValue(v[key], indent+2, len(margin)+len(key)+2)
		}
	case []any:
		for i, item := range v {
			if i > 0 {
				w.WriteString(margin)
			}
			w.WriteString("-")
			w.writeItem(item, indent+2)
		}
	}
}

// maxKey is how many characters YAML allows before the colon of a key that stands on one line with it.
const maxKey = 1024

// writeKey writes a key with its colon, and marks one that is too long to be known by the colon.
func (w *yamlWriter) writeKey(key, margin string) {
	if utf8.RuneCountInString(key) > maxKey { // writeValue never has it in a flow
		key = "? " + key + "\n" + margin
	}
	w.WriteString(key + ":")
}

// writeValue writes what stands behind a key: on its line, if there is room.
func (w *yamlWriter) writeValue(v any, indent, used int) {
	if flow := flowText(v); isShort(flow, used) || !hasParts(v) {
		w.WriteString(" " + flow + "\n")
		return
	}
	w.WriteString("\n" + strings.Repeat(" ", indent))
	w.writeBlock(v, indent)
}

// writeItem writes what stands behind a dash.
func (w *yamlWriter) writeItem(v any, indent int) {
	w.WriteString(" ")
	if flow := flowText(v); isShort(flow, indent) || !hasParts(v) {
		w.WriteString(flow + "\n")
		return
	}
	w.writeBlock(v, indent)
}

func isShort(text string, used int) bool { return used+len(text) <= maxLine }

// hasParts says whether a value can be spread over lines.
func hasParts(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		return len(v) > 0
	case []any:
		return len(v) > 0
	default:
		return false
	}
}

// flowText returns a value on one line.
func flowText(v any) string {
	var parts []string
	switch v := v.(type) {
	case map[string]any:
		for _, key := range sortKeys(v) {
			parts = append(parts, scalarText(key)+": "+flowText(v[key]))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case []any:
		for _, item := range v {
			parts = append(parts, flowText(item))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case string:
		return scalarText(v)
	default:
		return string(value.Encode(v))
	}
}

// plain is a text that needs no quotes anywhere, unless it is a word that some reader of YAML takes for something else.
var plain = regexp.MustCompile(`^[A-Za-z_](?:[A-Za-z0-9_ .()'<>=!&|+*/%$@^-]*[A-Za-z0-9_.()'<>=!&|+*/%$@^-])?$`)

var words = []string{"true", "false", "null", "yes", "no", "on", "off", "y", "n"}

func scalarText(s string) string {
	if plain.MatchString(s) && !slices.Contains(words, strings.ToLower(s)) {
		return s
	}
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteString(`\` + string(r))
		case r == '\n':
			b.WriteString(`\n`)
		case r > 0xffff && !unicode.IsPrint(r):
			fmt.Fprintf(&b, `\U%08X`, r)
		case r != ' ' && !unicode.IsPrint(r), r == 0xfeff:
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// order is how people write the fields of a definition; others stand behind them.
var order = []string{
	"name", "id", "version", "mode", "failFast", "start", "from", "to", "signals", "limits", "schema", "initial", "mapping",
	"type", "properties", "required", "task", "taskExpr", "tasks", "subworkflow", "approval", "wait", "end",
	"priority", "condition", "outcome", "errors", "spawnCount", "foreach", "siblingGroup", "maxConcurrency", "open", "loop", "synchronization",
	"collection", "as", "strategy", "remaining", "tolerate", "timeout", "onTimeout", "merge", "source", "target",
	"input", "state", "output", "groups", "nodes", "transitions",
}

func sortKeys(m map[string]any) []string {
	rank := func(key string) int {
		if i := slices.Index(order, key); i >= 0 {
			return i
		}
		return len(order)
	}
	return slices.SortedFunc(maps.Keys(m), func(a, b string) int { return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b)) })
}
