package lint

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/testing/harness"
)

// A program with pawl links no driver of a database server, and neither does one with pawl over NATS; pawlsql has those that its
// host chooses.
func TestNoDriversOfDatabases(t *testing.T) {
	harness.InTurn(t, 4)
	drivers := []string{"github.com/jackc/", "github.com/go-sql-driver/", module + "/pawlsql", module + "/pg"}
	for folder, packages := range map[string][]string{
		".":       {"./..."},
		"nats":    {"./..."},
		"pawlsql": {"."},
	} {
		args := append([]string{"list", "-deps"}, packages...)
		out, err := goCommand(filepath.Join("..", "..", folder), args...)
		require.NoError(t, err)
		require.Contains(t, out, module+"\n")
		for path := range strings.FieldsSeq(out) {
			if folder == "pawlsql" && strings.HasPrefix(path, module+"/pawlsql") {
				continue
			}
			for _, d := range drivers {
				require.False(t, strings.HasPrefix(path, d), "%s: %s is linked", folder, path)
			}
		}
	}
	out, err := goCommand(filepath.Join("..", "..", "pawlsql"), "list", "-deps", "./...")
	require.NoError(t, err)
	require.Contains(t, out, "github.com/jackc/pgx/v5\n", "the list of drivers has names that nothing has")
}
