package workflow

import "strings"

var pointerEscaper = strings.NewReplacer("~", "~0", "/", "~1", "%", "%25")

// escapePointer returns name as a segment of a JSON pointer in the fragment of
// a URI (RFC 6901, 6).
func escapePointer(name string) string { return pointerEscaper.Replace(name) }
