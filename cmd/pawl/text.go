package main

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/pawl-run/pawl/internal/columns"
	"github.com/pawl-run/pawl/internal/diagram"
)

// zoneOf returns an instant in the zone in which it is shown.
func (f dirFlag) zoneOf(at time.Time) time.Time {
	if f.UTC {
		return at.UTC()
	}
	return at.Local()
}

// instantText returns an instant for people: without the day if that is today's; "" of none.
func (f dirFlag) instantText(at, now time.Time) string {
	if at.IsZero() {
		return ""
	}
	at, now = f.zoneOf(at), f.zoneOf(now)
	if at.Format(time.DateOnly) == now.Format(time.DateOnly) {
		return at.Format(time.TimeOnly)
	}
	return at.Format(time.DateTime)
}

// spanText returns a time that has passed in its two largest units. Less than 0, which clocks of
// two machines can give, is 0s; from 100 days on the hours are left out.
func spanText(d time.Duration) string {
	const day = 24 * time.Hour
	switch d = max(d, 0); {
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", d/time.Minute, d%time.Minute/time.Second)
	case d < day:
		return fmt.Sprintf("%dh%02dm", d/time.Hour, d%time.Hour/time.Minute)
	case d < 100*day:
		return fmt.Sprintf("%dd%02dh", d/day, d%day/time.Hour)
	}
	return fmt.Sprintf("%dd", d/day)
}

// tookText is spanText, and tells parts of a second apart.
func tookText(d time.Duration) string {
	if d < time.Second {
		return fmt.Sprintf("%dms", max(d, 0).Milliseconds())
	}
	return spanText(d)
}

// nextText says when time alone changes a run, "" if never. "due" is of a run whose alarm has
// passed and that nobody has woken, as in a directory without an engine.
func nextText(at, now time.Time) string {
	switch {
	case at.IsZero():
		return ""
	case !at.After(now):
		return "due"
	}
	return "in " + spanText(at.Sub(now))
}

// countText returns a number with commas, as 9,812.
func countText(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// pluralText returns a number with what is counted.
func pluralText(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return countText(n) + " " + what
}

// printableText returns a text on one line in which nothing moves the cursor, turns the order of letters or is hidden. Texts of runs come from
// inputs, tasks and strangers: an escape sequence among them could rewrite the screen of an operator, or hide a line of it. Everything that is
// written for people goes through it.
func printableText(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case r == utf8.RuneError || isUnprintable(r):
			return '\u00b7'
		}
		return r
	}, text)
}

// isUnprintable reports whether a terminal may do something else with r than show it.
func isUnprintable(r rune) bool { return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) }

// printableLines is printableText for a text of several lines.
func printableLines(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = printableText(lines[i])
	}
	return strings.Join(lines, "\n")
}

// valueText returns a value of the JSON model on one line.
func valueText(v any) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(v) != nil {
		return "?"
	}
	return printableText(strings.TrimSuffix(b.String(), "\n"))
}

// printLine writes a line of at most the width of the console.
func (con *console) printLine(format string, args ...any) {
	text := strings.TrimRight(printableText(fmt.Sprintf(format, args...)), " ")
	if con.Width > 0 {
		text = columns.Elide(text, con.Width)
	}
	fmt.Fprintln(con.Out, text)
}

// printSource says once, beside the answer, where it comes from: an engine that is live, or files, and of when. It goes on in lines below,
// and is cut nowhere.
func (con *console) printSource(source string) {
	for _, part := range columns.WrapLine(printableText(source), con.Width) {
		fmt.Fprintln(con.Errs, part)
	}
}

// printWhole writes a line that is to be copied, however wide it is. It is for keys, addresses and ids, which a cut would make useless.
func (con *console) printWhole(format string, args ...any) {
	fmt.Fprintln(con.Out, printableText(fmt.Sprintf(format, args...)))
}

// printTable writes rows below a head. Where they do not fit, columns without a text are left out, and the widest columns go on in lines below.
func (con *console) printTable(rows [][]string) {
	if con.Width > 0 && columns.TableWidth(columns.Widths(rows, diagram.CountColumns)) > con.Width {
		rows = columns.DropEmpty(rows)
	}
	con.printColumns(rows)
}

// printColumns is printTable with every column.
func (con *console) printColumns(rows [][]string) {
	for _, row := range rows {
		for i := range row {
			row[i] = printableText(row[i])
		}
	}
	widths := columns.Widths(rows, diagram.CountColumns)
	if con.Width > 0 && columns.TableWidth(widths) > con.Width {
		widths = columns.Fit(rows, con.Width)
	}
	for n, row := range rows {
		con.printRow(row, widths, n > 0)
	}
}

// belowLines bounds the lines that a text takes below its row.
const belowLines = 6

// printRow writes a row of a table, whose cells may take several lines. A sentence that has no room in its cell stands below the row,
// where it loses nothing.
func (con *console) printRow(row []string, widths []int, colored bool) {
	cells, height := make([][]string, len(row)), 1
	var below []string
	for i, cell := range row {
		if strings.Contains(cell, " ") && len(columns.Wrap(cell, widths[i], belowLines*con.Width)) > wrappedLines {
			below = append(below, cell)
			cell = ""
		}
		cells[i] = columns.Wrap(cell, widths[i], wrappedLines)
		height = max(height, len(cells[i]))
	}
	for k := range height {
		var b strings.Builder
		for i := range row {
			part := ""
			if k < len(cells[i]) {
				part = cells[i][k]
			}
			pad := strings.Repeat(" ", widths[i]-diagram.CountColumns(part)+columns.Gap)
			// The colour comes after the width is counted: its bytes take no columns. The head is never coloured.
			if colored {
				part = con.colorStatus(part)
			}
			b.WriteString(part + pad)
		}
		fmt.Fprintln(con.Out, strings.TrimRight(b.String(), " "))
	}
	const indent = "    "
	for _, text := range below {
		for _, part := range columns.Wrap(text, max(con.Width-len(indent), columns.Least), belowLines) {
			con.printLine("%s%s", indent, part)
		}
	}
}

// colorStatus returns the name of a status that needs somebody in a colour. Red is what has ended
// badly or cannot go on; yellow is what waits for somebody or for another attempt.
func (con *console) colorStatus(cell string) string {
	if !con.Color {
		return cell
	}
	switch cell {
	case "failed", "timed_out", "suspended":
		return "\x1b[31m" + cell + "\x1b[0m"
	case "parked", "retrying", "paused":
		return "\x1b[33m" + cell + "\x1b[0m"
	}
	return cell
}
