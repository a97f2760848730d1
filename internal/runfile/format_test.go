package runfile

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/sqlite"
)

// The page on the format has each table and view; file.sql, to which it leads, has their columns.
func TestFormatPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/format.md")
	require.NoError(t, err)
	db, err := sqlite.Open(sqlite.Memory, "")
	require.NoError(t, err)
	defer db.Close()
	require.NoError(t, db.Script(fileSchema))
	var tables []string
	require.NoError(t, db.Each("SELECT name FROM sqlite_schema WHERE type IN ('table', 'view') ORDER BY name", func(r *sqlite.Row) error {
		tables = append(tables, r.Text(0))
		return nil
	}))
	require.Len(t, tables, len(objects))
	for _, table := range tables {
		require.Regexp(t, "(?m)^\\| `"+table+"`(?: \\(a view\\))? \\| ", string(page), "docs/format.md lacks the row of %s", table)
	}
	require.Contains(t, string(page), "](../internal/runfile/file.sql)")
}

// Each column has its explanation in file.sql, to which the page leads.
func TestColumnsAreExplained(t *testing.T) {
	table, column := "", regexp.MustCompile(`^  ([a-z]+)\s+(INTEGER|TEXT|BLOB)\b`)
	explained := map[string]int{}
	for line := range strings.Lines(fileSchema) {
		if name, ok := strings.CutPrefix(line, "CREATE TABLE "); ok {
			table, _, _ = strings.Cut(name, " ")
		}
		if c := column.FindStringSubmatch(line); c != nil {
			_, text, _ := strings.Cut(line, " -- ")
			require.NotEmpty(t, strings.TrimSpace(text), "%s.%s", table, c[1])
			explained[table]++
		}
	}
	for _, x := range allTables {
		require.Equal(t, x.columns, explained[x.name], x.name)
	}
}

// The schema of a file leads to that page, and says which tables have no rows, in less than a page.
func TestSchemaLeadsToThePage(t *testing.T) {
	data, err := new(Builder).Build(nil, func(to Target) error { return nil })
	require.NoError(t, err)
	db, err := sqlite.Open(sqlite.Memory, "")
	require.NoError(t, err)
	defer db.Close()
	require.NoError(t, db.Deserialize(data))
	views := 0
	require.NoError(t, db.Each("SELECT type, name, sql FROM sqlite_schema", func(r *sqlite.Row) error {
		if r.Text(0) == "view" && r.Text(1) != "paths" {
			views++
			require.True(t, strings.HasSuffix(r.Text(2), noRows), r.Text(2))
		}
		return nil
	}))
	require.Equal(t, len(allTables), views)
	require.Contains(t, objects[0].SQL, hint)
	require.Less(t, len(hint)+len(allTables)*len(noRows), smallPage)
}
