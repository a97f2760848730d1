package goschema

import (
	"cmp"
	"reflect"
	"slices"
	"strings"
	"unicode"
)

// A field is one that encoding/json writes for a struct, of the struct itself or of one embedded in it.
type field struct {
	reflect.StructField
	name     string // in JSON
	place    string // TYPE.FIELD
	tagged   bool   // the tag says the name
	optional bool
	quoted   bool   // the tag says ",string"
	depth    int    // of embedding
	unset    string // the place of a nil pointer on the way to it that encoding/json cannot set
}

// fieldsOf returns the fields of a struct by the rules of encoding/json: of several with one name the least deeply
// embedded counts, of several at one depth the tagged one, and else none.
func fieldsOf(t reflect.Type) []field {
	var all []field
	collectFields(t, fieldsIn{within: map[reflect.Type]bool{}}, &all)
	byName := map[string][]field{}
	var names []string
	for _, f := range all {
		if byName[f.name] == nil {
			names = append(names, f.name)
		}
		byName[f.name] = append(byName[f.name], f)
	}
	var dominant []field
	for _, name := range names {
		same := byName[name]
		slices.SortStableFunc(same, func(a, b field) int {
			return cmp.Or(cmp.Compare(a.depth, b.depth), -compareBool(a.tagged, b.tagged))
		})
		if len(same) == 1 || same[0].depth < same[1].depth || same[0].tagged != same[1].tagged {
			dominant = append(dominant, same[0])
		}
	}
	return dominant
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	default:
		return -1
	}
}

// fieldsIn says where the walk over fields is.
type fieldsIn struct {
	depth  int                   // of embedding
	within map[reflect.Type]bool // structs
	absent bool                  // one of them is embedded by a pointer, which may be nil
	unset  string                // the place of such a pointer to an unexported struct
}

// collectFields adds the fields of a struct and of those embedded in it.
func collectFields(t reflect.Type, in fieldsIn, to *[]field) {
	if in.within[t] {
		return
	}
	in.within[t] = true
	defer delete(in.within, t)
	for i := range t.NumField() {
		f, place := t.Field(i), t.String()+"."+t.Field(i).Name
		tag, options := readTag(f.Tag.Get("json"))
		inner := f.Type
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		embedded := f.Anonymous && inner.Kind() == reflect.Struct
		if f.Tag.Get("json") == "-" || !embedded && !f.IsExported() {
			continue
		}
		unset := in.unset
		if unset == "" && inner != f.Type && !f.IsExported() {
			unset = place
		}
		if embedded && tag == "" {
			collectFields(inner, fieldsIn{in.depth + 1, in.within, in.absent || inner != f.Type, unset}, to)
			continue
		}
		*to = append(*to, field{
			StructField: f, name: cmp.Or(tag, f.Name), place: place, tagged: tag != "", depth: in.depth, unset: unset,
			optional: in.absent || mayBeAbsent(f.Type, options), quoted: hasOption(options, "string") && isQuotable(f.Type),
		})
	}
}

// readTag returns the name of a json tag, if encoding/json would not ignore it, and its options.
func readTag(tag string) (name, options string) {
	name, options, _ = strings.Cut(tag, ",")
	if !IsTagName(name) {
		name = ""
	}
	return name, options
}

// IsTagName says whether encoding/json takes a text as the name in a json tag, and does not ignore it.
func IsTagName(name string) bool {
	odd := func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("!#$%&()*+-./:;<=>?@[]^_{|}~ ", r)
	}
	return name != "" && !strings.ContainsFunc(name, odd)
}

func hasOption(options, name string) bool { return slices.Contains(strings.Split(options, ","), name) }

func mayBeAbsent(t reflect.Type, options string) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Map, reflect.Slice, reflect.Interface:
		return true
	default:
		return hasOption(options, "omitempty") || hasOption(options, "omitzero")
	}
}

// isQuotable says whether the option string of a tag holds for a type.
func isQuotable(t reflect.Type) bool {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	k := t.Kind()
	return k == reflect.Bool || k == reflect.String || k >= reflect.Int && k <= reflect.Uintptr || k == reflect.Float32 || k == reflect.Float64
}

// foldCase returns a name as encoding/json compares it where the exact one is not there.
func foldCase(name string) string { return strings.Map(firstCase, name) }

// firstCase returns the first of the letters that differ from one in case alone.
func firstCase(r rune) rune {
	for {
		next := unicode.SimpleFold(r)
		if next <= r {
			return next
		}
		r = next
	}
}
