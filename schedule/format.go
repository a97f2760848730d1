package schedule

import (
	"slices"
	"strings"
	"time"

	"github.com/pawl-run/pawl/internal/document"
	"github.com/pawl-run/pawl/internal/problem"
	"github.com/pawl-run/pawl/timeout"
)

// fieldsOf returns the format of a schedule in JSON and YAML: the only place that says what it is.
func fieldsOf(s *Schedule) []field {
	return []field{
		textField("id", &s.ID, ""),
		partField("workflow", []field{textField("name", &s.Workflow.Name, ""), positiveField("version", &s.Workflow.Version, 0)}),
		textsField("cron", &s.Cron),
		durationField("every", &s.Every, 0),
		durationField("offset", &s.Offset, 0),
		durationField("after", &s.After, 0),
		instantsField("at", &s.At),
		textsField("except", &s.Except),
		textField("timezone", &s.Timezone, "UTC"),
		partField("dst", []field{oneOfField("missing", &s.DST.Missing, "", missings), oneOfField("repeated", &s.DST.Repeated, "", repeateds)}),
		instantField("start", &s.Start),
		instantField("end", &s.End),
		inputField("input", &s.Input),
		labelsField("labels", &s.Labels),
		textField("tenant", &s.Tenant, ""),
		numbersField("metaLimits", &s.MetaLimits),
		oneOfField("overlap", &s.Overlap, OverlapSkip, overlaps),
		partField("catchUp", []field{durationField("window", &s.CatchUp.Window, defaultWindow), positiveField("most", &s.CatchUp.Most, defaultMost)}),
		durationField("jitter", &s.Jitter, 0),
		positiveField("pauseAfterFailures", &s.PauseAfterFailures, 0),
	}
}

// writeFields writes all fields that do not have their default.
func writeFields(fields []field) map[string]any {
	out := map[string]any{}
	for _, f := range fields {
		if v := f.write(); v != nil {
			out[f.name] = v
		}
	}
	return out
}

// omitDefault returns v, or nil if it is its zero value or the default.
func omitDefault[T comparable](v, def T) any {
	var none T
	if v == none || v == def {
		return nil
	}
	return v
}

func textField(name string, to *string, def string) field {
	return field{
		name:  name,
		read:  func(r *reader, e *document.Element) { *to, _ = r.ReadText(e) },
		write: func() any { return omitDefault(*to, def) },
	}
}

func positiveField(name string, to *int, def int) field {
	return field{
		name: name,
		read: func(r *reader, e *document.Element) {
			n, _ := r.ReadPositive(e)
			*to = int(n)
		},
		write: func() any { return omitDefault(*to, def) },
	}
}

// durationField writes a duration in one way, without the zeros at its end: 90s and 1m30s are the same schedule.
func durationField(name string, to *time.Duration, def time.Duration) field {
	return field{
		name: name,
		read: func(r *reader, e *document.Element) { *to = r.ReadDuration(e, false) },
		write: func() any {
			if omitDefault(*to, def) == nil {
				return nil
			}
			return timeout.Text(*to)
		},
	}
}

func instantField(name string, to *time.Time) field {
	return field{
		name: name,
		read: func(r *reader, e *document.Element) { *to = r.readInstant(e) },
		write: func() any {
			if to.IsZero() {
				return nil
			}
			return formatInstant(*to)
		},
	}
}

func formatInstant(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

func oneOfField[T ~string](name string, to *T, def T, values []T) field {
	return field{
		name: name,
		read: func(r *reader, e *document.Element) {
			switch {
			case !r.IsKind(e, document.String):
			case slices.Contains(values, T(e.Text)):
				*to = T(e.Text)
			default:
				r.ReportProblem(problem.UnknownValue, "%q is not one of %s", e.Text, joinValues(values))
			}
		},
		write: func() any {
			if omitDefault(*to, def) == nil {
				return nil
			}
			return string(*to)
		},
	}
}

func joinValues[T ~string](values []T) string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = string(v)
	}
	return strings.Join(out, ", ")
}

// partField is an object within a schedule. It is left out if all its fields are.
func partField(name string, fields []field) field {
	return field{
		name: name,
		read: func(r *reader, e *document.Element) { r.readFields(e, fields) },
		write: func() any {
			if m := writeFields(fields); len(m) > 0 {
				return m
			}
			return nil
		},
	}
}

func textsField(name string, to *[]string) field {
	return field{
		name: name,
		read: func(r *reader, e *document.Element) {
			*to = nil
			r.EachItem(e, func(e *document.Element) {
				r.NotePlace()
				text, _ := r.ReadText(e)
				*to = append(*to, text)
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

func instantsField(name string, to *[]time.Time) field {
	return field{
		name: name,
		read: func(r *reader, e *document.Element) {
			*to = nil
			r.EachItem(e, func(e *document.Element) {
				r.NotePlace()
				*to = append(*to, r.readInstant(e))
			})
		},
		write: func() any {
			if len(*to) == 0 {
				return nil
			}
			out := make([]string, len(*to))
			for i, t := range *to {
				out[i] = formatInstant(t)
			}
			return out
		},
	}
}

// inputField is an expression, or an object of expressions.
func inputField(name string, to *any) field {
	return field{
		name: name,
		read: func(r *reader, e *document.Element) {
			if e.Kind != document.String && e.Kind != document.Object {
				r.ReportType(e, "an object, or an expression that gives one,")
				return
			}
			*to = r.ReadValue(e)
		},
		write: func() any { return *to },
	}
}

func labelsField(name string, to *map[string]string) field {
	return field{
		name: name,
		read: func(r *reader, e *document.Element) {
			*to = map[string]string{}
			r.EachMember(e, func(key string, e *document.Element) {
				r.NotePlace()
				if r.IsKind(e, document.String) {
					(*to)[key] = e.Text
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

func numbersField(name string, to *map[string]float64) field {
	return field{
		name: name,
		read: func(r *reader, e *document.Element) {
			*to = map[string]float64{}
			r.EachMember(e, func(key string, e *document.Element) {
				r.NotePlace()
				(*to)[key] = r.ReadNumber(e)
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
