package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/cluster"
	"github.com/pawl-run/pawl/workflow"
)

// A pawlEngine is an engine of pawl.
type pawlEngine struct {
	engine *pawl.Engine
	begun  chan time.Time
	groups func(ctx context.Context) (int64, error)
	after  func(ctx context.Context) error // what its log needs when it is closed

	mu     sync.Mutex
	chains map[string]*workflow.Definition
}

// openPawl opens an engine with a log outside of its directory, or with a directory that syncs.
func openPawl(ctx context.Context, dir string, backend *cluster.Backend) (*pawlEngine, error) {
	e := &pawlEngine{
		begun: make(chan time.Time, 1), chains: map[string]*workflow.Definition{},
		groups: func(context.Context) (int64, error) { return 0, nil }, after: func(context.Context) error { return nil },
	}
	o := pawl.Options{Durability: pawl.PowerLoss, Executor: pawl.Handlers{
		"work": func(context.Context, pawl.Task) (any, error) { return nil, nil },
		"large": func(_ context.Context, t pawl.Task) (any, error) {
			var of struct{ Bytes int }
			err := t.Bind(&of)
			return largeText(of.Bytes), err
		},
		"tell": func(context.Context, pawl.Task) (any, error) { e.begun <- time.Now(); return nil, nil },
	}}
	var err error
	if backend != nil {
		o.Durability, o.Blobs, o.Remote.Bases = pawl.ProcessCrash, backend.Blobs, backend.Bases
		if o.Remote.Log, err = backend.NewLog(ctx); err != nil {
			return nil, err
		}
	}
	e.engine, err = pawl.Open(ctx, dir, o)
	return e, err
}

func (m *meter) openDirectory(ctx context.Context, dir string) (engine, error) {
	return openPawl(ctx, dir, nil)
}

func (m *meter) openAtPostgres(ctx context.Context, dir string) (engine, error) {
	db, err := m.openTables(ctx)
	if err != nil {
		return nil, err
	}
	backend, err := db.OpenBackend(ctx, "bench")
	if err != nil {
		db.Close()
		return nil, err
	}
	e, err := openPawl(ctx, dir, &backend)
	if err != nil {
		db.Close()
		return nil, err
	}
	e.groups = func(ctx context.Context) (n int64, err error) {
		err = m.conn.QueryRow(ctx, `SELECT coalesce(max(number), 0) FROM `+schema+`.entries`).Scan(&n)
		return n, err
	}
	e.after = func(context.Context) error { db.Close(); return nil }
	return e, nil
}

func (e *pawlEngine) runChain(ctx context.Context, id string, w workload) error {
	task, input := "work", any(nil)
	if w.bytes > 0 {
		task, input = "large", map[string]any{"bytes": w.bytes}
	}
	d, err := e.chainOf(task, w.steps)
	if err != nil {
		return err
	}
	out, err := e.engine.Run(ctx, workflow.Run{ID: workflow.RunID(id), Definition: d}, input)
	if err != nil {
		return err
	}
	if err := out.Err(); err != nil {
		return err
	}
	if n := out.Output["bytes"]; w.bytes > 0 && fmt.Sprint(n) != fmt.Sprint(w.bytes) {
		return fmt.Errorf("the last step returned %v bytes, not %d", n, w.bytes)
	}
	return nil
}

func (e *pawlEngine) timeStart(ctx context.Context, id string) (time.Duration, error) {
	d, err := e.chainOf("tell", 1)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	if err := e.engine.Start(ctx, workflow.Run{ID: workflow.RunID(id), Definition: d}, nil); err != nil {
		return 0, err
	}
	return (<-e.begun).Sub(began), nil
}

func (e *pawlEngine) countGroups(ctx context.Context) (int64, error) { return e.groups(ctx) }

func (e *pawlEngine) closeEngine(ctx context.Context) error {
	err := e.engine.Close(ctx)
	return errors.Join(err, e.after(ctx))
}

// chainOf returns a definition with n tasks of a type, one after the other; the state keeps what one of type large returns.
func (e *pawlEngine) chainOf(task string, n int) (*workflow.Definition, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	key := fmt.Sprint(task, n)
	if d := e.chains[key]; d != nil {
		return d, nil
	}
	more, output := "", ""
	if task == "large" {
		more, output = `, "input": {"bytes": "input.bytes"}, "output": {"state.text": "result"}`, `, "output": {"mapping": {"bytes": "size(state.text)"}}`
	}
	var nodes, transitions []string
	for i := range n {
		nodes = append(nodes, fmt.Sprintf(`{"id": "n%d", "task": %q%s}`, i, task, more))
		if i > 0 {
			transitions = append(transitions, fmt.Sprintf(`{"from": "n%d", "to": "n%d"}`, i-1, i))
		}
	}
	d, err := workflow.Parse(fmt.Appendf(nil, `{"name": "chain", "start": "n0", "nodes": [%s], "transitions": [%s]%s}`, strings.Join(nodes, ","), strings.Join(transitions, ","), output))
	e.chains[key] = d
	return d, err
}
