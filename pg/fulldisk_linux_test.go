package pg_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/internal/testing/nodestrial"
	"github.com/pawl-run/pawl/internal/testing/servers"
	"github.com/pawl-run/pawl/pg"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/workflow"
)

// startOnSmallDisk starts a server whose files, with its WAL, are on a file system of their own, which fillDisk fills.
func startOnSmallDisk(t *testing.T, settings map[string]string) (s *servers.Postgres, disk string) {
	t.Helper()
	servers.RequirePostgres(t)
	disk, err := os.MkdirTemp("", "pawl-pg-disk-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.Remove(disk)) })
	harness.MountSmall(t, disk, 128<<20)
	require.NoError(t, os.Chmod(disk, 0o711)) // the server has a user of its own
	place := os.TempDir()                     // of all else
	t.Setenv("TMPDIR", disk)
	all := map[string]string{"max_wal_size": "48MB", "autovacuum": "off"}
	maps.Copy(all, settings)
	s = startServer(t, all)
	t.Setenv("TMPDIR", place)
	require.Contains(t, s.Dir, disk)
	return s, disk
}

// fillDisk takes all room of a file system, also that which the server would take meanwhile, and returns what gives it back.
func fillDisk(t *testing.T, disk string) (release func()) {
	f, err := os.Create(filepath.Join(disk, "filler"))
	require.NoError(t, err)
	for zeros := make([]byte, 64<<10); err == nil; {
		_, err = f.Write(zeros)
	}
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.NoError(t, f.Close())
	return func() { require.NoError(t, os.Remove(f.Name())) }
}

// The disk under the server is full: at first it refuses rows, then it ends for want of WAL. Calls fail with ErrNoSpace, or wait, and so do runs; when there is room
// again they go on. None that was acknowledged is lost, and no task is executed twice.
func TestAFullDiskOfTheServer(t *testing.T) {
	harness.InTurn(t, 2)
	s, disk := startOnSmallDisk(t, nil)
	url, dir := migrated(t, s.URL("postgres")), t.TempDir()
	var executed sync.Map // how often, by run
	count := func(id workflow.RunID) *atomic.Int64 {
		n, _ := executed.LoadOrStore(id, &atomic.Int64{})
		return n.(*atomic.Int64)
	}
	begun, hold := make(chan bool, 1), make(chan bool)
	e, closeAll, err := openRemote(t, url, filepath.Join(dir, "a"), func(_ context.Context, task pawl.Task) (any, error) {
		if count(task.Run).Add(1); task.Run == "held" {
			begun <- true
			<-hold
		}
		return string(task.Run), nil
	})
	require.NoError(t, err)
	def, err := workflow.ParseYAML([]byte("name: w\nstart: a\nnodes: [{id: a, task: work, output: {output.a: result}}]\n"))
	require.NoError(t, err)
	var ids []workflow.RunID
	start := func(id workflow.RunID) error {
		err := e.Start(t.Context(), workflow.Run{ID: id, Definition: def}, nil)
		if err == nil {
			ids = append(ids, id)
		}
		return err
	}
	require.NoError(t, start("held"))
	<-begun

	release := fillDisk(t, disk)
	n := 0
	next := func() workflow.RunID { return workflow.RunID(fmt.Sprint("run-", n)) }
	for err = start(next()); err == nil; err = start(next()) {
		n++
	}
	require.ErrorIs(t, err, pawl.ErrNoSpace)
	close(hold) // its outcome waits
	release()
	out, err := e.Wait(t.Context(), "held")
	require.NoError(t, err)
	require.NoError(t, out.Err())
	t.Logf("%d runs until rows had no room", n)

	release = fillDisk(t, disk)
	full, ended := make(chan bool), make(chan bool)
	go func() {
		defer close(ended)
		for after := 0; after < 20; n++ {
			for err := start(next()); err != nil; err = start(next()) {
				if !assert.ErrorIs(t, err, pawl.ErrNoSpace) {
					return
				}
				<-time.After(time.Millisecond)
			}
			select {
			case <-full:
				after++
			default:
			}
		}
	}()
	for err = nil; err == nil; err = executeOnce(t.Context(), url, `SELECT pg_logical_emit_message(true, '', 'of another one'), pg_switch_wal()`) {
	}
	release()
	require.NoError(t, s.Kill()) // the server may have recovered from it
	require.NoError(t, s.Start())
	close(full)
	<-ended
	t.Logf("the server has ended: %v", err)
	for _, id := range ids { // the next engine has another handler
		_, err := e.Wait(t.Context(), id)
		require.NoError(t, err)
	}
	closeAll()
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "a")))
	checkWriters(t, url)

	e, closeAll, err = openRemote(t, url, filepath.Join(dir, "b"), nodestrial.ReturnNumber)
	require.NoError(t, err)
	defer closeAll()
	for _, id := range ids {
		out, err := e.Wait(t.Context(), id)
		require.NoError(t, err)
		require.NoError(t, out.Err())
		require.Equal(t, string(id), out.Output["a"])
		require.EqualValues(t, 1, count(id).Load(), "%s was executed as often", id)
	}
	t.Logf("%d runs acknowledged", len(ids))
}

// A server that has no room for its WAL ends with an error that has the code of a full disk, although the commit may be on the disk: that of an entry at the end
// of a segment is, when what others have written meanwhile needs the next one. The log does not say then that the entry is not there.
func TestNoRoomForWAL(t *testing.T) {
	harness.InTurn(t, 2)
	for range 10 { // on a busy machine the server may write its buffers before the commit asks for that
		if fillWALBeside(t) {
			return
		}
	}
	t.Skip("the machine is too busy: the server has never met the full disk in a commit")
}

// fillWALBeside reports whether the server died in the commit of an entry, and not elsewhere, as other records of WAL were
// written.
func fillWALBeside(t *testing.T) bool {
	s, disk := startOnSmallDisk(t, map[string]string{"wal_buffers": "48MB", "wal_writer_delay": "10s", "wal_writer_flush_after": "1GB"}) // commits write WAL
	url := migrated(t, s.URL("postgres"))
	l := openLog(t, open(t, url, pg.Options{Configure: func(c *pgxpool.Config) { // commits wait for others
		c.ConnConfig.RuntimeParams["commit_delay"], c.ConnConfig.RuntimeParams["commit_siblings"] = "100000", "0"
	}}), "full")
	takeLog(t, l, "open")
	others, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	want := []string{"1 open"}
	release := fillDisk(t, disk)
	var failed error
	for begun := true; begun && failed == nil; {
		n := len(want) + 1
		if begun, failed = appendBeside(t, l, others, fmt.Append(nil, n)); begun {
			want = append(want, fmt.Sprint(n, " ", n))
		}
	}
	_ = others.Close(t.Context()) // it is dead
	release()
	require.NotErrorIs(t, failed, store.ErrNoSpace)
	var said *pgconn.PgError
	if !errors.As(failed, &said) || said.Severity != "PANIC" {
		return false
	}
	require.Equal(t, "53100", said.Code)
	require.NoError(t, s.Kill()) // the server may have recovered from it
	require.NoError(t, s.Start())
	t.Logf("%s entries are there, %d were appended", queryText(t, url, `SELECT count(*)::text FROM pawl.entries`), len(want))
	require.Eventually(t, func() bool {
		_, err := l.Append(t.Context(), fmt.Append(nil, len(want)))
		return err == nil
	}, time.Minute, time.Millisecond)
	requireEntries(t, l, want...)
	return true
}

// appendBeside appends an entry at the end of a segment of WAL while another connection writes what needs the next one, and
// returns with what the entry has failed. begun says whether it was tried: otherwise the server died before.
func appendBeside(t *testing.T, l *pg.Log, others *pgx.Conn, entry []byte) (begun bool, failed error) {
	if err := writeWAL(t, others, `16 * 1024 * 1024 - 200 * 1024 - file_offset`); err != nil {
		return false, nil
	}
	before, err := endOfWAL(t, others)
	if err != nil {
		return false, nil
	}
	ended := make(chan error, 1)
	go func() {
		_, err := l.Append(t.Context(), entry)
		ended <- err
	}()
	for at, last := before, ""; err == nil && (at == before || at != last); { // until the commit is there as well
		select {
		case failed = <-ended: // it was faster
			return true, failed
		case <-time.After(5 * time.Millisecond):
		}
		last = at
		at, err = endOfWAL(t, others)
	}
	if err == nil {
		_ = writeWAL(t, others, `400 * 1024`) // the entry says what became of it
	}
	return true, <-ended
}

// endOfWAL returns where the next record of WAL comes.
func endOfWAL(t *testing.T, conn *pgx.Conn) (lsn string, err error) {
	err = conn.QueryRow(t.Context(), `SELECT pg_current_wal_insert_lsn()::text`).Scan(&lsn)
	return lsn, err
}

// writeWAL writes so many bytes of WAL that no commit waits for, if they are positive. The expression may have file_offset, the place in the segment.
func writeWAL(t *testing.T, conn *pgx.Conn, bytes string) error {
	t.Helper()
	const sql = `SELECT CASE WHEN %[1]s > 0 THEN pg_logical_emit_message(false, '', repeat('x', %[1]s)) END FROM pg_walfile_name_offset(pg_current_wal_insert_lsn())`
	_, err := conn.Exec(t.Context(), fmt.Sprintf(sql, bytes))
	return err
}
