package sqltest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/pawlsql"
	"github.com/pawl-run/pawl/workflow"
)

// Bad arguments are refused before the database is asked, in words that name them.
func TestBadArguments(t *testing.T) {
	d := openDatabase(t, pawlsql.SQLite)
	b := d.outbox(t)
	ctx := t.Context()
	tx := b.In(d.db)
	good := workflow.Run{ID: "r", Workflow: "w"}
	start := func(run workflow.Run, input any) error { return pawlsql.Start(ctx, tx, run, input) }
	signal := func(s workflow.Signal) error { return pawlsql.Signal(ctx, tx, "r", s) }
	var noTx *sql.Tx
	var none *pawlsql.Outbox
	bad := &workflow.Definition{Name: "bad", Start: "none", Nodes: []workflow.Node{{ID: "a"}}}
	long := workflow.RunID(strings.Repeat("x", 255))
	cycle := map[string]any{}
	cycle["a"] = cycle
	for name, err := range map[string]error{
		"no tx":             pawlsql.Start(ctx, pawlsql.Tx{}, good, nil),
		"nil tx":            pawlsql.Start(ctx, b.In(noTx), good, nil),
		"nil statements":    pawlsql.Start(ctx, b.With(nil), good, nil),
		"no outbox":         pawlsql.Cancel(ctx, none.In(d.db), "r", ""),
		"no ctx":            pawlsql.Start(nil, tx, good, nil), //nolint:staticcheck // what is tested
		"no id":             start(workflow.Run{Workflow: "w"}, nil),
		"slash":             start(workflow.Run{ID: "a/b", Workflow: "w"}, nil),
		"long id":           start(workflow.Run{ID: workflow.RunID(strings.Repeat("x", 256)), Workflow: "w"}, nil),
		"no form":           start(workflow.Run{ID: "r"}, nil),
		"two forms":         start(workflow.Run{ID: "r", Workflow: "w", Definition: define(t, order)}, nil),
		"empty graph":       start(workflow.Run{ID: "r", Graph: &workflow.Graph{}}, nil),
		"tenant":            start(workflow.Run{ID: "r", Workflow: "w", Tenant: " t"}, nil),
		"label":             start(workflow.Run{ID: "r", Workflow: "w", Labels: map[string]string{"": "x"}}, nil),
		"no compiled graph": start(workflow.Run{ID: "r", Graph: &workflow.Graph{Definition: define(t, order)}}, nil),
		"definition":        start(workflow.Run{ID: "r", Definition: bad}, nil),
		"its version":       start(workflow.Run{ID: "r", Definition: define(t, order), Version: 2}, nil),
		"less than 0":       start(workflow.Run{ID: "r", Definition: define(t, order), Version: -2}, nil),
		"version":           start(workflow.Run{ID: "r", Workflow: "w", Version: -1}, nil),
		"large limit":       start(workflow.Run{ID: "r", Workflow: "w", MetaLimits: map[string]float64{"cost": 1e300}}, nil),
		"name of a limit":   start(workflow.Run{ID: "r", Workflow: "w", MetaLimits: map[string]float64{"": 1}}, nil),
		"limit":             start(workflow.Run{ID: "r", Workflow: "w", MetaLimits: map[string]float64{"cost": -1}}, nil),
		"input no object":   start(good, []int{1}),
		"input no JSON":     start(good, map[string]any{"f": func() {}}),
		"input without end": start(good, cycle),
		"input not UTF-8":   start(good, map[string]any{"s": "\xff"}),
		"no name":           signal(workflow.Signal{}),
		"name not UTF-8":    signal(workflow.Signal{Name: "s\xff"}),
		"workflow not UTF8": start(workflow.Run{ID: "r", Workflow: "w\xff"}, nil),
		"ttl":               signal(workflow.Signal{Name: "s", TTL: -1}),
		"id":                signal(workflow.Signal{Name: "s", ID: "pawl:1"}),
		"payload":           signal(workflow.Signal{Name: "s", Payload: func() {}}),
		"cancel":            pawlsql.Cancel(ctx, tx, "", ""),
		"child of nobody":   pawlsql.Cancel(ctx, tx, "/1.1", ""),
		"no child":          pawlsql.Cancel(ctx, tx, "r/", ""),
		"no path":           pawlsql.Signal(ctx, tx, "r/1.1/x", workflow.Signal{Name: "s"}),
		"NUL":               pawlsql.Signal(ctx, tx, "r/1.\x00", workflow.Signal{Name: "s"}),
		"child of a child":  pawlsql.Cancel(ctx, tx, long+workflow.RunID(strings.Repeat("/1234567.1234567", 50)), ""),
		"run without ctx":   b.Run(nil, &recorder{}), //nolint:staticcheck // what is tested
		"run of nothing":    b.Run(ctx, nil),
		"run of nil":        b.Run(ctx, (*pawl.Engine)(nil)),
		"once of nothing":   once(ctx, tx, pawl.Task{EffectKey: "k"}, nil),
		"once of no task":   once(ctx, pawlsql.Tx{}, pawl.Task{}, func(context.Context) (int, error) { return 1, nil }),
		"once in no tx":     once(ctx, tx, pawl.Task{EffectKey: "k"}, func(context.Context) (int, error) { return 1, nil }),
	} {
		require.ErrorIs(t, err, pawl.ErrInvalid, name)
	}
	require.Zero(t, d.count(t, "SELECT COUNT(*) FROM {}_calls"))
	var invalid *workflow.DefinitionError
	require.ErrorAs(t, start(workflow.Run{ID: "r", Definition: bad}, nil), &invalid)
	require.NotEmpty(t, invalid.Problems)
}

// An engine may have wider bounds than the default for the definitions that stand in calls: their size is its matter.
func TestLargeDefinitions(t *testing.T) {
	d := openDatabase(t, pawlsql.SQLite)
	b := d.outbox(t)
	def := &workflow.Definition{Name: "large", Mode: workflow.ModeDAG}
	for i := range 10_001 {
		def.Nodes = append(def.Nodes, workflow.Node{ID: workflow.NodeID(fmt.Sprint("n", i))})
	}
	_, err := workflow.Compile(def)
	require.ErrorContains(t, err, "10001 nodes")
	require.NoError(t, pawlsql.Start(t.Context(), b.In(d.db), workflow.Run{ID: "r", Definition: def}, nil))
}

func once(ctx context.Context, tx pawlsql.Tx, task pawl.Task, f func(context.Context) (int, error)) error {
	_, err := pawlsql.Once(ctx, tx, task, f)
	return err
}

// Names of tables are names, and nothing else.
func TestNames(t *testing.T) {
	d := openDatabase(t, pawlsql.SQLite)
	for _, name := range []string{
		"a b", `a"b`, "a`b", "a;DROP TABLE x", "a--", "1a", ".a", "a.", "a.b.c", "ä", "a\x00", strings.Repeat("a", 41), "{now}", "a?", "$1", "pawl_effects", "pawl_effects.",
	} {
		_, err := pawlsql.New(d.db, d.kind, pawlsql.Options{Calls: name})
		var argument *pawlsql.ArgumentError
		require.ErrorAs(t, err, &argument, name)
		require.ErrorIs(t, err, pawl.ErrInvalid, name)
	}
	for name, err := range map[string]error{
		"db":      second(pawlsql.New(nil, pawlsql.SQLite, pawlsql.Options{})),
		"dialect": second(pawlsql.New(d.db, "oracle", pawlsql.Options{})),
		"poll":    second(pawlsql.New(d.db, pawlsql.SQLite, pawlsql.Options{Poll: -1})),
		"lease":   second(pawlsql.New(d.db, pawlsql.SQLite, pawlsql.Options{Lease: 1})),
		"both":    second(pawlsql.New(d.db, pawlsql.SQLite, pawlsql.Options{Calls: "x", Effects: "x"})),
		"case":    second(pawlsql.New(d.db, pawlsql.SQLite, pawlsql.Options{Calls: "Jobs", Effects: "jobs"})),
		"default": second(pawlsql.New(d.db, pawlsql.SQLite, pawlsql.Options{Calls: "PAWL_EFFECTS"})),
		"version": second(pawlsql.New(d.db, pawlsql.SQLite, pawlsql.Options{Calls: "x", Effects: "X_Version"})),
	} {
		require.ErrorIs(t, err, pawl.ErrInvalid, name)
	}
}

func second[T any](_ T, err error) error { return err }

// Tables may be words of SQL, and in schemas of their own; all that there is works with them.
func TestSchemas(t *testing.T) {
	forEach(t, func(t *testing.T, d database) {
		ctx := t.Context()
		schema := "Select_" + d.prefix
		switch d.kind {
		case pawlsql.SQLite:
			_, err := pawlsql.New(d.db, d.kind, pawlsql.Options{Calls: "a.calls"})
			require.ErrorIs(t, err, pawl.ErrInvalid, "there are no schemas")
			schema = ""
		case pawlsql.PostgreSQL:
			d.exec(t, `CREATE SCHEMA "Select_{}"`)
		case pawlsql.MySQL:
			d.exec(t, "CREATE DATABASE `Select_{}`")
		}
		if schema != "" {
			schema += "."
		}
		b := d.outbox(t, func(o *pawlsql.Options) { o.Calls, o.Effects = schema+"Order", schema+"Group" })
		e := &recorder{}
		run(t, b, e)
		d.in(t, true, func(tx *sql.Tx) error {
			_, err := pawlsql.Once(ctx, b.In(tx), pawl.Task{EffectKey: "k"}, func(context.Context) (int, error) { return 1, nil })
			return errors.Join(err, pawlsql.Start(ctx, b.In(tx), workflow.Run{ID: "r", Workflow: "w"}, nil))
		})
		eventually(t, func() bool { return len(e.of("r")) == 1 })
		backlog, err := b.Backlog(ctx)
		require.NoError(t, err)
		require.Zero(t, backlog.Refused)
		n, err := b.Forget(ctx, 0)
		require.NoError(t, err)
		require.LessOrEqual(t, n, int64(1))
	})
}

// Tables may have the default name of one another, or names that begin with it.
func TestNamesOfOneAnother(t *testing.T) {
	for i, o := range []pawlsql.Options{
		{Calls: "pawl_effects", Effects: "pawl_calls"}, {Calls: "pawl_effects", Effects: "pawl_effects_old"}, {Calls: "pawl_calls_new", Effects: "pawl_calls"},
	} {
		t.Run(o.Calls+" "+o.Effects, func(t *testing.T) {
			forEach(t, func(t *testing.T, d database) {
				ctx := t.Context()
				calls, effects := o.Calls, o.Effects
				if d.kind != pawlsql.SQLite { // tests share the other databases
					d.exec(t, "CREATE SCHEMA {}")
					calls, effects = d.prefix+"."+calls, d.prefix+"."+effects
				}
				b := d.outbox(t, func(o *pawlsql.Options) { o.Calls, o.Effects = calls, effects })
				e := &recorder{}
				run(t, b, e)
				d.in(t, true, func(tx *sql.Tx) error {
					_, err := pawlsql.Once(ctx, b.In(tx), pawl.Task{EffectKey: "k"}, func(context.Context) (int, error) { return i, nil })
					return errors.Join(err, pawlsql.Start(ctx, b.In(tx), workflow.Run{ID: "r", Workflow: "w"}, nil))
				})
				eventually(t, func() bool { return len(e.of("r")) == 1 })
				require.Equal(t, 1, d.count(t, "SELECT COUNT(*) FROM "+effects))
			})
		})
	}
}

// Tables are made once, whoever asks, and Run says if there are none, or others.
func TestMigrate(t *testing.T) {
	forEach(t, func(t *testing.T, d database) {
		ctx := t.Context()
		b, err := pawlsql.New(d.db, d.kind, d.options())
		require.NoError(t, err)
		var schema *pawlsql.SchemaError
		require.ErrorAs(t, b.Run(ctx, &recorder{}), &schema)
		require.Zero(t, schema.Have)
		require.ErrorContains(t, schema, "call Migrate")
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() { require.NoError(t, b.Migrate(ctx)) })
		}
		all.Wait()
		require.NoError(t, b.Migrate(ctx))
		d.exec(t, "INSERT INTO {}_calls_version (version) VALUES (99)")
		require.ErrorAs(t, b.Migrate(ctx), &schema)
		require.ErrorContains(t, schema, "must be newer")
		require.ErrorAs(t, b.Run(ctx, &recorder{}), &schema)
	})
}

// Several processes migrate at once also where transactions see what was there when they began.
func TestMigrateIsolated(t *testing.T) {
	d := openDatabase(t, pawlsql.PostgreSQL)
	for i, level := range []string{"repeatable%20read", "serializable"} {
		db := connect(t, d.driver, d.source+"&default_transaction_isolation="+level)
		for k := range 10 {
			o := d.options()
			o.Calls, o.Effects = fmt.Sprintf("%s_%d_%d", d.prefix, i, k), fmt.Sprintf("%s_%d_%d_effects", d.prefix, i, k)
			b, err := pawlsql.New(db, d.kind, o)
			require.NoError(t, err)
			var all sync.WaitGroup
			for range 4 {
				all.Go(func() { assert.NoError(t, b.Migrate(t.Context())) })
			}
			all.Wait()
		}
	}
}

// The files make the same tables as Migrate, by hand.
func TestMigrationsByHand(t *testing.T) {
	forEach(t, func(t *testing.T, d database) {
		b, err := pawlsql.New(d.db, d.kind, d.options())
		require.NoError(t, err)
		steps, err := b.Migrations()
		require.NoError(t, err)
		for i, step := range steps {
			require.Equal(t, i+1, step.Version)
			for statement := range strings.SplitSeq(step.SQL, ";\n") {
				if strings.TrimSpace(statement) != "" {
					d.exec(t, statement)
				}
			}
		}
		e := &recorder{}
		run(t, b, e)
		d.in(t, true, func(tx *sql.Tx) error {
			return pawlsql.Start(t.Context(), b.In(tx), workflow.Run{ID: "r", Workflow: "w"}, nil)
		})
		eventually(t, func() bool { return len(e.of("r")) == 1 })
	})
}

// Run goes on while a database does not answer, and says so.
func TestNoDatabase(t *testing.T) {
	dir := harness.Workspace(t)
	lines := make(lineCounter)
	b, err := pawlsql.New(connect(t, "sqlite", sqliteSource(dir+"/none/host.db")), pawlsql.SQLite, pawlsql.Options{Logger: slog.New(slog.NewTextHandler(lines, nil))})
	require.NoError(t, err)
	require.Error(t, b.Migrate(t.Context()))
	e := &recorder{}
	stop := run(t, b, e)
	require.Contains(t, <-lines, "calls of transactions wait")
	<-lines
	require.NoError(t, os.Mkdir(dir+"/none", 0o700))
	require.NoError(t, b.Migrate(t.Context()))
	require.NoError(t, pawlsql.Start(t.Context(), b.In(connect(t, "sqlite", sqliteSource(dir+"/none/host.db"))), workflow.Run{ID: "r", Workflow: "w"}, nil))
	go func() {
		for range lines { // nobody waits for them
		}
	}()
	eventually(t, func() bool { return len(e.of("r")) == 1 })
	stop()
	close(lines)
}

// A lineCounter hands on each line of a log.
type lineCounter chan string

func (c lineCounter) Write(line []byte) (int, error) {
	c <- string(line)
	return len(line), nil
}
