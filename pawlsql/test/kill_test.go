package sqltest

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/internal/testing/servers"
	"github.com/pawl-run/pawl/pawlsql"
	"github.com/pawl-run/pawl/workflow"
)

// killSeed chooses where processes and servers die.
var killSeed = flag.Uint64("kills.seed", uint64(time.Now().Unix()/86400), "seed of the kills; another one each day by default")

// hostVariable makes the test binary a host: its value is a host as JSON.
const hostVariable = "PAWLSQL_HOST"

// A host writes orders with their runs, has the engine that performs them, and takes the calls, all in one process.
type host struct {
	Kind           pawlsql.Dialect
	Driver, Source string
	Prefix, Dir    string
	Life           int // each one writes orders of its own
	Orders         int

	hook *testhook.Hook
	hit  func(point string)
	db   *sql.DB
	box  *pawlsql.Outbox
	life *pawl.Engine
}

// points are where a process, or a server, dies: those of the host itself, of pawlsql, and of the engine around a call.
var points = []string{
	"host.order", "host.written", "host.committed", "host.signalled", "host.paid", "host.effect", "host.effected",
	"calls.found", "calls.claimed", "calls.made", "calls.noted", "calls.deleted", "effect.claimed", "effect.done", "effect.kept",
	"start.ask", "start.answer", "commit.begin", "commit.done", "task.result",
}

// In each order a task has an effect once, and three signals come in their order.
const sale = `
name: sale
start: work
nodes:
  - {id: work, task: work, output: {output.effect: result}, retry: {maxAttempts: 1000, initialInterval: 10ms, maxInterval: 50ms}}
  - {id: first, wait: {event: paid}, output: {output.first: result.payload}}
  - {id: second, wait: {event: paid}, output: {output.second: result.payload}}
  - {id: third, wait: {event: paid}, output: {output.third: result.payload}}
transitions:
  - {from: work, to: first}
  - {from: first, to: second}
  - {from: second, to: third}
`

// asHost is the child process.
func asHost(order string) error {
	h := &host{hook: &testhook.Hook{}}
	if err := json.Unmarshal([]byte(order), h); err != nil {
		return err
	}
	hit, err := harness.Killer()
	if err != nil {
		return err
	}
	h.hit = hit
	h.hook.OnHit(hit)
	return h.live(context.Background())
}

// live lives until all orders that were ever written are done.
func (h *host) live(ctx context.Context) (err error) {
	if h.db, err = sql.Open(h.Driver, h.Source); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.db.Close()) }()
	quiet := slog.New(slog.DiscardHandler)
	h.box, err = pawlsql.New(h.db, h.Kind, pawlsql.Options{
		Calls: h.Prefix + "_calls", Effects: h.Prefix + "_effects", Poll: 5 * time.Millisecond, Lease: 250 * time.Millisecond, Logger: quiet,
	})
	if err != nil {
		return err
	}
	h.life, err = pawl.Open(testhook.With(ctx, h.hook), h.Dir, pawl.Options{
		Executor: pawl.Handlers{"work": h.work}, Durability: pawl.ProcessCrash, Logger: quiet, LockWait: time.Minute,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.life.Close(ctx)) }()
	def, err := workflow.ParseYAML([]byte(sale))
	if err != nil {
		return err
	}
	if _, err := h.life.Publish(ctx, def); err != nil {
		return err
	}
	taking, stop := context.WithCancel(testhook.With(ctx, h.hook))
	ended := make(chan error, 1)
	go func() { ended <- h.box.Run(taking, h.life) }()
	defer func() {
		stop()
		err = errors.Join(err, <-ended)
	}()
	if err := h.writeOrders(ctx); err != nil {
		return err
	}
	return h.untilDone(ctx)
}

func (h *host) text(s string) string { return replaceAll(s, "{}", h.Prefix) }

// write does something in a transaction, over and over while the database fails, unless it finds it done.
func (h *host) write(ctx context.Context, done func() (bool, error), f func(tx *sql.Tx) error) error {
	for {
		if ok, err := done(); ok {
			return err
		} else if err == nil {
			tx, err := h.db.BeginTx(ctx, nil)
			if err == nil {
				if err = f(tx); err == nil {
					err = tx.Commit()
				} else {
					_ = tx.Rollback()
				}
			}
			if err == nil || errors.Is(err, errOff) {
				return nil
			}
		}
		<-time.After(5 * time.Millisecond)
	}
}

// errOff rolls a transaction back for good.
var errOff = errors.New("the customer has left")

// has returns a function that reports whether a row of an order is in a table.
func (h *host) has(ctx context.Context, table, id string) func() (bool, error) {
	return func() (bool, error) {
		var n int
		err := h.db.QueryRowContext(ctx, h.text("SELECT COUNT(*) FROM {}_"+table+" WHERE id = '"+id+"'")).Scan(&n)
		return n > 0, err
	}
}

// writeOrders writes the orders of this life, each third of which is rolled back, and pays those of this and earlier lives.
func (h *host) writeOrders(ctx context.Context) error {
	for i := range h.Orders {
		id := fmt.Sprintf("o%d-%d", h.Life, i)
		err := h.write(ctx, h.has(ctx, "orders", id), func(tx *sql.Tx) error {
			if _, err := tx.ExecContext(ctx, h.text("INSERT INTO {}_orders (id) VALUES ('"+id+"')")); err != nil {
				return err
			}
			h.hit("host.order")
			err := pawlsql.Start(ctx, h.box.In(tx), workflow.Run{ID: workflow.RunID(id), Workflow: "sale"}, nil)
			h.hit("host.written")
			if err == nil && i%3 == 2 {
				return errOff
			}
			return err
		})
		if err != nil {
			return err
		}
		h.hit("host.committed")
	}
	open, err := h.unpaid(ctx)
	for _, id := range open {
		err = errors.Join(err, h.write(ctx, h.has(ctx, "paid", id), func(tx *sql.Tx) error {
			for n := range 3 {
				if err := pawlsql.Signal(ctx, h.box.In(tx), workflow.RunID(id), workflow.Signal{Name: "paid", Payload: n}); err != nil {
					return err
				}
			}
			h.hit("host.signalled")
			_, err := tx.ExecContext(ctx, h.text("INSERT INTO {}_paid (id) VALUES ('"+id+"')"))
			return err
		}))
		h.hit("host.paid")
	}
	return err
}

// endTime is how long a database may be away, or a life take to its end, on a machine that does much else.
const endTime = 5 * time.Minute

// unpaid returns the orders that are not paid.
func (h *host) unpaid(ctx context.Context) (ids []string, err error) {
	for deadline := time.Now().Add(endTime); ; {
		ids, err = selectIDs(ctx, h.db, h.text("SELECT id FROM {}_orders o WHERE NOT EXISTS (SELECT 1 FROM {}_paid p WHERE p.id = o.id) ORDER BY id"))
		if err == nil || time.Now().After(deadline) {
			return ids, err
		}
		<-time.After(5 * time.Millisecond)
	}
}

func selectIDs(ctx context.Context, db *sql.DB, text string) (ids []string, err error) {
	rows, err := db.QueryContext(ctx, text)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, rows.Err()
}

// work is the task: a row, once.
func (h *host) work(ctx context.Context, task pawl.Task) (any, error) {
	ctx = testhook.With(ctx, h.hook)
	tx, err := h.db.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer tx.Rollback()
	out, err := pawlsql.Once(ctx, h.box.In(tx), task, func(ctx context.Context) (string, error) {
		_, err := tx.ExecContext(ctx, h.text("INSERT INTO {}_effect (id) VALUES ('"+string(task.Run)+"')"))
		h.hit("host.effect")
		return "done of " + string(task.Run), err
	})
	if err != nil {
		return nil, err
	}
	err = tx.Commit()
	h.hit("host.effected")
	return out, err
}

// untilDone waits until each order has its run, and each run has ended.
func (h *host) untilDone(ctx context.Context) error {
	for deadline := time.Now().Add(endTime); ; {
		ids, err := selectIDs(ctx, h.db, h.text("SELECT id FROM {}_orders"))
		if err == nil {
			open := 0
			for _, id := range ids {
				if s, err := h.life.Summary(ctx, workflow.RunID(id)); err != nil || !s.Status.Final() {
					open++
				}
			}
			b, err := h.box.Backlog(ctx)
			if err == nil && open == 0 && b.Waiting == 0 {
				return nil
			}
		}
		if time.Now().After(deadline) {
			return errors.Join(err, fmt.Errorf("life %d does not come to its end", h.Life))
		}
		<-time.After(2 * time.Millisecond)
	}
}

// newHost makes the tables of a host.
func newHost(t *testing.T, d database) *host {
	d.outbox(t)
	d.exec(t, "CREATE TABLE {}_orders (id VARCHAR(100) PRIMARY KEY)")
	d.exec(t, "CREATE TABLE {}_paid (id VARCHAR(100) PRIMARY KEY)")
	d.exec(t, "CREATE TABLE {}_effect (id VARCHAR(100))")
	return &host{Kind: d.kind, Driver: d.driver, Source: d.source, Prefix: d.prefix, Dir: harness.Workspace(t), Orders: 4}
}

// check requires that each order that committed has had its run, once, with its effect and signals, and no other.
func (h *host) check(t *testing.T, d database) {
	t.Helper()
	ctx := t.Context()
	ids, err := selectIDs(ctx, d.db, d.text("SELECT id FROM {}_orders ORDER BY id"))
	require.NoError(t, err)
	require.NotEmpty(t, ids)
	effects, err := selectIDs(ctx, d.db, d.text("SELECT id FROM {}_effect ORDER BY id"))
	require.NoError(t, err)
	require.Equal(t, ids, effects, "each effect has happened once")
	require.Zero(t, d.count(t, "SELECT COUNT(*) FROM {}_calls"), "no call is left")
	e, err := pawl.Open(ctx, h.Dir, pawl.Options{Maintenance: true, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	defer e.Close(context.Background())
	var runs []string
	for s, err := range e.Runs(ctx, pawl.RunFilter{}) {
		require.NoError(t, err)
		runs = append(runs, string(s.Run))
		out, err := e.Wait(ctx, s.Run)
		require.NoError(t, err)
		require.NoError(t, out.Err())
		require.Equal(t, map[string]any{"effect": "done of " + string(s.Run), "first": int64(0), "second": int64(1), "third": int64(2)}, out.Output, s.Run)
	}
	require.ElementsMatch(t, ids, runs, "runs of orders, and no others")
}

// A host that is killed anywhere, over and over, has a run for each order that committed, and none for another; each effect of
// a task happens once, and signals come once and in their order.
func TestKills(t *testing.T) {
	kills := map[pawlsql.Dialect]int{
		pawlsql.SQLite: harness.Figure(2, 8, 200), pawlsql.PostgreSQL: harness.Figure(2, 12, 350), pawlsql.MySQL: harness.Figure(1, 6, 150),
	}
	t.Logf("seed %d", *killSeed)
	kinds := harness.SampleOfDay(t, harness.Figure(2, 2, 1), []pawlsql.Dialect{pawlsql.SQLite, pawlsql.MySQL})
	forEachOf(t, append(kinds, pawlsql.PostgreSQL), func(t *testing.T, d database) {
		h := newHost(t, d)
		rng := rand.New(rand.NewPCG(*killSeed, uint64(len(d.kind))))
		killed, lives := map[string]int{}, 0
		for n := 0; n < kills[d.kind]; lives++ {
			require.Less(t, lives, 20*kills[d.kind]+20, "the failpoints are not met: %v", killed)
			h.Life = lives
			point := points[rng.IntN(len(points))]
			if h.spawn(t, fmt.Sprint(point, ":", 1+rng.IntN(4))) {
				n++
				killed[point]++
			}
		}
		h.Life = lives
		require.False(t, h.spawn(t, ""))
		t.Logf("%d kills in %d lives: %v", kills[d.kind], lives, killed)
		h.check(t, d)
	})
}

// spawn runs a host in a child process, and reports whether it was killed.
func (h *host) spawn(t *testing.T, kill string) bool {
	t.Helper()
	order, err := json.Marshal(h)
	require.NoError(t, err)
	cmd := exec.Command(os.Args[0])
	cmd.Env = harness.Environment(hostVariable+"="+string(order), harness.KillVariable+"="+kill)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err = cmd.Run()
	if harness.Killed(err) {
		return true
	}
	require.NoError(t, err, "life %d: %s", h.Life, out.String())
	return false
}

// A server that is killed while the host is anywhere loses nothing, and nothing happens twice; the host goes on when the server does.
func TestServerKills(t *testing.T) {
	t.Run("postgresql", func(t *testing.T) {
		servers.RequirePostgres(t)
		s, err := servers.StartPostgres(nil)
		require.NoError(t, err)
		s.CloseAfter(t)
		killServer(t, &s.Server, database{kind: pawlsql.PostgreSQL, driver: "pgx", source: s.URL("postgres"), prefix: "k"}, harness.Figure(1, 9, 200))
	})
	t.Run("mysql", func(t *testing.T) {
		harness.InTurn(t, 2)
		servers.RequireMariaDB(t)
		s, err := servers.StartMariaDB()
		require.NoError(t, err)
		s.CloseAfter(t)
		killServer(t, &s.Server, database{kind: pawlsql.MySQL, driver: "mysql", source: s.DSN("test"), prefix: "k"}, harness.Figure(1, 5, 100))
	})
}

func killServer(t *testing.T, s *servers.Server, d database, kills int) {
	t.Logf("seed %d", *killSeed)
	d.db = connect(t, d.driver, d.source)
	h := newHost(t, d)
	rng := rand.New(rand.NewPCG(*killSeed, 7))
	total := 0
	for total < kills {
		h.Life++
		point := points[rng.IntN(len(points))]
		var hits atomic.Int64
		var one sync.Mutex
		at := 1 + rng.Int64N(4)
		h.hook = &testhook.Hook{}
		h.hit = func(p string) {
			if p == point && hits.Add(1) == at {
				one.Lock()
				defer one.Unlock()
				if err := errors.Join(s.Kill(), s.Start()); err != nil {
					t.Errorf("kill the server: %v", err)
				}
				total++
			}
		}
		h.hook.OnHit(h.hit)
		require.NoError(t, h.live(context.Background()), "life %d", h.Life)
	}
	t.Logf("%d kills of the server in %d lives", total, h.Life)
	d.db = connect(t, d.driver, d.source) // the connections from before are dead
	h.check(t, d)
}
