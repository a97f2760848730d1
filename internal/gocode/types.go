package gocode

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// A goType is the Go type of the values of a JSON Schema.
type goType struct {
	text     string
	isNil    bool    // nil is among its values: a pointer, a slice, a map or any
	isOpen   bool    // while its declaration is written: what refers to it is within it
	isStrict bool    // it is a struct, or has parts that are: it holds no other fields
	fields   []field // of a struct whose declaration is written
	comment  string  // what the type does not say; "" is nothing
}

var (
	anything  = goType{text: "any", isNil: true}
	anyObject = goType{text: "map[string]any", isNil: true}
)

// orNil returns the type with nil among its values.
func (t goType) orNil() goType {
	if !t.isNil {
		t.text, t.isNil = "*"+t.text, true
	}
	return t
}

// A typeWriter declares the types of schemas. A schema is known by its root, which is a type's name, and by a JSON Pointer
// below that: the type of a place is declared once.
type typeWriter struct {
	strings.Builder
	names    scope
	roots    map[string]any
	known    map[string]goType // by root and pointer
	inside   map[string]bool   // those that something within them refers to
	called   map[string]string // those that have a name of their own
	declared map[string]bool   // the types that are written, by their names
}

// declareRoot declares the type of a schema by its name.
func (w *typeWriter) declareRoot(name string, schema any) {
	w.roots[name] = schema
	w.names[name] = true
	if t := w.typeAt(name, "#"); !w.declared[name] {
		w.known[name+"#"] = w.declareAs(name, t)
	}
}

// declareAs declares a type by a name, and returns it. A date-time is only given one more name: a type of its own would lack the methods
// that read and write it.
func (w *typeWriter) declareAs(name string, t goType) goType {
	says, is := "is as the schema of the definition says.", ""
	switch strings.TrimPrefix(t.text, "*") {
	case "map[string]any":
		says = "is any object."
	case "time.Time":
		is = "= "
	}
	w.declared[name] = true
	fmt.Fprintf(w, "\n// %s %s\ntype %s %s%s\n", name, says, name, is, t.text)
	t.text, t.comment = name, ""
	return t
}

// typeAt returns the type of the schema at a place, and declares it.
func (w *typeWriter) typeAt(root, pointer string) goType {
	key := root + pointer
	if t, ok := w.known[key]; ok {
		if t.isOpen {
			w.inside[key] = true
			return goType{text: "*" + t.text, isNil: true, isStrict: true}
		}
		return t
	}
	schema, ok := lookUp(w.roots[root], pointer)
	if !ok {
		return goType{text: "any", isNil: true, comment: "it refers to what the schema does not have"}
	}
	name := root
	if pointer != "#" {
		name = w.names.takeName(cmp.Or(w.called[key], root+nameOfPointer(pointer)))
	}
	w.known[key] = goType{text: name, isOpen: true}
	t := w.typeOf(schema, name, root, pointer)
	switch {
	case w.declared[name]:
	case w.inside[key]:
		t = w.declareAs(name, t)
	case name != root:
		delete(w.names, name) // nothing is declared by it
	}
	w.known[key] = t
	return t
}

// typeOf returns the type of a schema. A struct or an enumeration is declared by the name.
func (w *typeWriter) typeOf(schema any, name, root, pointer string) goType {
	m, ok := schema.(map[string]any)
	if !ok {
		return anything
	}
	if ref, ok := m["$ref"].(string); ok {
		if !strings.HasPrefix(ref, "#") || w.known[root+ref].isOpen && w.known[root+ref].text == name && root+ref == root+pointer {
			return goType{text: "any", isNil: true, comment: "it is described by " + ref}
		}
		return w.joinSiblings(w.typeAt(root, ref), m, name, root, pointer)
	}
	for _, several := range severals {
		if list, ok := m[several].([]any); ok {
			return w.joinSiblings(w.typeOfSeveral(several, list, root, pointer), m, name, root, pointer)
		}
	}
	kinds, hasNull := kindsOf(m)
	if len(kinds) > 1 {
		return goType{text: "any", isNil: true, comment: "one of " + strings.Join(kinds, ", ")}
	}
	kind := ""
	if len(kinds) == 1 {
		kind = kinds[0]
	}
	t := w.typeOfKind(kind, m, name, root, pointer)
	if hasNull {
		return t.orNil()
	}
	return t
}

// severals are the keywords of schemas that join others.
var severals = []string{"oneOf", "anyOf", "allOf"}

// typeOfSeveral returns the type of a schema that joins others: that of one, or of one and null.
func (w *typeWriter) typeOfSeveral(keyword string, list []any, root, pointer string) goType {
	only, others := -1, 0
	for i, s := range list {
		if m, ok := s.(map[string]any); !ok || m["type"] != "null" {
			only = i
			others++
		}
	}
	if others != 1 {
		return goType{text: "any", isNil: true, comment: fmt.Sprintf("%s of %d schemas", keyword, len(list))}
	}
	t := w.typeAt(root, pointer+"/"+keyword+"/"+strconv.Itoa(only))
	if len(list) > 1 {
		return t.orNil()
	}
	return t
}

// kindsOf returns the types that a schema allows beside null, by the names of JSON Schema.
func kindsOf(m map[string]any) (kinds []string, hasNull bool) {
	list, ok := m["type"].([]any)
	if !ok {
		list = []any{m["type"]}
	}
	for _, k := range list {
		switch k, _ := k.(string); k {
		case "null":
			hasNull = true
		case "":
		default:
			kinds = append(kinds, k)
		}
	}
	if m["type"] == nil {
		switch {
		case m["properties"] != nil:
			kinds = []string{"object"}
		case m["items"] != nil:
			kinds = []string{"array"}
		case isTexts(m["enum"]):
			kinds = []string{"string"}
		}
		hasNull = listsValue(m["enum"], nil)
	}
	return kinds, hasNull
}

func (w *typeWriter) typeOfKind(kind string, m map[string]any, name, root, pointer string) goType {
	switch kind {
	case "object":
		return w.typeOfObject(m, name, root, pointer)
	case "array":
		if m["prefixItems"] != nil || m["items"] == nil {
			return goType{text: "[]any", isNil: true}
		}
		item := w.typeAt(root, pointer+"/items")
		return goType{text: "[]" + item.text, isNil: true, isStrict: item.isStrict}
	case "string":
		switch {
		case isTexts(m["enum"]):
			return w.declareEnum(m, name)
		case m["format"] == "date-time":
			return goType{text: "time.Time"}
		case m["contentEncoding"] == "base64":
			return goType{text: "[]byte", isNil: true}
		}
		return goType{text: "string"}
	case "integer":
		return goType{text: "int64"}
	case "number":
		return goType{text: "float64"}
	case "boolean":
		return goType{text: "bool"}
	default:
		return anything
	}
}

// isTexts says whether an enumeration has texts, and beside them null at most.
func isTexts(enum any) bool {
	list, _ := enum.([]any)
	texts := 0
	for _, v := range list {
		switch v.(type) {
		case string:
			texts++
		case nil:
		default:
			return false
		}
	}
	return texts > 0
}

// declareEnum declares a type of texts, and its values.
func (w *typeWriter) declareEnum(m map[string]any, name string) goType {
	w.declared[name] = true
	fmt.Fprintf(w, "\n%stype %s string\n\n// The values of %s.\nconst (\n", commentText(m["description"], name+" is one of the texts below."), name, name)
	for _, v := range m["enum"].([]any) {
		if text, ok := v.(string); ok {
			fmt.Fprintf(w, "\t%s %s = %q\n", w.names.takeName(constantName(name, cmp.Or(text, "empty"))), name, text)
		}
	}
	w.WriteString(")\n")
	return goType{text: name}
}

// typeOfObject returns a map, or declares a struct.
func (w *typeWriter) typeOfObject(m map[string]any, name, root, pointer string) goType {
	properties, _ := m["properties"].(map[string]any)
	others := m["additionalProperties"]
	_, described := others.(map[string]any)
	if len(properties) == 0 && described && m["patternProperties"] == nil {
		value := w.typeAt(root, pointer+"/additionalProperties")
		return goType{text: "map[string]" + value.text, isNil: true, isStrict: value.isStrict}
	}
	if len(properties) == 0 || takesOthers(m) || !canBeTags(keysOf(m)) {
		return anyObject
	}
	t := goType{isStrict: true, fields: w.fieldsOf(m, root, pointer)}
	if t.lacksFieldsOf(laterParts(m)) {
		return anyObject
	}
	return w.writeStruct(name, m["description"], t.fields)
}

// commentText returns a description as a comment of its own lines.
func commentText(description any, without string) string {
	text, _ := description.(string)
	if text = strings.TrimSpace(text); text == "" {
		text = without
	}
	if text == "" {
		return ""
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(strings.TrimRight("// "+plainText(line), " ") + "\n")
	}
	return b.String()
}

// plainText returns a text without what may not stand in a comment.
func plainText(s string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, s))
}

// lookUp returns the part of a schema at a JSON Pointer in a fragment.
func lookUp(schema any, pointer string) (any, bool) {
	for step := range strings.SplitSeq(strings.TrimPrefix(pointer, "#"), "/") {
		if step == "" {
			continue
		}
		switch at := schema.(type) {
		case map[string]any:
			part, ok := at[strings.NewReplacer("~1", "/", "~0", "~").Replace(step)]
			if !ok {
				return nil, false
			}
			schema = part
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(at) {
				return nil, false
			}
			schema = at[i]
		default:
			return nil, false
		}
	}
	return schema, true
}

func escapePointer(key string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(key) }

// nameOfPointer returns what the name of a type has for its place below a root.
func nameOfPointer(pointer string) string {
	name := ""
	steps := strings.Split(strings.TrimPrefix(pointer, "#"), "/")
	for i := 1; i < len(steps); i++ {
		switch steps[i] {
		case "properties", "$defs", "definitions":
			if i++; i < len(steps) {
				name += strings.TrimPrefix(Identifier("x "+strings.NewReplacer("~1", "/", "~0", "~").Replace(steps[i])), "X")
			}
		case "items":
			name += "Item"
		case "additionalProperties":
			name += "Value"
		}
	}
	return name
}
