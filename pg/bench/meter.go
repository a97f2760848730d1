package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawl-run/pawl/pg"
)

// A side keeps the steps of workflows: pawl with one of its logs, or another engine.
type side struct {
	name string
	// open returns an engine that has kept nothing yet; its files, if it has any, are in dir.
	open       func(ctx context.Context, dir string) (engine, error)
	atPostgres bool
}

// An engine executes chains of steps that do nothing. Any number of goroutines may use it.
type engine interface {
	// runChain executes a run, and returns when its end is kept.
	runChain(ctx context.Context, id string, w workload) error
	// timeStart starts a run of one step, and returns how long it took until the step began. One goroutine at a time calls it.
	timeStart(ctx context.Context, id string) (time.Duration, error)
	// countGroups returns how many entries its log has had: one for all that was committed together. It is 0 without such a log.
	countGroups(ctx context.Context) (int64, error)
	closeEngine(ctx context.Context) error
}

// A meter plays workloads on sides, and counts what they ask of the database.
type meter struct {
	url        string
	conn       *pgx.Conn // asks for figures
	unsafe     bool      // the server may lose what it has acknowledged
	prepared   bool      // pawl prepares its statements
	statements atomic.Int64
	sides      []side
	figures    figures
}

// schema has the tables of each sample at the database, those of any side.
const schema = "pawl_bench"

func openMeter(ctx context.Context, url string) (*meter, error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return nil, err
	}
	return &meter{url: url, conn: conn}, nil
}

func (m *meter) closeConnection(ctx context.Context) {
	_ = m.dropSchema(ctx) // the server may be gone
	_ = m.conn.Close(ctx)
}

func (m *meter) dropSchema(ctx context.Context) error {
	_, err := m.conn.Exec(ctx, `SET client_min_messages = error; DROP SCHEMA IF EXISTS `+schema+` CASCADE`)
	return err
}

// openTables returns the database with empty tables of package pg.
func (m *meter) openTables(ctx context.Context) (*pg.Database, error) {
	if err := m.dropSchema(ctx); err != nil {
		return nil, err
	}
	db, err := pg.Open(ctx, m.url, pg.Options{Schema: schema, Unsafe: m.unsafe, Configure: func(c *pgxpool.Config) {
		if c.ConnConfig.Tracer = m; m.prepared {
			c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheStatement
		}
	}})
	if err != nil {
		return nil, err
	}
	if err := db.Migrate(ctx); err != nil {
		db.Close()
		return nil, err
	}
	return db, nil
}

// TraceQueryStart implements pgx.QueryTracer: a statement is one round trip, but for its first use on a connection.
func (m *meter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	m.statements.Add(1)
	return ctx
}

// TraceQueryEnd implements pgx.QueryTracer.
func (m *meter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// A load is what the database has had until a moment.
type load struct{ statements, bytes, wal, groups int64 }

// readLoad returns statements so far, bytes of all tables with their indexes and large values, bytes of WAL, and entries of the engine's log.
func (m *meter) readLoad(ctx context.Context, e engine) (l load, err error) {
	if l.groups, err = e.countGroups(ctx); err != nil {
		return l, err
	}
	l.statements = m.statements.Load()
	err = m.conn.QueryRow(ctx, `
		SELECT coalesce((SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
			WHERE n.nspname = $1 AND c.relkind = 'r'), 0)::bigint, pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint`, schema).Scan(&l.bytes, &l.wal)
	return l, err
}

// measureAll plays the workloads on all sides in turn, in as many rounds.
func (m *meter) measureAll(ctx context.Context, dir string, all []workload, rounds int) error {
	m.figures = figures{workloads: all, sides: m.sides, samples: map[figure][]float64{}}
	for round := range rounds {
		for _, w := range all {
			for i := range m.sides {
				s := m.sides[(i+round)%len(m.sides)]
				if err := m.measureSide(ctx, w, s, filepath.Join(dir, "sample")); err != nil {
					return fmt.Errorf("%s, %s: %w", w.name, s.name, err)
				}
			}
		}
	}
	return nil
}

// measureSide takes a sample: it plays a workload on a side that has kept nothing yet.
func (m *meter) measureSide(ctx context.Context, w workload, s side, dir string) (err error) {
	runtime.GC() // what others have left
	e, err := s.open(ctx, dir)
	if err != nil {
		return err
	}
	defer func() {
		if closed := e.closeEngine(ctx); err == nil {
			err = closed
		}
		if removed := os.RemoveAll(dir); err == nil {
			err = removed
		}
	}()
	if err := playRuns(ctx, e, workload{name: "before", runs: w.atOnce, atOnce: w.atOnce, steps: min(w.steps, 5)}); err != nil {
		return err
	}
	tell := func(unit string, v float64) {
		at := figure{w.name, s.name, unit}
		m.figures.samples[at] = append(m.figures.samples[at], v)
	}
	if w.unit == unitStarts {
		return measureStarts(ctx, e, w, tell)
	}
	before, err := m.readLoad(ctx, e)
	if err != nil {
		return err
	}
	began := time.Now()
	if err := playRuns(ctx, e, w); err != nil {
		return err
	}
	took, steps := time.Since(began).Seconds(), float64(w.runs*w.steps)
	if w.unit == unitRuns {
		tell(w.unit, float64(w.runs)/took)
	} else {
		tell(w.unit, steps/took)
	}
	now, err := m.readLoad(ctx, e)
	if err == nil && w.costs {
		tellCosts(before, now, steps, s.atPostgres, tell)
	}
	return err
}

// tellCosts tells what a step has cost the database or the log.
func tellCosts(before, now load, steps float64, atPostgres bool, tell func(string, float64)) {
	trips, groups := float64(now.statements-before.statements), float64(now.groups-before.groups)
	if atPostgres {
		tell("bytes in the tables, a step", float64(now.bytes-before.bytes)/steps)
		tell("bytes of WAL, a step", float64(now.wal-before.wal)/steps)
		tell("round trips, a step", trips/steps)
	}
	if groups == 0 {
		return
	}
	tell("steps, a group", steps/groups)
	if atPostgres {
		tell("round trips, a group", trips/groups)
	}
}
