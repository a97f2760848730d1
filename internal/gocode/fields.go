package gocode

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/pawl-run/pawl/internal/goschema"
)

// A field is one of a struct.
type field struct {
	key        string
	t          goType
	isOptional bool
	comment    string // on lines of its own
}

// keysOf returns the names of the fields that a schema of objects describes or needs, sorted.
func keysOf(m map[string]any) []string {
	keys := maps.Clone(partOf(m, "properties"))
	if keys == nil {
		keys = map[string]any{}
	}
	required, _ := m["required"].([]any)
	for _, key := range required {
		if key, ok := key.(string); ok {
			keys[key] = nil
		}
	}
	return slices.Sorted(maps.Keys(keys))
}

// fieldsOf returns the fields of a schema of objects. A field that is needed, and not described, may be anything.
func (w *typeWriter) fieldsOf(m map[string]any, root, pointer string) []field {
	properties, required := partOf(m, "properties"), m["required"]
	var fields []field
	for _, key := range keysOf(m) {
		f := field{key: key, t: anything, isOptional: !listsValue(required, key)}
		if property, ok := properties[key]; ok {
			described, _ := property.(map[string]any)
			f.t, f.comment = w.typeAt(root, pointer+"/properties/"+escapePointer(key)), commentText(described["description"], "")
		}
		if f.isOptional {
			f.t = f.t.orNil()
		}
		fields = append(fields, f)
	}
	return fields
}

// listsValue says whether a list has a text or null.
func listsValue(list, value any) bool {
	items, _ := list.([]any)
	return slices.Contains(items, value)
}

// takesOthers says whether a schema describes fields beside those that it names.
func takesOthers(m map[string]any) bool {
	return m["patternProperties"] != nil || slices.ContainsFunc([]string{"additionalProperties", "unevaluatedProperties"}, func(keyword string) bool {
		_, described := m[keyword].(map[string]any)
		return described || m[keyword] == true
	})
}

// joinSiblings returns the type of a schema that refers to another one, whose type is t, for what it says itself: a struct has the fields of
// both.
func (w *typeWriter) joinSiblings(t goType, m map[string]any, name, root, pointer string) goType {
	others := takesOthers(m) || t.lacksFieldsOf(laterParts(m))
	switch {
	case !t.isStrict || !others && !t.lacksFieldOf(m):
		return t
	case t.fields == nil:
		return goType{text: "any", isNil: true, comment: "its schema joins others"}
	case others || !canBeTags(keysOf(m)):
		return anyObject
	}
	joined := w.writeStruct(name, m["description"], joinFields(t.fields, w.fieldsOf(m, root, pointer), partOf(m, "properties")))
	if t.isNil {
		return joined.orNil()
	}
	return joined
}

// laterParts returns the schemas that a schema joins, but for those of the first keyword, and those that it applies to some values.
func laterParts(m map[string]any) []any {
	var parts []any
	isFirst := m["$ref"] == nil
	for _, keyword := range severals {
		list, ok := m[keyword].([]any)
		if ok && !isFirst {
			parts = append(parts, list...)
		}
		isFirst = isFirst && !ok
	}
	for _, keyword := range []string{"if", "then", "else"} {
		if part, ok := m[keyword]; ok {
			parts = append(parts, part)
		}
	}
	for _, keyword := range []string{"dependentSchemas", "dependencies"} {
		parts = slices.AppendSeq(parts, maps.Values(partOf(m, keyword)))
	}
	return parts
}

// lacksFieldsOf says whether a strict type may lack what one of some schemas describes.
func (t goType) lacksFieldsOf(schemas []any) bool {
	return slices.ContainsFunc(schemas, func(s any) bool {
		m, _ := s.(map[string]any)
		refers := slices.ContainsFunc(append([]string{"$ref"}, severals...), func(keyword string) bool { return m[keyword] != nil })
		return refers || takesOthers(m) || t.lacksFieldOf(m) || t.lacksFieldsOf(laterParts(m))
	})
}

// lacksFieldOf says whether a strict type lacks a field that a schema names itself, or has it as a strict type as well.
func (t goType) lacksFieldOf(m map[string]any) bool {
	properties := partOf(m, "properties")
	if t.fields == nil {
		return properties != nil || m["items"] != nil
	}
	return slices.ContainsFunc(keysOf(m), func(key string) bool {
		i := slices.IndexFunc(t.fields, func(f field) bool { return f.key == key })
		return i < 0 || properties[key] != nil && t.fields[i].t.isStrict
	})
}

// joinFields returns the fields of two schemas that describe one object. A field that both describe, and the first strictly, may be anything.
func joinFields(first, second []field, described map[string]any) []field {
	all := slices.Clone(first)
	for _, f := range second {
		i := slices.IndexFunc(all, func(o field) bool { return o.key == f.key })
		switch {
		case i < 0:
			all = append(all, f)
		case described[f.key] != nil && all[i].t.isStrict:
			all[i].t = anything
		}
	}
	slices.SortFunc(all, func(a, b field) int { return cmp.Compare(a.key, b.key) })
	return all
}

// writeStruct declares a struct with a description.
func (w *typeWriter) writeStruct(name string, description any, fields []field) goType {
	taken := scope{}
	w.declared[name] = true
	fmt.Fprintf(w, "\n%stype %s struct {\n", commentText(description, ""), name)
	for _, f := range fields {
		w.WriteString(fieldText(taken.takeName(Identifier(f.key)), f))
	}
	w.WriteString("}\n")
	return goType{text: name, isStrict: true, fields: fields}
}

// declareFields declares a struct that no schema describes, or any object where a name cannot be a tag.
func (w *typeWriter) declareFields(name, comment string, fields []field) {
	var keys []string
	for _, f := range fields {
		keys = append(keys, f.key)
	}
	w.names[name] = true
	if !canBeTags(keys) {
		fmt.Fprintf(w, "\n%stype %s map[string]any\n", commentText(comment, ""), name)
		return
	}
	w.writeStruct(name, comment, fields)
}

// fieldText returns a field of a struct by its name in Go.
func fieldText(name string, f field) string {
	tag := f.key
	if f.isOptional {
		tag += ",omitzero"
	} else if f.key == "-" {
		tag += ","
	}
	line := fmt.Sprintf("%s%s %s `json:%q`", f.comment, name, f.t.text, tag)
	if f.t.comment != "" {
		line += " // " + plainText(f.t.comment)
	}
	return line + "\n"
}

// canBeTags says whether the names of fields can stand in a tag, as encoding/json reads it.
func canBeTags(names []string) bool {
	return !slices.ContainsFunc(names, func(name string) bool { return !goschema.IsTagName(name) })
}
