package main

import (
	"fmt"
	"strings"

	"github.com/pawl-run/pawl/internal/diagram"
)

// wrapIndent is how much further in the lines begin that a wrapped one goes on with.
const wrapIndent = 4

// printProse writes lines that are read, not copied: a line wider than the console goes on in lines below.
func (con *console) printProse(format string, args ...any) {
	for _, line := range strings.Split(printableLines(fmt.Sprintf(format, args...)), "\n") {
		for _, part := range wrapLine(line, con.Width) {
			fmt.Fprintln(con.Out, part)
		}
	}
}

// wrapLine breaks a line into some of at most so many columns, 0 for any, at the spaces between
// words, or within a word that is wider than a line. A command to be tried, which is copied, stays
// whole. The lines that follow begin further in, so that the eye sees where the next finding
// begins.
func wrapLine(line string, width int) (out []string) {
	if width <= 0 || diagram.CountColumns(line) <= width || strings.HasPrefix(strings.TrimLeft(line, " "), "try: ") {
		return []string{line}
	}
	indent := len(line) - len(strings.TrimLeft(line, " "))
	hang := ""
	if width >= 2*wrapIndent { // so that a letter of two columns has room behind it
		hang = strings.Repeat(" ", min(indent+wrapIndent, width/2))
	}
	for diagram.CountColumns(line) > width {
		head := cutText(line, width)
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

// holdsTable reports whether the console has room for so many columns, each at its least.
func (con *console) holdsTable(rows [][]string) bool {
	total := columnGap * (len(rows[0]) - 1)
	for i := range rows[0] {
		widest := 0
		for _, row := range rows {
			widest = max(widest, diagram.CountColumns(printableText(row[i])))
		}
		total += min(widest, leastColumn)
	}
	return con.Width == 0 || total <= con.Width
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
			con.printLine("  %s%s  %s", name, strings.Repeat(" ", names-diagram.CountColumns(name)), cell)
		}
	}
}
