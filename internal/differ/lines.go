package differ

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/workflow"
)

// FormatLines returns a change in lines such as "+ node check" and "~ ship.retry.maxAttempts 3 -> 5".
func FormatLines(c *workflow.DefinitionChange) (out []string) {
	of, name := "definition", ""
	switch {
	case c.Node != "":
		of, name = "node "+string(c.Node), string(c.Node)+"."
	case c.Transition != "":
		of, name = "transition "+string(c.Transition), string(c.Transition)+"."
	}
	switch c.Kind {
	case workflow.ChangeAdded:
		return []string{"+ " + of}
	case workflow.ChangeRemoved:
		return []string{"- " + of}
	case workflow.ChangeChanged:
	}
	for _, f := range c.Fields {
		out = appendLines(out, name+f.Field, f.Before, f.After)
	}
	return out
}

// appendLines appends a line for each member that is not the same in two objects, and one for other values.
func appendLines(out []string, name string, before, after []byte) []string {
	var was, is map[string]json.RawMessage
	if json.Unmarshal(before, &was) != nil || json.Unmarshal(after, &is) != nil || was == nil || is == nil {
		from, to := shortText(before), shortText(after)
		if from == to { // they differ behind what is shown
			same := 0
			for same < min(len(before), len(after)) && before[same] == after[same] {
				same++
			}
			from, to = "…"+shortText(before[max(same-20, 0):]), "…"+shortText(after[max(same-20, 0):])
		}
		return append(out, fmt.Sprintf("~ %s %s -> %s", name, from, to))
	}
	members := maps.Clone(was)
	maps.Copy(members, is)
	for _, key := range slices.Sorted(maps.Keys(members)) {
		if !bytes.Equal(was[key], is[key]) {
			out = appendLines(out, name+"."+key, was[key], is[key])
		}
	}
	return out
}

// shortText returns a value of a definition in a few words: a text without its quotes, - for none.
func shortText(raw []byte) string {
	text := strings.ToValidUTF8(string(raw), "") // its begin may be cut off
	switch {
	case raw == nil:
		return "-"
	case strings.HasPrefix(text, `"`) && !strings.ContainsAny(text, " \\"):
		text = strings.Trim(text, `"`)
	}
	return value.Shorten(text, 80)
}
