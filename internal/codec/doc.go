// Package codec is the text form of sealed unions: the decisions and messages
// of the journal. It is a file format.
//
// A variant is one line of JSON: an object whose first member is its kind, the
// name of its Go type, and whose others are its fields in the order of the
// type, named by their json tags.
//
//	{"kind":"CreateToken","token":{"id":7,"node":"quote","due":1714564800000}}
//
// The rules of the format:
//
//   - A field that is zero is left out, and a missing field is zero. An empty
//     list or map is not zero: only a nil one is left out.
//   - A field that the type does not have is refused, and so is one that comes
//     twice: the file is damaged or of a newer version.
//   - A [time.Time] is an integer of milliseconds since the Unix epoch, a
//     [time.Duration] one of nanoseconds. Maps are written in key order.
//   - A field of type any, map[string]any or []any holds a value of the engine
//     in canonical JSON. If that takes more than [InlineLimit] bytes, it is
//     kept outside, once, and the field holds its SHA-256 under a name with @
//     at the end: {"output@":"9f86d0..."}. See [Values] and [Lookup].
//
// Renaming a type or a tag therefore changes the format of files that exist.
package codec
