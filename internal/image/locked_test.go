package image

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/sqlite"
)

// TestThePageThatIsLocked: SQLite never uses the page at which the second GiB of a file begins. The files here begin
// shortly before it, with a hole, so that nothing is written but what is about it.
func TestThePageThatIsLocked(t *testing.T) {
	for _, page := range []int{512, 4096} {
		for before := range 12 {
			path := filepath.Join(t.TempDir(), "large.db")
			f, err := os.Create(path)
			require.NoError(t, err)
			s := NewStream(f, page)
			require.NoError(t, s.writeChunk())
			s.before = lockedAt - int64(before*page)
			const rows = 100
			text := func(n int64) string { return strings.Repeat(fmt.Sprint(n), 300*int(n%7)) } // some have pages of their own
			require.NoError(t, s.WriteObject(&Object{Type: "table", Name: "t", SQL: "CREATE TABLE t (a)"}, func(to *TableWriter) error {
				for n := range int64(rows) {
					if err := to.Add(n+1, AppendRecord(nil, []Value{Text(text(n))})); err != nil {
						return err
					}
				}
				return nil
			}))
			require.NoError(t, s.Finish(Header{}))
			require.NoError(t, f.Close())
			db, err := sqlite.OpenReadOnly(path, ``)
			require.NoError(t, err)
			n := int64(0)
			require.NoError(t, db.Each(`SELECT a FROM t ORDER BY rowid`, func(r *sqlite.Row) error {
				if r.Text(0) != text(n) {
					return fmt.Errorf("row %d differs", n)
				}
				n++
				return nil
			}))
			require.EqualValues(t, rows, n)
			require.NoError(t, db.Close())
		}
	}
}
