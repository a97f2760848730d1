// Package goschema derives JSON Schemas from Go types, and says where a value does not fit one.
//
// A schema describes a type as encoding/json reads and writes it: names and omissions from the json
// tag, embedded structs, time.Time as a text, bytes as base64, a type that says its own JSON as
// anything. A type that says its own text is a text where encoding/json is sure to ask it: in
// [OfInput] by UnmarshalText, and elsewhere by MarshalText. Two tags of a field are this package's:
// doc is its description, and enum lists its values, separated by commas:
//
//	type Order struct {
//		Number string   `json:"number" doc:"as printed on the bill"`
//		Speed  string   `json:"speed,omitzero" enum:"slow,fast"`
//		Lines  []Line   `json:"lines"`
//		Note   *string  `json:"note"`
//	}
//
// A field is required unless it may be absent: it has omitempty or omitzero, or it is a pointer, a map,
// a slice or an interface. A null counts as absent. Names match as encoding/json matches them: the
// exact one first, then without regard to case.
//
// [Of] walks a type once, when a handler is made; a part that JSON cannot represent, such as a channel, is an error
// that names the field. A type that holds itself is described once, in $defs. [Schema.Check] walks a value. A Schema marshals to the JSON Schema (2020-12)
// that package workflow takes, with the Go type and field of each part as x-go.
package goschema
