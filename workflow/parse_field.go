package workflow

import (
	"slices"
	"strings"
	"time"

	"github.com/pawl-run/pawl/internal/document"
	"github.com/pawl-run/pawl/internal/problem"
	"github.com/pawl-run/pawl/timeout"
)

// A field is one field of the format: how it is read into a definition, and how it is written. The tables in
// parse_format.go are made of fields, and are the only place that says what the format is. A struct that is read and
// one that is written go through the same table, so that neither can know a field that the other does not.
type field struct {
	name string
	form
}

// FieldName implements reading.Named.
func (f field) FieldName() string { return f.name }

// A form reads an element into one field of a Go value, and writes that field as a JSON value; nil leaves it out, for
// it has its default. Reading reports what is wrong and goes on; what it could not read stays zero. Writing has
// nothing to report: what cannot be written as JSON is found when the whole is encoded.
type form struct {
	read  func(p *parser, e *document.Element)
	write func() any
}

// nameForm is the form of an id, a name or a code: a string that is not empty. It is bound to the place that it reads
// into, as all forms are: a table of fields is made for one struct at hand.
func nameForm[T ~string](to *T) form {
	return form{
		read: func(p *parser, e *document.Element) {
			if s, ok := p.readName(e); ok {
				*to = T(s)
			}
		},
		write: func() any { return omitDefault("", string(*to)) },
	}
}

// textForm is the form of a text for people. It may be empty, which is the same as to leave it out.
func textForm(to *string) form {
	return form{
		read: func(p *parser, e *document.Element) {
			if p.IsKind(e, document.String) {
				*to = e.Text
			}
		},
		write: func() any { return omitDefault("", *to) },
	}
}

// expressionForm is the form of the source of an expression. A number or a boolean is taken as it is written, since
// it is an expression as well. condition: true and n: 3 in a mapping need no quotes, then; a list or an object is no
// expression.
func expressionForm(to *string) form {
	return form{
		read:  func(p *parser, e *document.Element) { *to = p.readExpression(e) },
		write: func() any { return omitDefault("", *to) },
	}
}

// oneOfForm is the form of an enumerated value; def is the default. The default may be written, and is left out when
// it is written again: both mean the same and have the same hash.
func oneOfForm[T ~string](to *T, def T, values []T) form {
	return form{
		read: func(p *parser, e *document.Element) {
			// A text of the right type is looked up; anything else was reported by isKind.
			switch {
			case !p.IsKind(e, document.String):
			case slices.Contains(values, T(e.Text)):
				*to = T(e.Text)
			// All values are named in the problem: there are few of each.
			default:
				p.ReportProblem(problem.UnknownValue, "%q is not one of %s", e.Text, joinValues(values))
			}
		},
		write: func() any {
			if *to == def {
				return nil
			}
			return omitDefault("", string(*to))
		},
	}
}

// joinValues lists enumerated values for a problem.
func joinValues[T ~string](values []T) string { return strings.Join(textsOf(values), ", ") }

// omitDefault returns v, or nil if it is the default. A field with its default must not be in the canonical form,
// which is hashed.
func omitDefault[T comparable](def, v T) any {
	if v == def {
		return nil
	}
	return v
}

// integerForm is the form of an int whose default is 0. It may be negative; whether it should is the checker's
// business. An integer that is written with a fraction of 0 is one.
func integerForm(to *int) form {
	return form{
		read: func(p *parser, e *document.Element) {
			if n, ok := p.ReadInteger(e); ok {
				*to = int(n)
			}
		},
		write: func() any { return omitDefault(0, *to) },
	}
}

// positiveForm is the form of an int, int64 or uint64 from 1. In Go, 0 stands for the default; in a text it would be
// misread, and is refused. def is the value that stands for the same as 0, such as 1 for a quorum, and is left out
// like it; 0 if there is no such value.
func positiveForm[T int | int64 | uint64](to *T, def T) form {
	return form{
		read: func(p *parser, e *document.Element) {
			// A number that is refused, which would become a very large one in an unsigned field, is read as 0.
			n, _ := p.ReadPositive(e)
			*to = T(n)
		},
		write: func() any {
			if *to == def {
				return nil
			}
			return omitDefault(0, *to)
		},
	}
}

// numberForm is the form of a float64; in Go, 0 stands for the default. A number that cannot be read becomes NaN,
// which no range has; the problem was reported.
func numberForm(to *float64, def float64) form {
	return form{
		read: func(p *parser, e *document.Element) { *to = p.ReadNumber(e) },
		write: func() any {
			if *to == def {
				return nil
			}
			return omitDefault(0, *to)
		},
	}
}

// numbersForm is the form of an object of numbers. An empty one and none are the same.
func numbersForm(to *map[string]float64) form {
	return form{
		read: func(p *parser, e *document.Element) {
			m := map[string]float64{}
			p.EachMember(e, func(key string, e *document.Element) {
				p.NotePlace()
				m[key] = p.ReadNumber(e)
			})
			if len(m) > 0 {
				*to = m
			}
		},
		write: func() any {
			if len(*to) == 0 {
				return nil
			}
			out := make(map[string]any, len(*to))
			for name, v := range *to {
				out[name] = v
			}
			return out
		},
	}
}

// durationForm is the form of a Go duration, such as 1m30s. In Go, 0 stands for the default; in a text, 0 is refused
// if the default is not 0. A duration is written in one way, so that 90s and 1m30s are the same definition.
func durationForm(to *time.Duration, def time.Duration) form {
	return form{
		read: func(p *parser, e *document.Element) {
			*to = p.ReadDuration(e, def == 0)
		},
		write: func() any {
			// 0 in Go stands for the default, whatever that is.
			if *to == 0 || *to == def {
				return nil
			}
			return timeout.Text(*to)
		},
	}
}

// flagForm is the form of a bool whose default is false. Only true and false are bools: yes and no are texts in YAML
// 1.2, and refused.
func flagForm(to *bool) form {
	return form{
		read: func(p *parser, e *document.Element) {
			if p.IsKind(e, document.Bool) {
				*to = e.Text == "true"
			}
		},
		write: func() any { return omitDefault(false, *to) },
	}
}

// optionalForm is the form of a field whose absence differs from its zero value. failFast is one: false is not what
// is meant without it.
func optionalForm[T any](to **T, of func(*T) form) form {
	return form{
		read: func(p *parser, e *document.Element) {
			v := new(T)
			of(v).read(p, e)
			*to = v
		},
		write: func() any {
			if *to == nil {
				return nil
			}
			// A zero value is written, since it is not what is meant by nothing.
			return **to
		},
	}
}

// expressionsForm is the form of an object of expressions. If it may be empty, an empty object differs from none. An
// output mapping that is empty says that the run has an empty output; an input mapping that is empty says nothing.
func expressionsForm(to *map[string]string, mayBeEmpty bool) form {
	return form{
		read: func(p *parser, e *document.Element) {
			m := map[string]string{}
			p.EachMember(e, func(key string, e *document.Element) {
				// Each expression has a place of its own.
				p.NotePlace()
				m[key] = p.readExpression(e)
			})
			// A nil map says that the field is absent.
			if len(m) > 0 || mayBeEmpty {
				*to = m
			}
		},
		write: func() any {
			if len(*to) == 0 && (*to == nil || !mayBeEmpty) {
				return nil
			}
			return *to
		},
	}
}

// namesForm is the form of a list of ids or codes. A name that is wrong is reported and left out, and the others keep
// their order.
func namesForm[T ~string](to *[]T) form {
	return form{
		read: func(p *parser, e *document.Element) {
			p.EachItem(e, func(e *document.Element) {
				p.NotePlace()
				// Problems with the others are told at their indices in the text.
				if s, ok := p.readName(e); ok {
					*to = append(*to, T(s))
				}
			})
		},
		write: func() any {
			if len(*to) == 0 {
				return nil
			}
			return *to
		},
	}
}

// schemaForm is the form of a JSON Schema. true and false are schemas too. The schema is taken as it is, and checked
// with the definition.
func schemaForm(to *any) form {
	return form{
		read: func(p *parser, e *document.Element) {
			if e.Kind != document.Object && e.Kind != document.Bool {
				p.ReportType(e, "a JSON Schema, an object or a boolean,")
				return
			}
			// It is read without a bound of its own: the text as a whole has one.
			*to = p.ReadValue(e)
		},
		write: func() any { return *to },
	}
}

// objectForm is the form of a JSON object.
func objectForm(to *map[string]any) form {
	return form{
		read: func(p *parser, e *document.Element) {
			m := map[string]any{}
			p.EachMember(e, func(key string, e *document.Element) {
				p.NotePlace()
				m[key] = p.ReadValue(e)
			})
			// {} and nothing are the same, and must have the same hash.
			if len(m) > 0 {
				*to = m
			}
		},
		write: func() any {
			if len(*to) == 0 {
				return nil
			}
			return *to
		},
	}
}
