package store

import (
	"database/sql/driver"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/workflow"
)

// every adds one row to each table of pawl.db that has none yet.
func every(t testing.TB, d *Dir) {
	require.NoError(t, d.updateIndex(func(db *sqlite.Conn) error {
		for query, row := range map[string][]driver.Value{
			putApproval: index.RowWithCRC(int64(1), int64(1), "start", "sign", "null", int64(1), int64(0), nil),
			putDead:     index.RowWithCRC(int64(1), int64(1), "start", "t", int64(1), "{}", "null", int64(7)),
			putLabel:    index.RowWithCRC(int64(1), "customer", "7"),
			putPart:     {int64(1) << 20, []byte("part")},
		} {
			if _, err := db.Exec(query, row...); err != nil {
				return err
			}
		}
		return nil
	}))
}

// A pawl.db that no engine has closed is not opened if any row of it has changed, and
// Verify finds the change; some rows have a chain of checksums instead, which finds
// it when they are read. SQLite sees nothing wrong: indexes change with the rows.
func TestChangedRows(t *testing.T) {
	proven := []string{"log", "parts", "definitions"}
	path := t.TempDir()
	d, files := furnished(t, path)
	every(t, d)
	require.NoError(t, d.updateIndex(func(db *sqlite.Conn) error { // as a purge leaves it
		_, err := db.Exec(putPurged, index.RowWithCRC("sha256:gone")...)
		return err
	}))
	sound := crashed(t, path)
	require.NoError(t, d.Close())
	require.NoError(t, files.Close())
	again := open(t, crashed(t, sound))
	require.NoError(t, again.Close())

	type column struct{ table, name, kind string }
	var columns []column // that changes are found in
	db, err := sqlite.Open(filepath.Join(crashed(t, sound), indexFile), ``)
	require.NoError(t, err)
	require.NoError(t, db.Each(`SELECT m.name, c.name, c.type FROM sqlite_schema AS m JOIN pragma_table_info(m.name) AS c WHERE m.type = 'table'`,
		func(r *sqlite.Row) error {
			c := column{r.Text(0), r.Text(1), r.Text(2)}
			if !slices.Contains(proven, c.table) && c.table+"."+c.name != "outcomes.id" { // the index on keys has it as well
				columns = append(columns, c)
			}
			return nil
		}))
	require.NoError(t, db.Close())

	require.GreaterOrEqual(t, len(columns), 60)
	for _, c := range harness.SampleOfDay(t, harness.Figure(3, 2, 1), columns) {
		t.Run(c.table+" "+c.name, func(t *testing.T) {
			dir := crashed(t, sound)
			changeColumn(t, dir, c.table, c.name, c.kind)
			_, err := Open(dir, Options{})
			require.ErrorIs(t, err, ErrCorrupt)
			r, err := Verify(dir)
			require.NoError(t, err)
			require.Positive(t, r.Damage)
			require.Contains(t, r.Findings[0], ": "+indexFile+": ")
		})
	}
}

// changeColumn changes a column of one row, in the log, which stays.
func changeColumn(t *testing.T, dir, table, column, kind string) {
	db, err := sqlite.OpenKeeping(filepath.Join(dir, indexFile), `PRAGMA journal_mode=WAL`)
	require.NoError(t, err)
	to := map[string]string{
		"INTEGER": "coalesce(%s, 6) + 1", "ANY": "%s + 1", "TEXT": "coalesce(%s, '') || '1'", "BLOB": "coalesce(zeroblob(length(%s)), x'00')",
	}[kind]
	require.NotEmpty(t, to, kind)
	where := fmt.Sprintf("(SELECT %s FROM %s ORDER BY 1 DESC LIMIT 1)", column, table)
	changed, err := db.Exec(fmt.Sprintf("UPDATE %s SET %s = "+to+" WHERE %s IS %s", table, column, column, column, where))
	require.NoError(t, err)
	require.Positive(t, changed)
	require.NoError(t, db.Close())
}

// If a row has changed while the directory was open, a read of it fails with that, and
// so does a backup.
func TestChangedRowsAreNotTold(t *testing.T) {
	d, files := furnished(t, t.TempDir())
	every(t, d)
	change := func(text string) {
		require.NoError(t, d.readIndex(func(db *sqlite.Conn) error { return db.Script(text) }))
	}
	change(`UPDATE outcomes SET at = at + 1; UPDATE published SET version = 77; UPDATE approvals SET approved = 9;
		UPDATE dead_letters SET attempts = 9; UPDATE blob_refs SET hash = 'zz' WHERE num < 0; UPDATE runs SET status = 5 WHERE id = 'parts'`)
	_, paid := d.Outcome(t.Context(), "paid")
	_, latest := d.Published(t.Context(), "fan", 0)
	_, published := d.Published(t.Context(), "fan", 77)
	_, status := d.Head("parts")
	for _, err := range []error{paid, latest, published, status, d.Purge("parts", "")} {
		require.ErrorIs(t, err, ErrCorrupt)
	}
	for a, err := range d.Approvals(t.Context(), ApprovalFilter{}) {
		require.NoError(t, err)
		require.Equal(t, Approval{Run: a.Run, Workflow: a.Workflow, Token: a.Token, Node: a.Node, Damage: a.Damage}, a)
		require.ErrorContains(t, a.Damage, "an approval in the index is damaged")
	}
	for l, err := range d.DeadLetters(t.Context(), DeadLetterFilter{}) {
		require.NoError(t, err)
		require.Equal(t, DeadLetter{Run: l.Run, Workflow: l.Workflow, Token: l.Token, Node: l.Node, Damage: l.Damage}, l)
		require.ErrorContains(t, l.Damage, "a dead letter in the index is damaged")
	}
	info, err := d.Backup(t.Context(), filepath.Join(t.TempDir(), "backup"), files)
	require.NoError(t, err)
	require.Len(t, info.Damaged, 6)
	for _, err := range info.Damaged {
		require.ErrorIs(t, err, ErrCorrupt)
	}
}

// A reference that was an artifact's, and is another value's as well, has the checksum
// of what it became; and so has one that stays as it is.
func TestReferencesThatChange(t *testing.T) {
	d := open(t, t.TempDir())
	for _, artifact := range []int64{1, 0, 1} {
		require.NoError(t, d.updateIndex(func(db *sqlite.Conn) error {
			_, err := db.Exec(putRef, index.RowWithCRC("sha256:a", int64(1), artifact)...)
			return err
		}))
		require.NoError(t, d.readIndex(func(db *sqlite.Conn) error {
			wrong, err := index.ChangedRow(db)
			require.Empty(t, wrong)
			return err
		}))
	}
}

// A run is not purged by a row that does not tell which its files are.
func TestPurgeOfChangedRows(t *testing.T) {
	d := open(t, t.TempDir())
	for _, id := range []workflow.RunID{"r1", "r2"} {
		o := start(t, d, id)
		o.five(nil)
		require.NoError(t, o.file())
		require.NoError(t, o.run.Close())
	}
	h, err := d.Head("r1")
	require.NoError(t, err)
	require.NoError(t, d.readIndex(func(db *sqlite.Conn) error { return db.Script(`UPDATE runs SET nonce = nonce + 1 WHERE id = 'r1'`) }))
	require.ErrorIs(t, d.Purge("r1", ""), ErrCorrupt)
	require.FileExists(t, d.pathOf(h.File))
	require.NoError(t, d.Purge("r2", ""))
}
