package workflow

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pawl-run/pawl/internal/limits"
)

// reserved are words that CEL keeps for itself, and the names of its types, which a variable would hide. A foreach
// that named its element so would make expressions that cannot be parsed, or that mean something else than they say.
var reserved = strings.Fields(`
	as break const continue else false for function if import in let loop namespace null package
	return true var void while
	bool bytes double dyn int list map null_type optional optional_type string type uint
	base64 cel google lists math optional sets strings`)

// variableProblem says why s cannot name the element of a foreach; "" is nothing. It is stricter than [limits.NameFault],
// since the name becomes part of the language.
func variableProblem(s string) string {
	switch {
	case s == "":
		return "it is empty"
	case len(s) > limits.MaxName:
		return fmt.Sprintf("%d bytes are more than %d", len(s), limits.MaxName)
	case !isIdentifier(s):
		return "it is not an identifier: letters of ASCII, digits and _, not a digit first"
	// CEL has names of its own that begin with two underscores.
	case slices.Contains(reserved, s) || strings.HasPrefix(s, "__"):
		return "it is reserved"
	case slices.Contains(variables, s):
		return "every expression has a variable of this name"
	}
	return ""
}

// isIdentifier reports whether s is an identifier of CEL.
func isIdentifier(s string) bool {
	for i, c := range []byte(s) {
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

// sortedKeys returns the keys of a map in order. Checks and compilation go by it, so that the same definition has
// the same problems in the same order each time.
func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
