package inspector

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A shownValue is a value of a run as a page shows it: a text, or a tree of them.
type shownValue struct {
	Name   string
	Kind   string        // object, list, text, number, bool, null, more
	Text   string        // of a leaf, and in short of a tree
	Parts  []*shownValue // of a tree
	Closed bool          // a tree that is shown when it is asked for
}

// A budget bounds what is shown of one value.
type budget struct {
	parts int // leaves and trees
	text  int // characters of a leaf
	line  int // characters of a tree that is shown in one line
}

var (
	smallValue = budget{40, 400, 90}
	largeValue = budget{1500, 8000, 90}
)

// valueOf returns what to show of a value of the JSON model.
func valueOf(name string, v any, b budget) *shownValue {
	left := b.parts
	return b.showValue(name, v, &left, 0)
}

func (b *budget) showValue(name string, v any, left *int, depth int) *shownValue {
	*left--
	out := &shownValue{Name: name}
	switch v := v.(type) {
	case map[string]any:
		out.Kind = "object"
		out.Text = b.oneLine(v)
		if len(v) == 0 || len(out.Text) <= b.line && depth > 0 {
			return out
		}
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if !b.addPart(out, key, v[key], left, depth, len(v)) {
				break
			}
		}
	case []any:
		out.Kind = "list"
		out.Text = b.oneLine(v)
		if len(v) == 0 || len(out.Text) <= b.line {
			return out
		}
		for i, item := range v {
			if !b.addPart(out, fmt.Sprint(i), item, left, depth, len(v)) {
				break
			}
		}
	case string:
		out.Kind, out.Text = "text", v
		if runes := []rune(v); len(runes) > b.text {
			out.Text = fmt.Sprintf("%s… (%s characters)", string(runes[:b.text]), groupDigits(len(runes)))
		}
	case nil:
		out.Kind, out.Text = "null", "null"
	default:
		out.Kind, out.Text = "number", b.oneLine(v)
		if _, ok := v.(bool); ok {
			out.Kind = "bool"
		}
	}
	return out
}

// addPart adds a part of a tree; false if no more is shown.
func (b *budget) addPart(out *shownValue, name string, v any, left *int, depth, of int) bool {
	if *left <= 0 {
		out.Parts = append(out.Parts, &shownValue{Kind: "more", Text: fmt.Sprintf("and %s more", groupDigits(of-len(out.Parts)))})
		return false
	}
	part := b.showValue(name, v, left, depth+1)
	part.Closed = depth >= 2
	out.Parts = append(out.Parts, part)
	return true
}

// oneLine returns a value in one line of JSON, in short.
func (b *budget) oneLine(v any) string {
	switch v := v.(type) { // what is large is told by its size, not written
	case map[string]any:
		if len(v) > b.line/4 {
			return fmt.Sprintf("{ %s fields }", groupDigits(len(v)))
		}
	case []any:
		if len(v) > b.line/2 {
			return fmt.Sprintf("[ %s items ]", groupDigits(len(v)))
		}
	}
	var text strings.Builder
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return fmt.Sprint(v)
	}
	line := strings.TrimSuffix(text.String(), "\n")
	if runes := []rune(line); len(runes) > b.text {
		return string(runes[:b.line]) + "…"
	}
	return line
}
