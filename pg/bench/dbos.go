package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/dbos-inc/dbos-transact-golang/dbos"
	"github.com/jackc/pgx/v5/pgxpool"
)

// A dbosEngine is DBOS, whose tables are in the schema of the sample.
type dbosEngine struct {
	ctx   dbos.Context
	pool  *pgxpool.Pool
	begun chan time.Time
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
	e := &dbosEngine{pool: pool, begun: make(chan time.Time, 1)}
	e.ctx, err = dbos.NewContext(ctx, dbos.Config{
		AppName: "bench", SystemDBPool: pool, DatabaseSchema: schema, ApplicationVersion: "1", Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		pool.Close()
		return nil, err
	}
	dbos.RegisterWorkflow(e.ctx, executeChain, dbos.WithWorkflowName("chain"))
	dbos.RegisterWorkflow(e.ctx, e.tellBegin, dbos.WithWorkflowName("tell"))
	if err := dbos.Launch(e.ctx); err != nil {
		pool.Close()
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

// tellBegin is a workflow of one step, which tells when it began.
func (e *dbosEngine) tellBegin(ctx dbos.Context, _ int) (int, error) {
	return dbos.RunAsStep(ctx, func(context.Context) (int, error) { e.begun <- time.Now(); return 0, nil })
}

func (e *dbosEngine) runChain(_ context.Context, id string, steps int) error {
	handle, err := dbos.RunWorkflow(e.ctx, executeChain, steps, dbos.WithWorkflowID(id))
	if err != nil {
		return err
	}
	_, err = handle.GetResult()
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
	err := dbos.Shutdown(e.ctx, 10*time.Second)
	e.pool.Close()
	return err
}
