package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	_ "modernc.org/sqlite" // the driver

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/pawlsql"
	"github.com/pawl-run/pawl/workflow"
)

const definition = `
name: order
start: charge
nodes:
  - {id: charge, task: charge, input: {item: input.item}}
`

// A shop is one life of the process.
type shop struct {
	db     *sql.DB
	outbox *pawlsql.Outbox
	dies   string
}

// runShop takes an order, if there is one, and lives until all runs have ended.
func runShop(ctx context.Context, dir, order, dies string) (err error) {
	db, err := openDatabase(ctx, filepath.Join(dir, "shop.db"))
	if err != nil {
		return err
	}
	defer db.Close() //nolint:errcheck // nothing is left to write
	s := &shop{db: db, dies: dies}
	if s.outbox, err = pawlsql.New(db, pawlsql.SQLite, pawlsql.Options{Poll: 10 * time.Millisecond, Lease: time.Second}); err != nil {
		return err
	}
	if err := s.outbox.Migrate(ctx); err != nil {
		return err
	}
	engine, err := pawl.Open(ctx, filepath.Join(dir, "engine"), pawl.Options{Executor: pawl.Handlers{"charge": s.chargeCard}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, engine.Close(context.Background())) }()
	def, err := workflow.ParseYAML([]byte(definition))
	if err != nil {
		return err
	}
	if _, err := engine.Publish(ctx, def); err != nil {
		return err
	}
	if order != "" {
		if err := s.placeOrder(ctx, order, "a book"); err != nil {
			return err
		}
	}
	taking, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- s.outbox.Run(taking, engine) }()
	err = s.awaitOrders(ctx, engine)
	stop()
	return errors.Join(err, <-ended)
}

// placeOrder inserts an order and has its run started: both, or neither.
func (s *shop) placeOrder(ctx context.Context, id, item string) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // it has committed, or another error is told
	if _, err := tx.ExecContext(ctx, "INSERT INTO orders (id, item) VALUES (?, ?)", id, item); err != nil {
		return err
	}
	run := workflow.Run{ID: workflow.RunID(id), Workflow: "order"}
	if err := pawlsql.Start(ctx, s.outbox.In(tx), run, map[string]any{"item": item}); err != nil {
		return err
	}
	s.dieAt("before the commit")
	if err := tx.Commit(); err != nil {
		return err
	}
	s.dieAt("after the commit")
	return nil
}

// chargeCard charges a card: a row of this database, and so exactly once.
func (s *shop) chargeCard(ctx context.Context, task pawl.Task) (any, error) {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer tx.Rollback() //nolint:errcheck // it has committed, or another error is told
	receipt, err := pawlsql.Once(ctx, s.outbox.In(tx), task, func(ctx context.Context) (string, error) {
		_, err := tx.ExecContext(ctx, "INSERT INTO charges (id) VALUES (?)", string(task.Run))
		return "receipt of " + string(task.Run), err
	})
	if err != nil {
		return nil, err
	}
	if err := tx.Commit(); err != nil {
		return nil, err
	}
	s.dieAt("while the card is charged") // the engine does not know that it was
	return receipt, nil
}

// awaitOrders waits until no call waits and each order's run has ended.
func (s *shop) awaitOrders(ctx context.Context, engine *pawl.Engine) error {
	for {
		b, err := s.outbox.Backlog(ctx)
		if err != nil {
			return err
		}
		if b.Refused > 0 {
			return fmt.Errorf("%d calls are refused", b.Refused)
		}
		if b.Waiting == 0 {
			break
		}
		<-time.After(5 * time.Millisecond)
	}
	for r, err := range engine.Runs(ctx, pawl.RunFilter{}) {
		if err != nil {
			return err
		}
		if out, err := engine.Wait(ctx, r.Run); err != nil || out.Err() != nil {
			return errors.Join(err, out.Err())
		}
	}
	return nil
}

// dieAt kills the process, as kill -9 does, where it is to die.
func (s *shop) dieAt(where string) {
	if s.dies != where {
		return
	}
	if p, err := os.FindProcess(os.Getpid()); err == nil {
		_ = p.Kill()
		select {}
	}
}

func openDatabase(ctx context.Context, path string) (*sql.DB, error) {
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_txlock=immediate")
	if err != nil {
		return nil, err
	}
	for _, table := range []string{
		"CREATE TABLE IF NOT EXISTS orders (id TEXT PRIMARY KEY, item TEXT NOT NULL)",
		"CREATE TABLE IF NOT EXISTS charges (id TEXT NOT NULL)",
	} {
		if _, err := db.ExecContext(ctx, table); err != nil {
			return nil, errors.Join(err, db.Close())
		}
	}
	return db, nil
}
