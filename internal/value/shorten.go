package value

import "strings"

// Shorten returns a text as a message can quote it: at most so many bytes of it, with
// "..." behind them if that is not all.
//
// Messages quote what users wrote, and that may be of any size; a character that is cut in two
// is dropped.
func Shorten(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "..."
}
