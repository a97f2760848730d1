package runfile

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/sqlite"
)

// The page on the format has the schema as it is, with all that is said of its columns.
func TestFormatPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/format.md")
	require.NoError(t, err)
	require.Contains(t, string(page), "```sql\n"+strings.TrimSpace(fileSchema)+"\n```\n")
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
