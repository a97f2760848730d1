// Command bench measures an engine whose log is in PostgreSQL beside one whose directory syncs, in turns: W1, W3, W4 and W10 of
// docs/performance.md, and what each step costs the database.
//
//	go run -C pg/bench .                         starts a server; with -standby a synchronous standby of it as well
//	go run -C pg/bench . -db postgres://...      at a server that is there
//	go run -C pg/bench . -bloat 60s              how much room entries take that come and go: by DELETE, and in partitions
//
// The servers that it starts are on this machine, and share its processors and its disk.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawl-run/pawl/internal/testing/servers"
	"github.com/pawl-run/pawl/pg"
)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) (err error) {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	db := flags.String("db", "", "the `address` of a database, whose schema pawl_bench is dropped and made; a server is started without")
	standby := flags.Bool("standby", false, "start a synchronous standby as well")
	dir := flags.String("dir", "", "the `folder`, on the disk to be measured, for engine directories; a temporary one by default")
	quick := flags.Bool("quick", false, "small sizes")
	rounds := flags.Int("rounds", 3, "samples of each figure, of which the median counts")
	bloat := flags.Duration("bloat", 0, "measure for so `long` how entries that come and go take room, and nothing else")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *rounds < 1 || flags.NArg() > 0 {
		return errors.New("-rounds is at least 1, and there are no arguments")
	}
	if *db == "" {
		settings := map[string]string{"max_wal_size": "4GB", "shared_buffers": "256MB"}
		if *bloat > 0 {
			settings["fsync"] = "off" // room is the same, and there are more entries
		}
		s, err := servers.StartPostgres(settings)
		if err != nil {
			return err
		}
		defer func() { _ = s.Close() }() // it is thrown away
		*db = s.URL("postgres")
		if *standby {
			if err := addStandby(ctx, s); err != nil {
				return err
			}
		}
	}
	m, err := openMeter(ctx, *db)
	if err != nil {
		return err
	}
	defer m.close(ctx)
	if *bloat > 0 {
		return m.measureBloat(ctx, *bloat)
	}
	temporary, err := os.MkdirTemp(*dir, "pawl-bench-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(temporary) }()
	return m.measureAll(ctx, temporary, *rounds, *quick)
}

// addStandby starts a synchronous standby. It ends with this process.
func addStandby(ctx context.Context, s *servers.Postgres) error {
	if _, err := s.StartStandby("standby", nil); err != nil {
		return err
	}
	if err := s.Reload(map[string]string{"max_wal_size": "4GB", "shared_buffers": "256MB", "synchronous_standby_names": "standby"}); err != nil {
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

// A meter has the database, and counts what is asked of it.
type meter struct {
	db         *pg.Database
	conn       *pgx.Conn // asks for figures
	statements atomic.Int64
	logs       int
}

const schema = "pawl_bench"

func openMeter(ctx context.Context, url string) (*meter, error) {
	m := &meter{}
	var err error
	if m.conn, err = pgx.Connect(ctx, url); err != nil {
		return nil, err
	}
	if _, err := m.conn.Exec(ctx, `DROP SCHEMA IF EXISTS `+schema+` CASCADE`); err != nil {
		return nil, err
	}
	m.db, err = pg.Open(ctx, url, pg.Options{Schema: schema, Unsafe: true, Configure: func(c *pgxpool.Config) { c.ConnConfig.Tracer = m }})
	if err != nil {
		return nil, err
	}
	return m, m.db.Migrate(ctx)
}

func (m *meter) close(ctx context.Context) {
	m.db.Close()
	_, _ = m.conn.Exec(ctx, `DROP SCHEMA IF EXISTS `+schema+` CASCADE`) // the server may be gone
	_ = m.conn.Close(ctx)
}

// TraceQueryStart implements pgx.QueryTracer: a statement is one round trip, but for its first use on a connection.
func (m *meter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	m.statements.Add(1)
	return ctx
}

// TraceQueryEnd implements pgx.QueryTracer.
func (m *meter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// A load is what the database has at a moment.
type load struct{ statements, entries, bytes, wal int64 }

// look returns what the database has: statements so far, the last number of a log, bytes of the table of entries with its index and its large
// values, and bytes of WAL.
func (m *meter) look(ctx context.Context, log string) (l load, err error) {
	l.statements = m.statements.Load()
	err = m.conn.QueryRow(ctx, `SELECT coalesce((SELECT max(number) FROM `+schema+`.entries WHERE log = $1), 0),
		pg_total_relation_size('`+schema+`.entries'), pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint`, log).Scan(&l.entries, &l.bytes, &l.wal)
	return l, err
}

// measureAll plays every workload at both kinds of directories, in turns, and prints the medians.
func (m *meter) measureAll(ctx context.Context, dir string, rounds int, quick bool) error {
	figures := map[string][]float64{}
	var order []string
	add := func(name string, v float64) {
		if figures[name] == nil {
			order = append(order, name)
		}
		figures[name] = append(figures[name], v)
	}
	for range rounds {
		for _, w := range workloads(quick) {
			for _, kind := range []string{"synced directory", "PostgreSQL"} {
				if err := m.measure(ctx, w, dir, kind == "PostgreSQL", func(unit string, v float64) { add(w.name+"\t"+kind+"\t"+unit, v) }); err != nil {
					return fmt.Errorf("%s, %s: %w", w.name, kind, err)
				}
			}
		}
	}
	for _, name := range order {
		all := figures[name]
		slices.Sort(all)
		fmt.Printf("%s\t%.2f\t(%.2f to %.2f)\n", name, all[len(all)/2], all[0], all[len(all)-1])
	}
	return nil
}

// milliseconds returns a time as a number of them.
func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
