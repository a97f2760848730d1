package workflow

import (
	"slices"
	"strings"
	"time"

	"github.com/pawl-run/pawl/internal/document"
)

// A field is one field of the format: how it is read into a definition, and
// how it is written. The tables in parse_format.go are made of fields, and are
// the only place that says what the format is.
type field struct {
	name string
	form
}

// A form reads an element into one field of a Go value, and writes that field
// as a JSON value; nil leaves it out, for it has its default.
type form struct {
	read  func(p *parser, e *document.Element)
	write func() any
}

// name is an id, a name or a code: a string that is not empty.
func name[T ~string](to *T) form {
	return form{
		read: func(p *parser, e *document.Element) {
			if s, ok := p.name(e); ok {
				*to = T(s)
			}
		},
		write: func() any { return unless("", string(*to)) },
	}
}

// prose is a text for people.
func prose(to *string) form {
	return form{
		read: func(p *parser, e *document.Element) {
			if p.is(e, document.String) {
				*to = e.Text
			}
		},
		write: func() any { return unless("", *to) },
	}
}

// expression is the source of an expression. A number or a boolean is taken as
// it is written: it is its own expression.
func expression(to *string) form {
	return form{
		read:  func(p *parser, e *document.Element) { *to = p.expression(e) },
		write: func() any { return unless("", *to) },
	}
}

// oneOf is an enumerated value; def is what no value stands for.
func oneOf[T ~string](to *T, def T, values []T) form {
	return form{
		read: func(p *parser, e *document.Element) {
			switch {
			case !p.is(e, document.String):
			case slices.Contains(values, T(e.Text)):
				*to = T(e.Text)
			default:
				p.report(ProblemUnknownValue, "%q is not one of %s", e.Text, listed(values))
			}
		},
		write: func() any {
			if *to == def {
				return nil
			}
			return unless("", string(*to))
		},
	}
}

// listed writes enumerated values into a problem.
func listed[T ~string](values []T) string {
	texts := make([]string, len(values))
	for i, v := range values {
		texts[i] = string(v)
	}
	return strings.Join(texts, ", ")
}

// unless returns v, or nil if it is the default.
func unless[T comparable](def, v T) any {
	if v == def {
		return nil
	}
	return v
}

// integer is an int whose default is 0.
func integer(to *int) form {
	return form{
		read: func(p *parser, e *document.Element) {
			if n, ok := p.integer(e); ok {
				*to = int(n)
			}
		},
		write: func() any { return unless(0, *to) },
	}
}

// positive is an int or uint64 from 1. 0 in Go stands for the default, and is
// refused in a text, where it would be misread.
func positive[T int | uint64](to *T, def T) form {
	return form{
		read: func(p *parser, e *document.Element) {
			n, ok := p.integer(e)
			if ok && n < 1 {
				p.report(ProblemOutOfRange, "%s is less than 1", e.Describe())
			}
			*to = T(max(n, 0))
		},
		write: func() any {
			if *to == def {
				return nil
			}
			return unless(0, *to)
		},
	}
}

// number is a float64; 0 in Go stands for the default.
func number(to *float64, def float64) form {
	return form{
		read: func(p *parser, e *document.Element) { *to = p.number(e) },
		write: func() any {
			if *to == def {
				return nil
			}
			return unless(0, *to)
		},
	}
}

// duration is a Go duration, such as 1m30s. 0 in Go stands for the default, and
// is refused in a text if that is another.
func duration(to *time.Duration, def time.Duration) form {
	return form{
		read: func(p *parser, e *document.Element) {
			*to = p.duration(e, def == 0)
		},
		write: func() any {
			if *to == 0 || *to == def {
				return nil
			}
			return durationText(*to)
		},
	}
}

// durationText is d.String without the zeros at its end: 1h for 1h0m0s.
func durationText(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// flag is a bool whose default is false.
func flag(to *bool) form {
	return form{
		read: func(p *parser, e *document.Element) {
			if p.is(e, document.Bool) {
				*to = e.Text == "true"
			}
		},
		write: func() any { return unless(false, *to) },
	}
}

// optional is a field that may be absent, which differs from its zero value.
func optional[T any](to **T, of func(*T) form) form {
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
			return **to
		},
	}
}

// expressions is an object of expressions. If it may be empty, the empty one
// differs from none.
func expressions(to *map[string]string, mayBeEmpty bool) form {
	return form{
		read: func(p *parser, e *document.Element) {
			m := map[string]string{}
			p.each(e, func(key string, e *document.Element) {
				p.note()
				m[key] = p.expression(e)
			})
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

// names is a list of ids or codes.
func names[T ~string](to *[]T) form {
	return form{
		read: func(p *parser, e *document.Element) {
			p.items(e, func(e *document.Element) {
				p.note()
				if s, ok := p.name(e); ok {
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

// schema is a JSON Schema as a value.
func schema(to *any) form {
	return form{
		read: func(p *parser, e *document.Element) {
			if e.Kind != document.Object && e.Kind != document.Bool {
				p.expected(e, "a JSON Schema, an object or a boolean,")
				return
			}
			*to = p.value(e)
		},
		write: func() any { return *to },
	}
}

// object is any JSON object.
func object(to *map[string]any) form {
	return form{
		read: func(p *parser, e *document.Element) {
			m := map[string]any{}
			p.each(e, func(key string, e *document.Element) {
				p.note()
				m[key] = p.value(e)
			})
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
