// Package gocode writes Go for a definition: a package with the names and types of a definition, which lets a program that
// starts its runs be compiled against it, and the calls of package build that make the definition.
//
// The same definition gives the same bytes, and gofmt has nothing to change in them. Names of a definition may be any
// text: each becomes an identifier that no other name of the file has.
//
// A struct has the fields that its schema names, and pawl.Typed and pawl.Run refuse a value with others, although the schema
// takes them unless it says additionalProperties: false. A schema that describes them, by additionalProperties or
// unevaluatedProperties that are true or a schema, by patternProperties, in a part that is for some values only, like then, or by several
// schemas that cannot be joined, is a map or any, which take all.
package gocode
