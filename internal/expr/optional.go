package expr

import (
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/interpreter"

	"github.com/pawl-run/pawl/internal/value"
)

// An optional chain, such as x.?a.b, yields none as soon as one of its steps is
// absent. The library can take a step from something that has no fields for an error,
// or for an absent one. Here a step from null is absent, since null is how JSON says
// that there is nothing; one from a number or a text stays an error, which it nearly
// always is. A null at the end of a chain is a value.

// An optionalChain adds steps to an expression such as x.?a.b.
//
// It is a decorator of an attribute: the library builds a chain by adding qualifiers to it one
// by one, and each is replaced by a step that knows about null.
type optionalChain struct {
	interpreter.InterpretableAttribute
}

// allowNull makes each chain in a plan an optionalChain, as a decorator of the library.
func allowNull(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
	switch x := i.(type) {
	case optionalChain:
		return x, nil
	case interpreter.InterpretableAttribute:
		return optionalChain{x}, nil
	default:
		return i, nil
	}
}

// AddQualifier implements interpreter.Attribute. The library looks at the kinds of
// qualifiers, which are to stay what they are.
func (c optionalChain) AddQualifier(q interpreter.Qualifier) (interpreter.Attribute, error) {
	switch x := q.(type) {
	case interpreter.ConstantQualifier:
		q = constantStep{x}
	case interpreter.Attribute:
		q = computedStep{x}
	}
	_, err := c.InterpretableAttribute.AddQualifier(q)
	return c, err
}

// A constantStep is one with a key that is written in the expression.
type constantStep struct{ interpreter.ConstantQualifier }

// QualifyIfPresent implements interpreter.Qualifier: the library asks it in optional
// chains, and Qualify elsewhere.
func (s constantStep) QualifyIfPresent(vars interpreter.Activation, from any, presenceOnly bool) (any, bool, error) {
	if isNull(from) {
		return nil, false, nil
	}
	return s.ConstantQualifier.QualifyIfPresent(vars, from, presenceOnly)
}

// A Filler is an object with a value for the keys that it lacks: a step with a key that is written
// in the expression gets that, where else there is an error. Its keys are those that it has.
type Filler interface {
	value.Object
	// Absent returns the value.
	Absent() any
}

// Qualify implements interpreter.Qualifier.
func (s constantStep) Qualify(vars interpreter.Activation, from any) (any, error) {
	v, err := s.ConstantQualifier.Qualify(vars, from)
	if err == nil {
		return v, nil
	}
	if f, ok := from.(Filler); ok {
		if key, ok := s.Value().(types.String); ok {
			if _, there := f.Get(string(key)); !there {
				return f.Absent(), nil
			}
		}
	}
	return v, err
}

// A computedStep is one with a key that is itself computed.
type computedStep struct{ interpreter.Attribute }

// QualifyIfPresent implements interpreter.Qualifier.
func (s computedStep) QualifyIfPresent(vars interpreter.Activation, from any, presenceOnly bool) (any, bool, error) {
	if isNull(from) {
		return nil, false, nil
	}
	return s.Attribute.QualifyIfPresent(vars, from, presenceOnly)
}

// isNull reports whether a value is null, as it comes from variables or as it is in the
// library.
func isNull(v any) bool { return v == nil || v == types.NullValue }
