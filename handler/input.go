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
		in.problemf("%v", err)
		return in
	}
	fields, ok := model.(map[string]any)
	if !ok && model != nil {
		in.problemf("it is %s, not an object", kind(model))
	}
	in.fields = fields
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if !slices.Contains(known, name) {
			in.problemf("%s: unknown field; there are %s", quote(name), strings.Join(known, ", "))
		}
	}
	return in
}

func (in *input) problemf(format string, args ...any) {
	in.problems = append(in.problems, fmt.Sprintf(format, args...))
}

// maxProblems bounds the problems that an error lists.
const maxProblems = 20

// err returns everything that is wrong, as one error.
func (in *input) err() error {
	switch n := len(in.problems); {
	case n == 0:
		return nil
	case n > maxProblems:
		in.problems = append(in.problems[:maxProblems], fmt.Sprintf("and %d more", n-maxProblems))
	}
	return permanent(CodeInvalidInput, "input: %s", strings.Join(in.problems, "; "))
}

// need returns whether the field is there; it is a problem if not.
func (in *input) need(name string) bool {
	if in.fields[name] == nil {
		in.problemf("%s is missing", name)
		return false
	}
	return true
}

// text returns a string, "" if it is absent.
func (in *input) text(name string) string {
	s, ok := in.fields[name].(string)
	if v := in.fields[name]; !ok && v != nil {
		in.problemf("%s is %s, not a string", name, kind(v))
	}
	return s
}

// flag returns a bool, false if it is absent.
func (in *input) flag(name string) bool {
	b, ok := in.fields[name].(bool)
	if v := in.fields[name]; !ok && v != nil {
		in.problemf("%s is %s, not a bool", name, kind(v))
	}
	return b
}

// list returns a list, nil if it is absent.
func (in *input) list(name string) []any {
	l, ok := in.fields[name].([]any)
	if v := in.fields[name]; !ok && v != nil {
		in.problemf("%s is %s, not a list", name, kind(v))
	}
	return l
}

// texts returns a list of strings.
func (in *input) texts(name string) []string {
	var out []string
	for i, v := range in.list(name) {
		s, ok := v.(string)
		if !ok {
			in.problemf("%s[%d] is %s, not a string", name, i, kind(v))
		}
		out = append(out, s)
	}
	return out
}

// scalars returns an object of strings; numbers and bools are put as JSON does.
func (in *input) scalars(name string) map[string]string {
	m, ok := in.fields[name].(map[string]any)
	if v := in.fields[name]; !ok && v != nil {
		in.problemf("%s is %s, not an object", name, kind(v))
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
			in.problemf("%s.%s is %s, not a string", name, quote(key), kind(v))
		}
	}
	return out
}

// timeout returns a duration above 0 and at most the given one, which it also
// is if it is absent.
func (in *input) timeout(most time.Duration) time.Duration {
	text := in.text("timeout")
	if text == "" {
		return most
	}
	d, err := time.ParseDuration(text)
	switch {
	case err != nil:
		in.problemf("timeout: %s is not a duration such as 30s", quote(text))
	case d <= 0:
		in.problemf("timeout: %s is not above 0", quote(text))
	case d > most:
		in.problemf("timeout: %s is above the limit of %v", quote(text), most)
	}
	return d
}

// quote returns the text as a message can hold it.
func quote(text string) string {
	if len(text) > maxQuoted {
		text = strings.ToValidUTF8(text[:maxQuoted], "") + "..."
	}
	return strconv.Quote(text)
}

// kind names what a model value is.
func kind(v any) string {
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
