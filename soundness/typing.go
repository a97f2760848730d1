package soundness

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/pawl-run/pawl/internal/expr"
)

// A typing tells whether an expression fails because of the types of what it reads.
type typing struct {
	check    *checker
	compiler *expr.Compiler // of parts of the expression
	schemas  map[string]any // of each variable that the expression reads
	refs     [][]string     // of the expression
	samples  []expr.Map     // the variables to try, which have each combination of types; none if there are too many
	made     int            // values for samples

	varied  bool       // schemas have objects that may lack a listed field, or have another
	varying bool       // such objects are drawn as well
	others  []expr.Map // samples with them, drawn when they are needed
}

// The bounds of the work for an expression. The check claims nothing of an expression beyond them.
const (
	maxTyped       = 256    // samples
	maxTypedValues = 20_000 // in all samples
)

// drawSamples returns variables in which the references have each combination of the types that the schemas allow.
func (y *typing) drawSamples() []expr.Map {
	out := []expr.Map{{}}
	for _, ref := range y.refs {
		for _, v := range out {
			if _, ok := v[ref[0]]; !ok {
				v[ref[0]] = map[string]any{}
			}
		}
		path, schema := listedPath(y.schemas[ref[0]], ref[1:])
		pool := y.typesOf(schema)
		if len(pool)*len(out) > maxTyped || y.made > maxTypedValues {
			return nil
		}
		var next []expr.Map
		for _, v := range out {
			// It may be missing in an object that another reference has as a whole.
			if y.varying {
				next = append(next, v)
			}
			for _, x := range pool {
				set := maps.Clone(v)
				set[ref[0]] = withPath(v[ref[0]], path, x)
				next = append(next, set)
			}
		}
		out = next
	}
	return out
}

// listedPath returns the part of a path that a schema lists among its properties, and the schema there.
func listedPath(schema any, path []string) (listed []string, at any) {
	for i, key := range path {
		m, _ := schema.(map[string]any)
		properties, _ := m["properties"].(map[string]any)
		next, ok := properties[key]
		if !ok {
			return path[:i], schema
		}
		schema = next
	}
	return path, schema
}

// typesOf returns values of each type that a schema allows: both bools, numbers with and without a fraction, lists with elements of each
// type. Without a schema they are values of all types. They need not be all valid: a value too many can only acquit an expression.
func (y *typing) typesOf(schema any) (out []any) {
	m, _ := schema.(map[string]any)
	defer func() { y.made += len(out) }()
	if y.made > maxTypedValues || y.check.isStopped() {
		return []any{nil} // drawSamples gives up
	}
	if c, ok := m["const"]; ok {
		return []any{c}
	}
	if e, ok := m["enum"].([]any); ok {
		return e
	}
	types, several := m["type"].([]any)
	_, isObject := m["properties"].(map[string]any)
	switch {
	case several:
	case m["type"] != nil:
		types = []any{m["type"]}
	case isObject:
		types = []any{"object"}
	default:
		return []any{int64(1), 0.5, "a", true, false, nil, []any{}, map[string]any{}}
	}
	for _, name := range types {
		out = append(out, y.typeOf(m, name)...)
	}
	return out
}

// typeOf returns values of one type.
func (y *typing) typeOf(m map[string]any, name any) (out []any) {
	switch name {
	case "boolean":
		return []any{true, false}
	case "integer":
		return numberPool(m, name)
	case "number":
		out = numberPool(m, name)
		for _, x := range out {
			out = append(out, floatOf(x)+0.25, floatOf(x)-0.25)
		}
		return slices.DeleteFunc(distinct(append(out, 0.5)), func(x any) bool { return !allowsNumber(m, x) })
	case "string":
		return []any{strings.Repeat("a", leastOf(m, "minLength")), strings.Repeat("a", leastOf(m, "minLength")+1)}
	case "array":
		least := leastOf(m, "minItems")
		if least == 0 {
			out = append(out, []any{})
		}
		for _, x := range y.typesOf(m["items"]) {
			out = append(out, slices.Repeat([]any{x}, max(least, 1)))
		}
		y.made += len(out) * least
		return out
	case "object":
		return y.objectsOf(m)
	}
	return []any{nil}
}

// objectsOf returns objects with the properties that a schema lists: each property has its values in turn.
func (y *typing) objectsOf(m map[string]any) (out []any) {
	properties, _ := m["properties"].(map[string]any)
	pools, most := map[string][]any{}, 1
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		pools[name] = y.typesOf(properties[name])
		most = max(most, len(pools[name]))
	}
	if y.made += most * len(pools); y.made > maxTypedValues {
		return nil
	}
	for i := range most {
		object := map[string]any{}
		for name, pool := range pools {
			if len(pool) > 0 {
				object[name] = pool[i%len(pool)]
			}
		}
		out = append(out, object)
	}
	return append(out, y.variantsOf(m, out)...)
}

// variantsOf returns objects with the required fields alone, and objects with a field that a schema does not list. Before they are asked
// for, it returns none, and notes that there are some.
func (y *typing) variantsOf(m map[string]any, full []any) (out []any) {
	required, _ := m["required"].([]any)
	fewer := func(name string, _ any) bool { return !slices.Contains(required, any(name)) }
	for _, x := range full {
		object := maps.Clone(x.(map[string]any))
		if maps.DeleteFunc(object, fewer); len(object) < len(x.(map[string]any)) {
			out = append(out, object)
		}
	}
	open := m["additionalProperties"] != false
	y.varied = y.varied || open || len(out) > 0
	if !y.varying {
		return nil
	}
	if open {
		for _, x := range y.typesOf(m["additionalProperties"]) {
			object := maps.Clone(full[0].(map[string]any))
			object[unlisted] = x
			out = append(out, object)
		}
	}
	y.made += len(out) * (len(required) + 1)
	return out
}

// unlisted is a field that schemas do not list.
const unlisted = "~"

// failureOf evaluates an expression with each sample, and returns its last error if it fails with all because of their types, and with
// objects that have other fields too.
func (y *typing) failureOf(p *expr.Program, condition bool) (last *expr.Error) {
	for _, v := range y.samples {
		if y.check.isStopped() {
			return nil // a sample that was not tried might acquit it
		}
		err := tryExpression(p, v, condition)
		if err == nil || !errors.As(err, &last) || last.Code != expr.CodeExpression || !y.isOfTypes(last.Message) {
			return nil
		}
	}
	if last == nil || y.varied && y.worksOtherwise(p, condition) {
		return nil
	}
	return last
}

// worksOtherwise reports whether an expression works with objects that lack fields which may be missing, or have one that the schema does
// not list: a macro over {} does nothing. How else it fails with them tells nothing of types.
func (y *typing) worksOtherwise(p *expr.Program, condition bool) bool {
	if y.others == nil {
		y.varying, y.made = true, 0
		y.others = y.drawSamples()
	}
	for _, v := range y.others {
		if y.check.isStopped() || tryExpression(p, v, condition) == nil {
			return true
		}
	}
	return y.others == nil // there are too many to try
}

// tryExpression evaluates an expression, as a condition or for its value.
func tryExpression(p *expr.Program, v expr.Map, condition bool) (err error) {
	if condition {
		_, err = p.EvalBool(v)
	} else {
		_, err = p.Eval(v)
	}
	return err
}

// isOfTypes reports whether an error tells of types, and not of a value: an operation that these types do not have, or a field that a
// schema forbids.
func (y *typing) isOfTypes(message string) bool {
	if key, missing := strings.CutPrefix(message, "no such key: "); missing {
		return slices.ContainsFunc(y.refs, func(ref []string) bool {
			i := slices.Index(ref[1:], key)
			return i >= 0 && forbids(y.schemas[ref[0]], ref[1:i+2])
		})
	}
	return strings.HasPrefix(message, "no such overload") || strings.HasPrefix(message, "unsupported index type ") ||
		strings.HasSuffix(message, ", expected iterable type") || strings.HasPrefix(message, "result is ") && strings.HasSuffix(message, ", not a bool")
}

// alwaysFails reports whether an expression fails with every value, given that it fails with each sample. An expression without choices
// does, for its types are the same with every value. In one with choices each way must fail, since other values may take another one.
func (y *typing) alwaysFails(source string, condition bool) bool {
	if len(source) > maxBranching {
		return false
	}
	way, err := y.compiler.FindWays(source)
	return err == nil && (way.IsWhole() || y.waysFail(&way, condition))
}

// maxBranching bounds the expressions that are taken apart, in bytes: each of their parts is parsed and compiled by itself.
const maxBranching = 2000

// waysFail reports whether all ways through an expression fail: the condition of c ? x : y or both alternatives, and all operands of && or ||,
// for an error of one operand does not count if the other one decides.
func (y *typing) waysFail(w *expr.Way, condition bool) bool {
	switch {
	case w.Choice != nil:
		return y.waysFail(&w.Choice[0], true) || y.waysFail(&w.Choice[1], condition) && y.waysFail(&w.Choice[2], condition)
	case w.Either != nil:
		for i := range w.Either {
			if !y.waysFail(&w.Either[i], true) {
				return false
			}
		}
		return true
	case w.Chooses || y.check.isStopped():
		return false
	}
	p, err := y.compiler.Compile(w.Source, slices.Sorted(maps.Keys(y.schemas)))
	return err == nil && y.failureOf(p, condition) != nil
}
