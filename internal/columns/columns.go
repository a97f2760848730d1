// Package columns fits texts and tables into so many columns of a terminal. A wide letter takes two of them.
//
// The package is pure: no clock, no I/O, no randomness.
package columns

import (
	"slices"
	"strings"

	"github.com/pawl-run/pawl/internal/diagram"
)

// Elide returns a text of at most so many columns: a text that is too wide lacks its middle.
// Ids and messages tell most by their beginning and their end. Columns are counted as a terminal
// shows them: a wide letter takes two.
func Elide(text string, most int) string {
	if diagram.CountColumns(text) <= most {
		return text
	}
	if most < 2 {
		return Cut(text, most)
	}
	end := []rune(text)
	slices.Reverse(end)
	end = []rune(Cut(string(end), most-most/2-1))
	slices.Reverse(end)
	return Cut(text, most/2) + "…" + string(end)
}

// Cut returns the beginning of a text, of at most so many columns. A letter that would only
// half fit is left out, so the text may be one column narrower.
func Cut(text string, most int) string {
	for i, r := range text {
		if most -= diagram.CountColumns(string(r)); most < 0 {
			return text[:i]
		}
	}
	return text
}

// Wrap breaks a text into lines of at most so many columns, behind a space or a comma where there is one. A text that
// would take more lines than most lacks its middle.
func Wrap(text string, width, most int) []string {
	lines := breakText(text, width)
	for n := most * width; len(lines) > most && n > width; n -= width/4 + 1 {
		lines = breakText(Elide(text, n), width)
	}
	if len(lines) > most {
		return []string{Elide(text, width)}
	}
	return lines
}

func breakText(text string, width int) (lines []string) {
	for diagram.CountColumns(text) > width {
		head := Cut(text, width)
		if head == "" {
			break // one letter is wider than a line
		}
		if text[len(head)] != ' ' {
			if cut := strings.LastIndexAny(head, " ,") + 1; cut > 0 {
				head = text[:cut]
			}
		}
		lines = append(lines, strings.TrimRight(head, " "))
		text = strings.TrimLeft(text[len(head):], " ")
	}
	return append(lines, text)
}

// WidestWord returns how wide the widest part of a text is that Wrap keeps whole.
func WidestWord(text string) (widest int) {
	for _, word := range strings.Fields(strings.ReplaceAll(text, ",", ", ")) {
		widest = max(widest, diagram.CountColumns(word))
	}
	return widest
}

// wrapIndent is how much further in the lines begin that a wrapped one goes on with.
const wrapIndent = 4

// WrapLine breaks a line into some of at most so many columns, 0 for any, at the spaces between
// words, or within a word that is wider than a line. A command to be tried, which is copied, stays
// whole. The lines that follow begin further in, so that the eye sees where the next finding
// begins.
func WrapLine(line string, width int) (out []string) {
	if width <= 0 || diagram.CountColumns(line) <= width || strings.HasPrefix(strings.TrimLeft(line, " "), "try: ") {
		return []string{line}
	}
	indent := len(line) - len(strings.TrimLeft(line, " "))
	hang := ""
	if width >= 2*wrapIndent { // so that a letter of two columns has room behind it
		hang = strings.Repeat(" ", min(indent+wrapIndent, width/2))
	}
	for diagram.CountColumns(line) > width {
		head := Cut(line, width)
		if len(head) == 0 {
			break // one letter is wider than the console
		}
		begin := len(head) - len(strings.TrimLeft(head, " "))
		if cut := strings.LastIndexByte(line[:min(len(line), len(head)+1)], ' '); cut > begin {
			head = line[:cut]
		}
		out = append(out, strings.TrimRight(head, " "))
		rest := strings.TrimLeft(line[len(head):], " ")
		if rest == "" {
			return out
		}
		line = hang + rest
	}
	return append(out, line)
}

// Gap is how far apart the columns of a table are, which are as wide as what stands in them.
const Gap = 2

// Least is how narrow a column becomes where a table has no room for them.
const Least = 8

// Widths returns how wide each column is, by a measure of its cells.
func Widths(rows [][]string, measure func(string) int) []int {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], measure(cell))
		}
	}
	return widths
}

// TableWidth returns how wide a table is.
func TableWidth(widths []int) int {
	total := Gap * (len(widths) - 1)
	for _, w := range widths {
		total += w
	}
	return total
}

// DropEmpty leaves out the columns in which nothing stands but the head.
func DropEmpty(rows [][]string) [][]string {
	widths := Widths(rows[1:], diagram.CountColumns)
	out := make([][]string, len(rows))
	for n, row := range rows {
		for i, cell := range row {
			if widths[i] > 0 {
				out[n] = append(out[n], cell)
			}
		}
	}
	return out
}

// Fit returns how wide the columns are where a table has no room for them. One column of the widest is taken at a
// time: first of those that can be broken between words, then of any.
func Fit(rows [][]string, width int) []int {
	widths := Widths(rows, diagram.CountColumns)
	for _, least := range [][]int{Widths(rows, WidestWord), make([]int, len(widths))} {
		for TableWidth(widths) > width {
			widest := -1
			for i, w := range widths {
				if w > max(least[i], Least) && (widest < 0 || w > widths[widest]) {
					widest = i
				}
			}
			if widest < 0 {
				break
			}
			widths[widest]--
		}
	}
	return widths
}
