package main

import (
	"fmt"
	"strings"

	"github.com/pawl-run/pawl/internal/columns"
	"github.com/pawl-run/pawl/internal/diagram"
)

// printProse writes lines that are read, not copied: a line wider than the console goes on in lines below.
func (con *console) printProse(format string, args ...any) {
	for _, line := range strings.Split(printableLines(fmt.Sprintf(format, args...)), "\n") {
		for _, part := range columns.WrapLine(line, con.Width) {
			fmt.Fprintln(con.Out, part)
		}
	}
}

// wrappedLines bounds the lines of one cell of a table, and of the particulars of an event.
const wrappedLines = 3

// printItems writes a list behind what it is of, and goes on in lines below between its items.
func (con *console) printItems(of string, items []string) {
	line, hang := of, strings.Repeat(" ", diagram.CountColumns(of))
	for i, item := range items {
		next := line + strings.Repeat(" ", columns.Gap) + item
		if con.Width > 0 && i > 0 && diagram.CountColumns(printableText(next)) > con.Width {
			con.printLine("%s", line)
			next = hang + strings.Repeat(" ", columns.Gap) + item
		}
		line = next
	}
	con.printLine("%s", line)
}

// printBeside writes a text beside what it is of. A text that is too long for the line goes on below, at the same
// column.
func (con *console) printBeside(of, text string) {
	of += strings.Repeat(" ", columns.Gap)
	hang := diagram.CountColumns(of)
	if con.Width == 0 || con.Width < hang+columns.Least {
		con.printLine("%s%s", of, text)
		return
	}
	for _, part := range columns.Wrap(printableText(text), con.Width-hang, wrappedLines) {
		con.printLine("%s%s", of, part)
		of = strings.Repeat(" ", hang)
	}
}

// holdsTable reports whether the console has room for so many columns, none narrower than its widest word.
func (con *console) holdsTable(rows [][]string) bool {
	least := columns.Widths(rows, func(cell string) int { return columns.WidestWord(printableText(cell)) })
	return con.Width == 0 || columns.TableWidth(least) <= con.Width
}

// printFields writes rows below a head one field a line, for a table that is too wide. pawl sql
// takes it where holdsTable says no: its columns are the user's, as many as the query has.
func (con *console) printFields(rows [][]string) {
	names := 0
	for _, name := range rows[0] {
		names = max(names, diagram.CountColumns(printableText(name)))
	}
	for n, row := range rows[1:] {
		con.printLine("row %d", n+1)
		for i, cell := range row {
			name := printableText(rows[0][i])
			con.printBeside("  "+name+strings.Repeat(" ", names-diagram.CountColumns(name)), cell)
		}
	}
}
