// Package schema compiles JSON Schemas and checks values against them, within bounds: a schema may come from a stranger.
//
// The package is pure: no clock, no I/O, no randomness.
package schema

import (
	"cmp"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/pawl-run/pawl/internal/limits"
	"github.com/pawl-run/pawl/internal/value"
)

// A Schema is a compiled JSON Schema, draft 2020-12. It refers to nothing outside itself. The nil Schema accepts
// everything. Compiled schemas are shared by all runs of a definition; a check changes nothing in one.
type Schema struct {
	compiled    *jsonschema.Schema
	unevaluated bool // one of its parts asks what the others have not evaluated
	whole       bool // only the library can check it: for that reason, or because it is of an older draft
}

// errNoLoader refuses references to other documents.
var errNoLoader = errors.New("a schema may refer only to itself")

// A noLoader takes the place of the library's loader: a definition must not make the engine read files or open
// connections.
type noLoader struct{}

// Load refuses every address, so that a schema is the same wherever and whenever it is compiled.
func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("%w, not to %s", errNoLoader, url)
}

// Compile compiles a schema given as a value; nil gives nil. The error says what is wrong with it: it is no
// schema, refers to something else, or is beyond a bound. It has at most some 40,000 values, fewer if they are deep,
// and 5,000 subschemas; at most 10,000 of them apply to one value, where each $ref counts as
// often as it is followed; nothing in it applies to a value because it applies to that value; its patterns are
// bounded as those of expressions are; and it has neither $dynamicRef nor $recursiveRef. The bounds are there for
// definitions of strangers: without them a schema of a few KB can take the memory of the host, or a check hours.
func Compile(doc any) (*Schema, error) {
	s, err := NewSource(doc)
	if err != nil {
		return nil, err
	}
	return s.At()
}

// A Source compiles parts of one document. The zero value is no document. To compile each part from a document
// of its own would break its references, and cost the whole each time.
type Source struct {
	compiler           *jsonschema.Compiler
	unevaluated, whole bool
}

// NewSource reads a document that is to be a schema, and finds whether it can be used. Cheap looks come first:
// its size is bounded before it is compiled, and what is compiled is walked through once for what its references come
// to.
func NewSource(doc any) (Source, error) {
	if doc == nil {
		return Source{}, nil
	}
	doc, err := value.Normalize(doc, value.Limits{}) // it may be a Go value of any depth
	if err != nil {
		return Source{}, err
	}
	if err := checkSize(doc); err != nil {
		return Source{}, err
	}
	c := jsonschema.NewCompiler()
	// Nothing is loaded, patterns are the engine's own, and a schema that names no draft is of 2020-12.
	c.UseLoader(noLoader{})
	c.UseRegexpEngine(new(patternCompiler).compile)
	c.DefaultDraft(jsonschema.Draft2020)
	if err := c.AddResource("mem:///schema", doc); err != nil {
		return Source{}, err
	}
	root, err := c.Compile("mem:///schema") // the whole, so that parts are there
	if err != nil {
		return Source{}, explainType(err)
	}
	paths := paths{applied: map[*jsonschema.Schema]int{}}
	if err := paths.follow(root); err != nil {
		return Source{}, err
	}
	return Source{c, paths.unevaluated, paths.unevaluated || paths.older}, nil
}

// At compiles the part at the given keys; of no document that is nil.
func (s Source) At(keys ...string) (*Schema, error) {
	if s.compiler == nil {
		return nil, nil
	}
	fragment := strings.ReplaceAll(value.Pointer(keys), "%", "%25") // RFC 6901, 6
	compiled, err := s.compiler.Compile("mem:///schema#" + fragment)
	if err != nil {
		return nil, err
	}
	return &Schema{compiled, s.unevaluated, s.whole}, nil
}

// A Error reports a value that does not fit its schema.
type Error struct {
	Path    string // RFC 6901 pointer into the value
	Message string

	all *jsonschema.ValidationError // with the other violations, if they were looked for
}

// Error names the place and what is wrong there.
func (e *Error) Error() string { return fmt.Sprintf("at %q: %s", e.Path, e.Message) }

// A LimitError says that a check is refused because it would cost too much, or the value is too deep.
type LimitError struct {
	Limit string // which bound
	Max   int64  // its value
}

// Error names the bound.
func (e *LimitError) Error() string {
	return fmt.Sprintf("limit %s exceeded: at most %d", e.Limit, e.Max)
}

// Check returns a *Error if v, a value of the JSON model, does not fit s, and a
// *LimitError if the check would cost more than 10 million units or v is deeper than anything
// in a run.
func (s *Schema) Check(v any) error {
	_, err := s.CheckWithin(limits.MaxSchemaCost, v)
	return err
}

// CheckWithin is Check with a bound of the caller's: most is in units of cost, as those of expressions, and so is
// what it returns, at most one more than most. The cost is counted before the work is done. A planner adds up what
// the checks of one message cost, and hands down what is left.
func (s *Schema) CheckWithin(most int, v any) (cost int, err error) {
	if s == nil {
		return 0, nil
	}
	m := meter{left: most, unevaluated: s.unevaluated, whole: s.whole}
	// The meter walks first. Only a check that is paid for is made.
	switch m.apply(s.compiled, v, 0); {
	case m.tooDeep:
		return 0, &LimitError{Limit: value.LimitDepth, Max: maxCheckedDepth}
	case m.left < 0:
		return most + 1, &LimitError{Limit: limits.SchemaCost, Max: int64(most)}
	}
	// The library is complete and tells more; it is as good as the finder for what is small, and alone where parts
	// look at what others have not evaluated.
	if cost = most - m.left; cost < findLarge || s.whole {
		return cost, errorOf(s.compiled.Validate(v))
	}
	return cost, new(violationFinder).findViolation(s.compiled, v).toError()
}

// errorOf returns an error of the library as a *Error about one place: the first one, whatever the order in
// which the library has looked. The library reports a tree of causes, in an order of its own. The smallest place at
// each level makes one error of it which is the same in each run and each replay.
func errorOf(err error) error {
	var ve *jsonschema.ValidationError
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &ve):
		return &Error{Message: err.Error()}
	}
	all := ve
	for len(ve.Causes) > 0 {
		ve = slices.MinFunc(ve.Causes, compareViolations)
	}
	return &Error{Path: value.Pointer(ve.InstanceLocation), Message: value.Shorten(reasonOf(ve.ErrorKind), maxMessage), all: all}
}

// compareViolations compares two errors at one level by their places.
func compareViolations(a, b *jsonschema.ValidationError) int {
	return cmp.Or(slices.Compare(a.InstanceLocation, b.InstanceLocation), strings.Compare(a.SchemaURL, b.SchemaURL), compareNames(a.ErrorKind, b.ErrorKind))
}

// compareNames compares errors that the library finds in the order of a map, which is another one each time.
func compareNames(a, b jsonschema.ErrorKind) int {
	switch a := a.(type) {
	case *kind.PropertyNames:
		if b, ok := b.(*kind.PropertyNames); ok {
			return strings.Compare(a.Property, b.Property)
		}
	case *kind.DependentRequired:
		if b, ok := b.(*kind.DependentRequired); ok {
			return strings.Compare(a.Prop, b.Prop)
		}
	case *kind.Dependency:
		if b, ok := b.(*kind.Dependency); ok {
			return strings.Compare(a.Prop, b.Prop)
		}
	}
	return 0
}

// Others returns the violations of the same value beside e, at most so many, and how many there are beyond these. The check of a large value
// ends at its first violation, and gives none.
func (e *Error) Others(most int) (others []Error, beyond int) {
	leaves := leavesOf(e.all, nil)
	for _, ve := range leaves[min(len(leaves), 1):] {
		if len(others) == most {
			beyond++
			continue
		}
		others = append(others, Error{Path: value.Pointer(ve.InstanceLocation), Message: value.Shorten(reasonOf(ve.ErrorKind), maxMessage)})
	}
	return others, beyond
}

// leavesOf appends the innermost errors of a tree, the one that errorOf tells first. Where one cause of several would be enough for the value
// to fit, as in anyOf, only the first of them counts.
func leavesOf(ve *jsonschema.ValidationError, leaves []*jsonschema.ValidationError) []*jsonschema.ValidationError {
	switch {
	case ve == nil:
		return leaves
	case len(ve.Causes) == 0:
		return append(leaves, ve)
	}
	causes := slices.SortedStableFunc(slices.Values(ve.Causes), compareViolations)
	switch ve.ErrorKind.(type) {
	case *kind.Schema, *kind.Group, *kind.Reference, *kind.AllOf:
	default:
		causes = causes[:1]
	}
	for _, cause := range causes {
		leaves = leavesOf(cause, leaves)
	}
	return leaves
}

// maxMessage bounds, in bytes, what a message lists of properties and of a schema.
const maxMessage = 400

// reasonOf says what is wrong in the words of the schema: it quotes nothing of the value but the names of
// properties. The message gets into events and logs, which have other readers than the data.
func reasonOf(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.Minimum:
		return "minimum: it is less than " + ratText(k.Want)
	case *kind.Maximum:
		return "maximum: it is more than " + ratText(k.Want)
	case *kind.ExclusiveMinimum:
		return "exclusiveMinimum: it is not more than " + ratText(k.Want)
	case *kind.ExclusiveMaximum:
		return "exclusiveMaximum: it is not less than " + ratText(k.Want)
	case *kind.MultipleOf:
		return "multipleOf: it is not a multiple of " + ratText(k.Want)
	case *kind.Pattern:
		return fmt.Sprintf("it does not match the pattern %q", k.Want)
	case *kind.Format:
		return "it is not a valid " + k.Want
	// The library lists them in the order of a map.
	case *kind.AdditionalProperties:
		slices.Sort(k.Properties)
	}
	lines := strings.Split((&jsonschema.ValidationError{ErrorKind: k}).Error(), "\n")
	_, reason, _ := strings.Cut(lines[len(lines)-1], "at '': ")
	return reason
}

// ratText is a number of a schema as a text of the usual form.
func ratText(r *big.Rat) string {
	f, _ := r.Float64()
	return strconv.FormatFloat(f, 'g', -1, 64)
}
