package diagram

import (
	"strings"
	"unicode"

	"golang.org/x/text/width"
)

// cleanText makes one line of text that terminals and readers of XML only show: what is
// not to be printed becomes a space.
//
// Definitions may be those of strangers: an escape sequence in an id must not reach a terminal, nor a control character an XML file.
func cleanText(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, strings.ToValidUTF8(text, "\uFFFD"))
}

// CountColumns returns how many columns text takes in a terminal and in a monospaced font.
func CountColumns(text string) int {
	n := 0
	for _, r := range text {
		n += runeColumns(r)
	}
	return n
}

// runeColumns returns 0 for marks that stand on the character before, 2 for wide characters of East Asia, and 1 for all others.
func runeColumns(r rune) int {
	if unicode.In(r, unicode.Mn, unicode.Me) {
		return 0
	}
	if k := width.LookupRune(r).Kind(); k == width.EastAsianWide || k == width.EastAsianFullwidth {
		return 2
	}
	return 1
}

// shorten returns text in at most so many columns, with an ellipsis if it was longer.
//
// The ellipsis takes one of the columns. It never cuts through a character.
func shorten(text string, most int) string {
	if CountColumns(text) <= most {
		return text
	}
	// One column is for the ellipsis.
	n := 1
	for i, r := range text {
		if n += runeColumns(r); n > most {
			return strings.TrimRight(text[:i], " ") + "…"
		}
	}
	return text
}

// padTo returns text with spaces up to so many columns.
func padTo(text string, n int) string {
	return text + strings.Repeat(" ", max(n-CountColumns(text), 0))
}
