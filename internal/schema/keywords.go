package schema

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/pawl-run/pawl/internal/value"
)

// A place of a keyword says where its value has schemas.
type place int

const (
	nowhere  place = iota // its value is data
	itself                // its value is a schema, or a list of them
	eachName              // its value is an object whose values are schemas, under names that users choose
)

// keywords are those of all drafts that may be used, annotations included. JSON Schema allows any other key, and passes it over.
var keywords = map[string]place{
	"$schema": nowhere, "$id": nowhere, "id": nowhere, "$ref": nowhere, "$anchor": nowhere, "$dynamicRef": nowhere, "$dynamicAnchor": nowhere,
	"$recursiveRef": nowhere, "$recursiveAnchor": nowhere, "$vocabulary": nowhere, "$comment": nowhere,
	"$defs": eachName, "definitions": eachName, "properties": eachName, "patternProperties": eachName, "dependentSchemas": eachName, "dependencies": eachName,
	"allOf": itself, "anyOf": itself, "oneOf": itself, "not": itself, "if": itself, "then": itself, "else": itself,
	"items": itself, "prefixItems": itself, "additionalItems": itself, "unevaluatedItems": itself, "contains": itself,
	"additionalProperties": itself, "unevaluatedProperties": itself, "propertyNames": itself, "contentSchema": itself,
	"type": nowhere, "enum": nowhere, "const": nowhere, "required": nowhere, "dependentRequired": nowhere, "minProperties": nowhere, "maxProperties": nowhere,
	"minItems": nowhere, "maxItems": nowhere, "uniqueItems": nowhere, "minContains": nowhere, "maxContains": nowhere,
	"minLength": nowhere, "maxLength": nowhere, "pattern": nowhere, "format": nowhere, "contentEncoding": nowhere, "contentMediaType": nowhere,
	"minimum": nowhere, "maximum": nowhere, "exclusiveMinimum": nowhere, "exclusiveMaximum": nowhere, "multipleOf": nowhere,
	"title": nowhere, "description": nowhere, "default": nowhere, "deprecated": nowhere, "examples": nowhere, "readOnly": nowhere, "writeOnly": nowhere,
}

// An UnknownKeyword is a key of a schema that JSON Schema does not know.
type UnknownKeyword struct {
	Path string // RFC 6901 pointer into the schema
	Near string // the keyword that was probably meant; "" if none is near
}

// FindUnknown returns the unknown keywords of a document, normalized, that is to be a schema, at most so many, in the order of their
// places. It leaves out those that begin with x-, as annotations of one's own do, and does not look into the value of an unknown one.
func FindUnknown(doc any, most int) []UnknownKeyword {
	f := keywordFinder{most: most}
	f.visitSchema(doc)
	return f.found
}

// A keywordFinder walks over the places where a document has schemas.
type keywordFinder struct {
	found []UnknownKeyword
	most  int
	path  []string
}

// visitSchema looks at a schema, or at each of a list. true and false have no keywords.
func (f *keywordFinder) visitSchema(doc any) {
	switch doc := doc.(type) {
	case []any:
		for i, part := range doc {
			f.visitBelow(strconv.Itoa(i), part)
		}
	case map[string]any:
		for _, key := range sortedKeys(doc) {
			if len(f.found) == f.most {
				return
			}
			f.visitKeyword(key, doc[key])
		}
	}
}

// visitKeyword looks at one key of a schema, and at the schemas in its value.
func (f *keywordFinder) visitKeyword(key string, v any) {
	switch where, known := keywords[key]; {
	case !known && !strings.HasPrefix(key, "x-"):
		f.found = append(f.found, UnknownKeyword{value.Pointer(append(f.path, key)), nearKeyword(key)})
	case where == itself:
		f.visitBelow(key, v)
	case where == eachName:
		named, _ := v.(map[string]any)
		f.path = append(f.path, key)
		for _, name := range sortedKeys(named) {
			// In older drafts a dependency may be a list of names, which have no keywords.
			f.visitBelow(name, named[name])
		}
		f.path = f.path[:len(f.path)-1]
	}
}

// visitBelow looks at a schema that has a key of its own in what is around it.
func (f *keywordFinder) visitBelow(key string, doc any) {
	f.path = append(f.path, key)
	f.visitSchema(doc)
	f.path = f.path[:len(f.path)-1]
}

// A plainName is a keyword, and how plainKeyword has it.
type plainName struct{ name, plain string }

// plainNames are all keywords, sorted.
var plainNames = func() (all []plainName) {
	for _, name := range sortedKeys(keywords) {
		all = append(all, plainName{name, plainKeyword(name)})
	}
	return all
}()

// nearKeyword returns the keyword that was probably meant: written in another way, in another number, or with a slip of a letter.
func nearKeyword(key string) string {
	if len(key) > 2*len("unevaluatedProperties") {
		return ""
	}
	if key = plainKeyword(key); len(key) <= 2 {
		return ""
	}
	for _, k := range plainNames {
		if k.plain == key || value.NearlyEqual(k.plain, key) {
			return k.name
		}
	}
	return ""
}

var separators = strings.NewReplacer("_", "", "-", "")

// plainKeyword returns a keyword in small letters, in the singular, without the separators of other conventions.
func plainKeyword(key string) string {
	key = strings.ToLower(separators.Replace(key))
	if stem, ok := strings.CutSuffix(key, "ies"); ok {
		return stem + "y"
	}
	return strings.TrimSuffix(key, "s")
}

// types are those of JSON Schema.
var types = []string{"array", "boolean", "integer", "null", "number", "object", "string"}

// explainType replaces the error of a schema with a type that there is not. A type is one of a few words or a list of them, and the library
// tells the last of both: that a list was wanted.
func explainType(err error) error {
	var invalid *jsonschema.SchemaValidationError
	var root *jsonschema.ValidationError
	if !errors.As(err, &invalid) || !errors.As(invalid.Err, &root) {
		return err
	}
	wrong := findWrongType(root, nil)
	if wrong == nil {
		return err
	}
	got, hint := wrong.ErrorKind.(*kind.Enum).Got, ""
	word, _ := got.(string)
	for _, name := range types {
		if strings.EqualFold(word, name) || value.NearlyEqual(word, name) {
			hint = "; did you mean " + name + "?"
		}
	}
	at, text := value.Pointer(wrong.InstanceLocation), string(value.Encode(got))
	return fmt.Errorf("at '%s': %s is no type: there are %s%s", value.EscapeControls(value.Shorten(at, maxMessage)), value.Shorten(text, maxMessage), strings.Join(types, ", "), hint)
}

// findWrongType returns the first place where a schema has something else than the words of its metaschema, which enumerates nothing but
// types; nil without one. It leaves out a list, and looks at its elements.
func findWrongType(e, first *jsonschema.ValidationError) *jsonschema.ValidationError {
	if enum, ok := e.ErrorKind.(*kind.Enum); ok && (first == nil || slices.Compare(e.InstanceLocation, first.InstanceLocation) < 0) {
		if _, isList := enum.Got.([]any); !isList {
			first = e
		}
	}
	for _, cause := range e.Causes {
		first = findWrongType(cause, first)
	}
	return first
}
