package inspector

import (
	"fmt"
	"unicode"
	"unicode/utf8"
)

// showControls returns a page whose texts have an escape such as \u202e, as in JSON, in place of each character that a browser does
// not draw but obeys, or leaves out: those that turn the direction of what stands behind them, also beyond their value, and controls
// other than tabs and ends of lines. Attributes stay as they are, since forms send them back. It counts on what html/template
// does: within an attribute or a text no < or > stands for itself.
//
// An id such as "a\u202e" would otherwise turn the text behind it around, and a reader might take one run for another. Everything
// is done on the finished page, in one place, so that no template can forget it. A page without such characters is returned as it is.
func showControls(page []byte) []byte {
	var out []byte
	kept, inTag := 0, false
	for i := 0; i < len(page); {
		c := page[i]
		switch c {
		case '<':
			inTag = true
		case '>':
			inTag = false
		}
		// Printable ASCII is nearly all of a page.
		if c >= ' ' && c < 0x7f {
			i++
			continue
		}
		r, n := utf8.DecodeRune(page[i:])
		if !inTag && isObeyed(r) {
			out = fmt.Appendf(append(out, page[kept:i]...), `\u%04x`, r)
			kept = i + n
		}
		i += n
	}
	if kept == 0 {
		return page
	}
	return append(out, page[kept:]...)
}

// isObeyed reports whether a browser does something other than to draw a character.
//
// Cc are controls, with DEL and those of Latin-1; Bidi_Control are the marks, embeddings, overrides and isolates of direction.
func isObeyed(r rune) bool {
	switch r {
	case '\t', '\n', '\r':
		return false
	}
	return unicode.In(r, unicode.Cc, unicode.Bidi_Control)
}
