package main

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/dbos-inc/dbos-transact-golang/dbos"
	_ "github.com/dbos-inc/dbos-transact-golang/dbos/driver/sqlite" // for openDBOSInFile
	"github.com/jackc/pgx/v5/pgxpool"
)

// A dbosEngine is DBOS, whose tables are in the schema of the sample, or in a file.
type dbosEngine struct {
	ctx       dbos.Context
	closePool func()
	begun     chan time.Time
}

// openDBOS starts DBOS with empty tables. Its pool is as it makes one itself, but counts statements.
func (m *meter) openDBOS(ctx context.Context, connections int) (engine, error) {
	if err := m.dropSchema(ctx); err != nil {
		return nil, err
	}
	c, err := pgxpool.ParseConfig(m.url)
	if err != nil {
		return nil, err
	}
	c.MaxConns, c.MaxConnLifetime, c.MaxConnIdleTime = int32(connections), time.Hour, 5*time.Minute //nolint:gosec // a small number
	c.ConnConfig.Tracer = m
	pool, err := pgxpool.NewWithConfig(ctx, c)
	if err != nil {
		return nil, err
	}
	return launchDBOS(ctx, dbos.Config{SystemDBPool: pool, DatabaseSchema: schema}, pool.Close)
}

// openDBOSInFile starts DBOS with a new file of SQLite, whose connections are as it makes them itself, but that commits survive a loss of power.
func openDBOSInFile(ctx context.Context, dir string) (engine, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	pragmas := url.Values{"_txlock": {"immediate"}, "_pragma": {"busy_timeout(5000)", "foreign_keys(ON)", "journal_mode(WAL)", "synchronous(FULL)"}}
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "dbos.db")+"?"+pragmas.Encode())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(8)
	db.SetMaxIdleConns(4)
	return launchDBOS(ctx, dbos.Config{SQLiteSystemDB: db}, func() { _ = db.Close() })
}

// launchDBOS starts DBOS. closePool ends the connections that it is given.
func launchDBOS(ctx context.Context, c dbos.Config, closePool func()) (engine, error) {
	e := &dbosEngine{closePool: closePool, begun: make(chan time.Time, 1)}
	c.AppName, c.ApplicationVersion, c.Logger = "bench", "1", slog.New(slog.DiscardHandler)
	var err error
	if e.ctx, err = dbos.NewContext(ctx, c); err != nil {
		closePool()
		return nil, err
	}
	dbos.RegisterWorkflow(e.ctx, executeChain, dbos.WithWorkflowName("chain"))
	dbos.RegisterWorkflow(e.ctx, returnLarge, dbos.WithWorkflowName("large"))
	dbos.RegisterWorkflow(e.ctx, e.tellBegin, dbos.WithWorkflowName("tell"))
	if err := dbos.Launch(e.ctx); err != nil {
		closePool()
		return nil, err
	}
	return e, nil
}

// executeChain is a workflow of so many steps that do nothing.
func executeChain(ctx dbos.Context, steps int) (int, error) {
	for range steps {
		if _, err := dbos.RunAsStep(ctx, func(context.Context) (int, error) { return 0, nil }); err != nil {
			return 0, err
		}
	}
	return 0, nil
}

// A largeChain is so many steps that return so many bytes each.
type largeChain struct{ Steps, Bytes int }

// returnLarge is a workflow of steps that return texts, and returns the length of the last one.
func returnLarge(ctx dbos.Context, c largeChain) (n int, err error) {
	for range c.Steps {
		text, err := dbos.RunAsStep(ctx, func(context.Context) (string, error) { return largeText(c.Bytes), nil })
		if err != nil {
			return 0, err
		}
		n = len(text)
	}
	return n, nil
}

// tellBegin is a workflow of one step, which tells when it began.
func (e *dbosEngine) tellBegin(ctx dbos.Context, _ int) (int, error) {
	return dbos.RunAsStep(ctx, func(context.Context) (int, error) { e.begun <- time.Now(); return 0, nil })
}

func (e *dbosEngine) runChain(_ context.Context, id string, w workload) error {
	var handle dbos.WorkflowHandle[int]
	var err error
	if w.bytes > 0 {
		handle, err = dbos.RunWorkflow(e.ctx, returnLarge, largeChain{w.steps, w.bytes}, dbos.WithWorkflowID(id))
	} else {
		handle, err = dbos.RunWorkflow(e.ctx, executeChain, w.steps, dbos.WithWorkflowID(id))
	}
	if err != nil {
		return err
	}
	n, err := handle.GetResult()
	if err == nil && n != w.bytes {
		err = fmt.Errorf("the last step returned %d bytes, not %d", n, w.bytes)
	}
	return err
}

func (e *dbosEngine) timeStart(_ context.Context, id string) (time.Duration, error) {
	began := time.Now()
	if _, err := dbos.RunWorkflow(e.ctx, e.tellBegin, 0, dbos.WithWorkflowID(id)); err != nil {
		return 0, err
	}
	return (<-e.begun).Sub(began), nil
}

func (e *dbosEngine) countGroups(context.Context) (int64, error) { return 0, nil }

func (e *dbosEngine) closeEngine(context.Context) error {
	err := dbos.Shutdown(e.ctx, time.Minute)
	e.closePool()
	return err
}
