// Command bench measures what keeps the steps of workflows, side by side in one run: an engine whose directory syncs, one whose log is in
// PostgreSQL, one whose log is a stream of three JetStream servers, and DBOS Go at the same PostgreSQL server and with a file of SQLite. The
// workloads are W1, W3, W4 and W10 of docs/performance.md, more callers until a server carries no more, and steps that return 900 KB.
//
//	go run -C pg/bench .                         starts the servers; with -standby a synchronous standby of PostgreSQL as well
//	go run -C pg/bench . -db postgres://...      at a PostgreSQL server that is there
//	go run -C pg/bench . -dir /data/bench        with all files on that disk
//	go run -C pg/bench . -bloat 60s              how much room entries take that come and go: by DELETE, and in partitions
//
// The servers that it starts are processes on this machine, and share its processors and its disk; all of them sync what they acknowledge.
//
// All sides do the same work: a chain of steps that do nothing and return nothing is kept step by step, each before the next one begins; a
// run is done when its end is kept. Each sample begins with an empty directory, schema or stream, and with short runs that are not counted. Sides take
// turns, in another order each round. Both sides at PostgreSQL have the same server, the same durability (synchronous_commit is on), the same
// driver (pgx), and a schema of their own.
//
// They do it in different ways. DBOS keeps a row for each step and each workflow, which other processes can read at once, and looks a step up before
// it executes it. pawl keeps one row for all that its runs have committed while the row before was under way; its state is in the directory as
// well, which one process has at a time. DBOS prepares its statements; pawl does with -prepared only, so that a pooler may stand between. DBOS
// has 20 connections, as it takes by itself, unless -dbos-connections says otherwise; pawl has four, mostly one of them in use.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-run/pawl/internal/testing/servers"
)

func main() {
	serveMember()
	if err := runBench(context.Background(), os.Args[1:], os.Stdout, listWorkloads); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// choices are what the flags choose.
type choices struct {
	db          string
	standby     bool
	rounds      int
	connections int
	prepared    bool
	bloat       time.Duration
	workloads   []workload
}

// runBench does what the arguments say. sizes returns the workloads, in small sizes if those are asked for.
func runBench(ctx context.Context, args []string, to io.Writer, sizes func(quick bool) []workload) error {
	var c choices
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.StringVar(&c.db, "db", "", "the `address` of a database, whose schema pawl_bench is dropped and made; a server is started without")
	flags.BoolVar(&c.standby, "standby", false, "start a synchronous standby as well")
	dir := flags.String("dir", "", "the `folder`, on the disk to be measured, for directories and servers; a temporary one by default")
	quick := flags.Bool("quick", false, "small sizes")
	only := flags.String("only", "", "the `workloads` to play, such as W1,W10; all by default")
	flags.IntVar(&c.rounds, "rounds", 5, "samples of each figure, of which the median counts")
	flags.IntVar(&c.connections, "dbos-connections", 20, "how many connections to the database DBOS has at most")
	flags.BoolVar(&c.prepared, "prepared", false, "have pawl prepare its statements, as DBOS does: for servers without a pooler")
	flags.DurationVar(&c.bloat, "bloat", 0, "measure for so `long` how entries that come and go take room, and nothing else")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if c.rounds < 1 || c.connections < 1 || flags.NArg() > 0 {
		return errors.New("-rounds and -dbos-connections are at least 1, and there are no arguments")
	}
	c.workloads = slices.DeleteFunc(sizes(*quick), func(w workload) bool {
		return *only != "" && !slices.Contains(strings.Split(*only, ","), w.name)
	})
	if len(c.workloads) == 0 {
		return fmt.Errorf("-only %s: there is no such workload", *only)
	}
	temporary, err := os.MkdirTemp(*dir, "pawl-bench-")
	if err == nil {
		temporary, err = filepath.Abs(temporary)
	}
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(temporary) }()
	if err := os.Chmod(temporary, 0o711); err != nil { //nolint:gosec // the user of the server has a way to its files, which are there too
		return err
	}
	return measureIn(ctx, temporary, c, to)
}

// measureIn measures with all files in a folder.
func measureIn(ctx context.Context, dir string, c choices, to io.Writer) error {
	if c.db == "" {
		s, err := startPostgres(ctx, dir, c)
		if err != nil {
			return err
		}
		defer func() { _ = s.Close() }() // it is thrown away
		c.db = s.URL("postgres")
	}
	m, err := openMeter(ctx, c.db)
	if err != nil {
		return err
	}
	m.unsafe, m.prepared = c.bloat > 0, c.prepared
	defer m.closeConnection(ctx)
	if c.bloat > 0 {
		return m.measureBloat(ctx, c.bloat)
	}
	j, err := startJetStream(ctx, dir)
	if err != nil {
		return err
	}
	defer j.stopServers()
	m.sides = []side{
		{"pawl, synced files", m.openDirectory, false},
		{"pawl, PostgreSQL", m.openAtPostgres, true},
		{"pawl, JetStream R3", j.openEngine, false},
		{"DBOS, synced SQLite", openDBOSInFile, false},
		{peer, func(ctx context.Context, _ string) (engine, error) { return m.openDBOS(ctx, c.connections) }, true},
	}
	if err := m.measureAll(ctx, dir, c.workloads, c.rounds); err != nil {
		return err
	}
	return m.figures.printTable(to)
}

// startPostgres starts a server whose files are in a folder, and a standby if there is to be one. Both end with this process.
func startPostgres(ctx context.Context, dir string, c choices) (*servers.Postgres, error) {
	settings := map[string]string{"max_wal_size": "4GB", "shared_buffers": "256MB"}
	if c.bloat > 0 {
		settings["fsync"] = "off" // room is the same, and there are more entries
	}
	if err := os.Setenv("TMPDIR", dir); err != nil { // where servers have their files
		return nil, err
	}
	s, err := servers.StartPostgres(settings)
	if err != nil {
		return nil, err
	}
	if !strings.HasPrefix(s.Dir, dir) {
		err = fmt.Errorf("the user of PostgreSQL has no way to %s: choose a -dir that all may go through", dir)
	} else if c.standby {
		err = addStandby(ctx, s, settings)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// addStandby starts a synchronous standby.
func addStandby(ctx context.Context, s *servers.Postgres, settings map[string]string) error {
	if _, err := s.StartStandby("standby", settings); err != nil {
		return err
	}
	settings["synchronous_standby_names"] = "standby"
	if err := s.Reload(settings); err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, s.URL("postgres"))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }() // it was only asked
	for state := ""; state != "sync"; {
		if err := conn.QueryRow(ctx, `SELECT coalesce(min(sync_state), '') FROM pg_stat_replication`).Scan(&state); err != nil {
			return err
		}
	}
	return nil
}
