package workflow

import "strings"

var pointerEscaper = strings.NewReplacer("~", "~0", "/", "~1")

// escapePointer returns name as a segment of a JSON pointer (RFC 6901).
func escapePointer(name string) string { return pointerEscaper.Replace(name) }
