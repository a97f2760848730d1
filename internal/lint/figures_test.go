package lint

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	rewriteFigures = flag.Bool("figures.rewrite", false, "write internal/testing/harness/figures.md anew from internal/testing/harness/figures.tsv")
	numeric        = regexp.MustCompile(`^[0-9][0-9,.]*( (ms|s))?$|^$`)
)

// renderFigures makes a page of Markdown of the data. A line that begins with #
// is a heading, one that begins with > a paragraph, and adjacent lines with
// tabs are a table whose first line is its header. Columns of numbers are
// aligned to the right.
func renderFigures(data string) string {
	var page strings.Builder
	page.WriteString("<!-- Generated from figures.tsv: go test ./internal/lint -run TestFigures -figures.rewrite -->\n\n")
	var table [][]string
	flush := func() {
		renderTable(&page, table)
		table = nil
	}
	for line := range strings.Lines(data) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case strings.HasPrefix(line, "#"):
			flush()
			page.WriteString(line + "\n\n")
		case strings.HasPrefix(line, "> "):
			flush()
			page.WriteString(strings.TrimPrefix(line, "> ") + "\n\n")
		case line == "":
			flush()
		default:
			table = append(table, strings.Split(line, "\t"))
		}
	}
	flush()
	return strings.TrimSuffix(page.String(), "\n")
}

func renderTable(page *strings.Builder, rows [][]string) {
	if len(rows) == 0 {
		return
	}
	row := func(cells []string) { page.WriteString("| " + strings.Join(cells, " | ") + " |\n") }
	row(rows[0])
	for i := range rows[0] {
		left := slices.ContainsFunc(rows[1:], func(r []string) bool { return !numeric.MatchString(r[i]) })
		page.WriteString(map[bool]string{true: "|---", false: "|--:"}[left])
	}
	page.WriteString("|\n")
	for _, r := range rows[1:] {
		row(r)
	}
	page.WriteString("\n")
}

// TestFigures compares internal/testing/harness/figures.md with the page made of internal/testing/harness/figures.tsv.
func TestFigures(t *testing.T) {
	harness := filepath.Join("..", "testing", "harness")
	data, err := os.ReadFile(filepath.Join(harness, "figures.tsv"))
	require.NoError(t, err)
	path := filepath.Join(harness, "figures.md")
	if *rewriteFigures {
		require.NoError(t, os.WriteFile(path, []byte(renderFigures(string(data))), 0o644))
	}
	page, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, renderFigures(string(data)), string(page), "internal/testing/harness/figures.md is not the page of internal/testing/harness/figures.tsv: run with -figures.rewrite")
}
