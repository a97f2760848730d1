package inspector

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// A shownValue is a value of a run as a page shows it: a text, or a tree of them.
//
// Name is the field or the place in a list by which it is in the tree around it; "" at the top. Templates draw trees that are Closed as
// folded.
type shownValue struct {
	Name   string
	Kind   string        // object, list, text, number, bool, null, more
	Text   string        // of a leaf, and in short of a tree
	Parts  []*shownValue // of a tree
	Closed bool          // a tree that is shown when it is asked for
}

// A budget bounds what is shown of one value.
//
// valueOf counts parts over the whole value: the parts beyond are told by their number.
type budget struct {
	parts int // leaves and trees
	text  int // characters of a leaf
	line  int // characters of a tree that is shown in one line, and of a name
}

// smallValue is for rows of lists, largeValue for the pages of runs and tokens.
var (
	smallValue = budget{40, 400, 90}
	largeValue = budget{1500, 8000, 90}
)

// valueOf returns what to show of a value of the JSON model.
//
// The value itself is not changed, and nothing of it is kept but its texts.
func valueOf(name string, v any, b budget) *shownValue {
	left := b.parts
	return b.showValue(name, v, &left, 0)
}

// showValue shows a value at a depth of the tree, 0 at the top, and takes what it shows off left. Small objects within another value are
// one line, and so are small lists anywhere.
func (b *budget) showValue(name string, v any, left *int, depth int) *shownValue {
	*left--
	out := &shownValue{Name: name}
	switch v := v.(type) {
	case map[string]any:
		out.Kind = "object"
		var whole bool
		out.Text, whole = b.oneLine(v)
		// The object at the top is always a tree, so that its fields stand below each other.
		if len(v) == 0 || whole && depth > 0 {
			return out
		}
		// Sorted, so that the same value looks the same in each frame.
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if !b.addPart(out, key, v[key], left, depth, len(v)) {
				break
			}
		}
	case []any:
		out.Kind = "list"
		var whole bool
		out.Text, whole = b.oneLine(v)
		// A short list is one line at any depth.
		if len(v) == 0 || whole {
			return out
		}
		for i, item := range v {
			if !b.addPart(out, fmt.Sprint(i), item, left, depth, len(v)) {
				break
			}
		}
	case string:
		out.Kind, out.Text = "text", v
		if n := utf8.RuneCountInString(v); n > b.text {
			out.Text = fmt.Sprintf("%s (%s characters)", shortText(v, b.text), groupDigits(n))
		}
	case nil:
		out.Kind, out.Text = "null", "null"
	default:
		out.Kind, out.Text = "number", shortText(encodeLine(v), b.text)
		if _, ok := v.(bool); ok {
			out.Kind = "bool"
		}
	}
	return out
}

// addPart adds a part of a tree; false if no more is shown.
//
// of is how many parts the tree has. Below the second level trees are closed at first.
func (b *budget) addPart(out *shownValue, name string, v any, left *int, depth, of int) bool {
	if *left <= 0 {
		out.Parts = append(out.Parts, &shownValue{Kind: "more", Text: fmt.Sprintf("and %s more", groupDigits(of-len(out.Parts)))})
		return false
	}
	part := b.showValue(shortText(name, b.line), v, left, depth+1)
	part.Closed = depth >= 2
	out.Parts = append(out.Parts, part)
	return true
}

// oneLine returns a value in one line of JSON, in short, and whether that has all of it.
//
// It is the text of a tree that is closed, and of one that needs no parts.
func (b *budget) oneLine(v any) (text string, whole bool) {
	w := lineWriter{most: b.line}
	w.fitValue(v)
	return shortText(w.line.String(), b.line), !w.summed && w.n <= b.line
}

// A lineWriter writes a value in one line. It ends when the line has more than most characters, however large the value is.
type lineWriter struct {
	line strings.Builder
	n    int // characters of it
	most int

	summed bool // something is told by its size alone
}

func (w *lineWriter) fitValue(v any) {
	if w.n > w.most {
		return
	}
	switch v := v.(type) { // what is large is told by its size, not written
	case map[string]any:
		if len(v) > w.most/4 {
			w.summed = true
			w.fitText(fmt.Sprintf("{ %s fields }", groupDigits(len(v))))
			return
		}
		before := "{"
		for _, key := range slices.Sorted(maps.Keys(v)) {
			w.fitText(before)
			w.fitValue(key)
			w.fitText(":")
			w.fitValue(v[key])
			before = ","
		}
		w.fitText(strings.TrimSuffix(before, ",") + "}")
	case []any:
		if len(v) > w.most/2 {
			w.summed = true
			w.fitText(fmt.Sprintf("[ %s items ]", groupDigits(len(v))))
			return
		}
		before := "["
		for _, item := range v {
			w.fitText(before)
			w.fitValue(item)
			before = ","
		}
		w.fitText(strings.TrimSuffix(before, ",") + "]")
	case string:
		w.fitText(encodeLine(shortText(v, w.most+2)))
	default:
		w.fitText(encodeLine(v))
	}
}

func (w *lineWriter) fitText(text string) {
	w.line.WriteString(text)
	w.n += utf8.RuneCountInString(text)
}

// encodeLine returns a value as JSON in which < and > stand for themselves.
func encodeLine(v any) string {
	var text strings.Builder
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return fmt.Sprint(v)
	}
	return strings.TrimSuffix(text.String(), "\n")
}
