package main

import (
	"bytes"
	"context"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testing/servers"
	"github.com/pawl-run/pawl/pg"
	"github.com/pawl-run/pawl/workflow"
)

// The exit statuses.
const (
	exitDone     = 0
	exitNo       = 1
	exitUnusable = 2
)

// waitTime is how long a server may take for its settings.
const waitTime = time.Minute

// runPatiently runs the command. On a busy machine the server may not answer in time: the command is repeated then, if it changes
// nothing, or the same when it is done again.
func runPatiently(ctx context.Context, args []string) (status int, text string) {
	once := slices.Contains(args, "-give-up") || slices.Contains(args, "-new")
	for late := time.Now().Add(waitTime); ; {
		var out bytes.Buffer
		status = program.RunArguments(ctx, args, &out, &out)
		if text = out.String(); once || !strings.Contains(text, "no answer in time") || time.Now().After(late) {
			return status, text
		}
	}
}

// The SQL that migrate prints makes all tables by psql, or none if a table of another program is in the way, or the text is cut off.
func TestPrintedMigration(t *testing.T) {
	servers.RequirePostgres(t)
	psql, err := servers.PostgresProgram("psql")
	require.NoError(t, err)
	s, err := servers.StartPostgres(nil)
	require.NoError(t, err)
	s.CloseAfter(t)
	url := s.URL("postgres")
	var printed bytes.Buffer
	require.Equal(t, exitDone, program.RunArguments(t.Context(), []string{"migrate", "-print", "-schema", "public"}, &printed, &printed))
	pipe := func(sql string) error {
		cmd := exec.CommandContext(t.Context(), psql, "--no-psqlrc", url)
		cmd.Stdin = strings.NewReader(sql)
		return cmd.Run()
	}
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(context.Background())) }()
	count := func() (tables int) {
		require.NoError(t, conn.QueryRow(t.Context(), `SELECT count(*) FROM pg_tables WHERE schemaname = 'public'`).Scan(&tables))
		return tables
	}
	_, err = conn.Exec(t.Context(), `CREATE TABLE public.blobs (id int)`)
	require.NoError(t, err)
	require.Error(t, pipe(printed.String()))
	require.Equal(t, 1, count())
	_, err = conn.Exec(t.Context(), `DROP TABLE public.blobs`)
	require.NoError(t, err)
	before, _, found := strings.Cut(printed.String(), "COMMIT")
	require.True(t, found)
	require.NoError(t, pipe(before))
	require.Zero(t, count())
	require.NoError(t, pipe(printed.String()))
	db, err := pg.Open(t.Context(), url, pg.Options{Schema: "public"})
	require.NoError(t, err)
	defer db.Close()
	_, err = db.OpenBackend(t.Context(), "orders")
	require.NoError(t, err)
}

// An operator makes the tables, asks how the server is, and begins a log anew that is gone, with the command alone.
func TestCommand(t *testing.T) {
	servers.RequirePostgres(t)
	s, err := servers.StartPostgres(nil)
	require.NoError(t, err)
	s.CloseAfter(t)
	url := s.URL("postgres")
	play := func(status int, args ...string) string {
		t.Helper()
		got, text := runPatiently(t.Context(), args)
		require.Equal(t, status, got, "%v: %s", args, text)
		return text
	}
	require.Contains(t, play(exitDone, "doctor", "-db", url), "note: there are no tables of pawl: call Migrate\nthe server keeps what it acknowledges")
	play(exitDone, "migrate", "-db", url)
	require.Contains(t, play(exitDone, "migrate", "-print", "-schema", "jobs", "-prefix", "p_"), `CREATE TABLE "jobs".p_entries (`)
	require.Contains(t, play(exitUnusable, "migrate", "-print", "-schema", "Jobs"), "pawl-pg: invalid")
	play(exitUnusable)
	play(exitUnusable, "other")
	play(exitUnusable, "recover", "-db", url)
	require.Contains(t, play(exitDone, "help"), "Usage: pawl-pg doctor")

	dir := filepath.Join(t.TempDir(), "data")
	open := func() (*pawl.Engine, func()) {
		db, err := pg.Open(t.Context(), url, pg.Options{})
		require.NoError(t, err)
		b, err := db.OpenBackend(t.Context(), "orders")
		require.NoError(t, err)
		log, err := b.NewLog(t.Context())
		require.NoError(t, err)
		e, err := pawl.Open(t.Context(), dir, pawl.Options{Durability: pawl.ProcessCrash, Blobs: b.Blobs, Remote: pawl.RemoteOptions{Log: log, Bases: b.Bases}})
		require.NoError(t, err)
		return e, func() {
			require.NoError(t, e.Close(context.Background()))
			db.Close()
		}
	}
	e, closeAll := open()
	def, err := workflow.ParseYAML([]byte("name: w\nstart: a\nnodes: [{id: a}]\n"))
	require.NoError(t, err)
	_, err = e.Run(t.Context(), workflow.Run{ID: "r", Definition: def}, nil)
	require.NoError(t, err)
	closeAll()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), `DELETE FROM pawl.entries`)
	require.NoError(t, err)
	require.NoError(t, conn.Close(t.Context()))
	require.Contains(t, play(exitUnusable, "recover", "-db", url, "-name", "order", dir), `there is no log "order" among ["orders"]`)
	require.Contains(t, play(exitUnusable, "recover", "-db", url, "-name", "order", "-give-up", "0", dir), "-new makes it")
	db, err := pg.Open(t.Context(), url, pg.Options{})
	require.NoError(t, err)
	defer db.Close()
	logs, err := db.ListLogs(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"orders"}, logs, "a wrong name makes nothing")
	play(exitNo, "recover", "-db", url, "-name", "orders", dir)
	play(exitNo, "recover", "-db", url, "-name", "moved", "-new", dir)
	logs, err = db.ListLogs(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"moved", "orders"}, logs)
	play(exitDone, "recover", "-db", url, "-name", "orders", "-give-up", "0", dir)
	e, closeAll = open()
	out, err := e.Wait(t.Context(), "r")
	require.NoError(t, err)
	require.Equal(t, workflow.RunCompleted, out.Status)
	closeAll()

	require.NoError(t, s.Reload(map[string]string{"fsync": "off"}))
	require.Eventually(t, func() bool {
		var text bytes.Buffer
		return program.RunArguments(t.Context(), []string{"doctor", "-db", url}, &text, &text) == exitNo
	}, waitTime, waitTime/1000)
}
