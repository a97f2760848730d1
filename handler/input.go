package handler

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-run/pawl/internal/value"
)

// An input reads the fields of a task's input and collects all that is wrong
// with them. A field that is null counts as absent.
type input struct {
	fields   map[string]any
	problems []string
}

// inputLimits bound an input. The engine bounds it as well, at 1 MiB by default.
var inputLimits = value.Limits{Bytes: 16 << 20}

// maxQuoted bounds, in bytes, what a message quotes of a field.
const maxQuoted = 64

// readInput returns the fields of an input, which may have the known ones only.
func readInput(v any, known ...string) *input {
	in := &input{}
	model, err := value.Normalize(v, inputLimits)
	if err != nil {
		in.addProblemf("%v", err)
		return in
	}
	fields, ok := model.(map[string]any)
	if !ok && model != nil {
		in.addProblemf("it is %s, not an object", kindOf(model))
	}
	in.fields = fields
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if !slices.Contains(known, name) {
			in.addProblemf("%s: unknown field; there are %s", quoteText(name), strings.Join(known, ", "))
		}
	}
	return in
}

func (in *input) addProblemf(format string, args ...any) {
	in.problems = append(in.problems, fmt.Sprintf(format, args...))
}

// maxProblems bounds the problems that an error lists.
const maxProblems = 20

// allProblems returns all problems as one error, nil if there are none.
func (in *input) allProblems() error {
	switch n := len(in.problems); {
	case n == 0:
		return nil
	case n > maxProblems:
		in.problems = append(in.problems[:maxProblems], fmt.Sprintf("and %d more", n-maxProblems))
	}
	return permanentError(CodeInvalidInput, "input: %s", strings.Join(in.problems, "; "))
}

// requireField reports whether the field is there, and adds a problem if not.
func (in *input) requireField(name string) bool {
	if in.fields[name] == nil {
		in.addProblemf("%s is missing", name)
		return false
	}
	return true
}

// textField returns a string, "" if it is absent.
func (in *input) textField(name string) string {
	s, ok := in.fields[name].(string)
	if v := in.fields[name]; !ok && v != nil {
		in.addProblemf("%s is %s, not a string", name, kindOf(v))
	}
	return s
}

// boolField returns a bool, false if it is absent.
func (in *input) boolField(name string) bool {
	b, ok := in.fields[name].(bool)
	if v := in.fields[name]; !ok && v != nil {
		in.addProblemf("%s is %s, not a bool", name, kindOf(v))
	}
	return b
}

// listField returns a list, nil if it is absent.
func (in *input) listField(name string) []any {
	l, ok := in.fields[name].([]any)
	if v := in.fields[name]; !ok && v != nil {
		in.addProblemf("%s is %s, not a list", name, kindOf(v))
	}
	return l
}

// textListField returns a list of strings.
func (in *input) textListField(name string) []string {
	var out []string
	for i, v := range in.listField(name) {
		s, ok := v.(string)
		if !ok {
			in.addProblemf("%s[%d] is %s, not a string", name, i, kindOf(v))
		}
		out = append(out, s)
	}
	return out
}

// scalarsField returns an object of strings; numbers and bools are put as JSON does.
func (in *input) scalarsField(name string) map[string]string {
	m, ok := in.fields[name].(map[string]any)
	if v := in.fields[name]; !ok && v != nil {
		in.addProblemf("%s is %s, not an object", name, kindOf(v))
	}
	out := map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(m)) {
		switch v := m[key].(type) {
		case nil:
		case string:
			out[key] = v
		case bool, int64, float64:
			out[key] = string(value.Encode(v))
		default:
			in.addProblemf("%s.%s is %s, not a string", name, quoteText(key), kindOf(v))
		}
	}
	return out
}

// timeoutField returns a duration above 0 and at most the given one, which it also
// is if it is absent.
func (in *input) timeoutField(most time.Duration) time.Duration {
	text := in.textField("timeout")
	if text == "" {
		return most
	}
	d, err := time.ParseDuration(text)
	switch {
	case err != nil:
		in.addProblemf("timeout: %s is not a duration such as 30s", quoteText(text))
	case d <= 0:
		in.addProblemf("timeout: %s is not above 0", quoteText(text))
	case d > most:
		in.addProblemf("timeout: %s is above the limit of %v", quoteText(text), most)
	}
	return d
}

// quoteText returns the text as a message can hold it.
func quoteText(text string) string {
	return strconv.Quote(value.Shorten(text, maxQuoted))
}

// kindOf names what a model value is.
func kindOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "a bool"
	case int64, float64:
		return "a number"
	case string:
		return "a string"
	case []any:
		return "a list"
	default:
		return "an object"
	}
}
