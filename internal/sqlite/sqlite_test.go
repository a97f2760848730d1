package sqlite_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/sqlite"
)

const (
	create = `CREATE TABLE t (a INTEGER, b TEXT, c BLOB) STRICT`
	insert = `INSERT INTO t VALUES (?, ?, ?)`
	list   = `SELECT a, b, c FROM t ORDER BY a`
)

func memory(t testing.TB) *sqlite.Conn {
	c, err := sqlite.Open(sqlite.Memory, `PRAGMA page_size=1024; PRAGMA application_id=7; PRAGMA user_version=3;`)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	require.NoError(t, c.Script(create))
	return c
}

func TestExecAndEach(t *testing.T) {
	c := memory(t)
	for i := range int64(3) {
		n, err := c.Exec(insert, i, "x\x00y", []byte{byte(i)})
		require.NoError(t, err)
		require.EqualValues(t, 1, n)
	}
	_, err := c.Exec(insert, nil, nil, nil)
	require.NoError(t, err)
	var rows []int64
	err = c.Each(list, func(r *sqlite.Row) error {
		if r.Null(0) {
			require.Zero(t, r.Int(0))
			require.Zero(t, r.Text(1))
			require.Nil(t, r.Bytes(2))
			return nil
		}
		require.Equal(t, "x\x00y", r.Text(1))
		require.Equal(t, []byte{byte(r.Int(0))}, append([]byte{}, r.Bytes(2)...))
		rows = append(rows, r.Int64(0))
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, []int64{0, 1, 2}, rows)
}

func TestEachEndsAtAnError(t *testing.T) {
	c := memory(t)
	for i := range int64(2) {
		_, err := c.Exec(insert, i, "x", nil)
		require.NoError(t, err)
	}
	stop := errors.New("stop")
	require.ErrorIs(t, c.Each(list, func(*sqlite.Row) error { return stop }), stop)
	require.ErrorContains(t, c.Each(list, func(r *sqlite.Row) error { r.Text(0); return nil }), "column a")
	found, err := c.One(list, func(r *sqlite.Row) error { require.Zero(t, r.Int(0)); return nil })
	require.NoError(t, err)
	require.True(t, found)
}

func TestSerializeSeesTheOpenTransaction(t *testing.T) {
	c := memory(t)
	require.NoError(t, c.Script(`BEGIN`))
	_, err := c.Exec(insert, int64(1), "x", nil)
	require.NoError(t, err)
	data, err := c.Serialize()
	require.NoError(t, err)
	require.NoError(t, c.Script(`ROLLBACK`))
	h, ok := sqlite.ParseHeader(data)
	require.True(t, ok)
	require.Equal(t, sqlite.Header{PageSize: 1024, UserVersion: 3, ApplicationID: 7}, h)

	other, err := sqlite.Open(sqlite.Memory, "")
	require.NoError(t, err)
	defer func() { require.NoError(t, other.Close()) }()
	require.NoError(t, other.Deserialize(data))
	n := 0
	require.NoError(t, other.Each(list, func(*sqlite.Row) error { n++; return nil }))
	require.Equal(t, 1, n)
	require.NoError(t, c.Each(list, func(*sqlite.Row) error { n++; return nil }))
	require.Equal(t, 1, n)
}

func TestOpenNeverCreates(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a?b#c %41.db")
	_, err := sqlite.Open(path, `PRAGMA user_version`)
	require.Error(t, err)
	_, err = os.Lstat(path)
	require.ErrorIs(t, err, os.ErrNotExist)

	data, err := memory(t).Serialize()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, data, 0o600))
	c, err := sqlite.Open(path, `PRAGMA locking_mode=EXCLUSIVE; PRAGMA journal_mode=WAL;`)
	require.NoError(t, err)
	_, err = c.Exec(insert, int64(1), "x", nil)
	require.NoError(t, err)
	_, err = sqlite.Open(path, `PRAGMA busy_timeout=0; SELECT * FROM t;`)
	require.True(t, sqlite.IsBusy(err), "%v", err)
	require.NoError(t, c.Close())
}

func TestErrors(t *testing.T) {
	c := memory(t)
	require.NoError(t, c.Script(`PRAGMA max_page_count=4`))
	var err error
	for i := int64(0); err == nil; i++ {
		_, err = c.Exec(insert, i, "x", make([]byte, 500))
	}
	require.True(t, sqlite.IsFull(err), "%v", err)
	path := filepath.Join(t.TempDir(), "x.db")
	require.NoError(t, os.WriteFile(path, make([]byte, 4096), 0o600))
	_, err = sqlite.Open(path, `SELECT * FROM sqlite_schema`)
	require.True(t, sqlite.IsDamaged(err), "%v", err)
	require.False(t, sqlite.IsFull(nil))
	_, ok := sqlite.ParseHeader(make([]byte, 100))
	require.False(t, ok)
}

func TestOpenReadOnlyLeavesTheLog(t *testing.T) {
	log, _ := hotWAL(t)
	path := filepath.Join(t.TempDir(), "x.db")
	data, err := memory(t).Serialize()
	require.NoError(t, err)
	data[18], data[19] = 2, 2 // as a database with a log is marked
	require.NoError(t, os.WriteFile(path, data, 0o600))
	require.NoError(t, os.WriteFile(path+"-wal", log, 0o600))
	c, err := sqlite.OpenReadOnly(path, "")
	require.NoError(t, err)
	n := 0
	require.NoError(t, c.Each(list, func(*sqlite.Row) error { n++; return nil }))
	require.Equal(t, 10, n)
	_, err = c.Exec(insert, int64(1), "", nil)
	require.Error(t, err)
	require.NoError(t, c.Close())
	for name, want := range map[string][]byte{path: data, path + "-wal": log} {
		got, err := os.ReadFile(name)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}
