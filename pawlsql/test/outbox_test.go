package sqltest

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/pawlsql"
	"github.com/pawl-run/pawl/workflow"
)

const order = `
name: order
start: wait
nodes:
  - {id: wait, wait: {event: paid}, output: {output.got: result.payload, output.input: input}}
transitions: []
`

// A call is made if its transaction commits, as it was written.
func TestCallsOfTransactions(t *testing.T) {
	forEach(t, func(t *testing.T, d database) {
		ctx := t.Context()
		b := d.outbox(t)
		e := openEngine(t, harness.Workspace(t), nil)
		_, err := e.Publish(ctx, define(t, order))
		require.NoError(t, err)
		run(t, b, e)
		d.exec(t, "CREATE TABLE {}_orders (id VARCHAR(100) PRIMARY KEY)")

		odd := map[string]any{"text": "ä € 😀 \x00 \u2028 '\"`;--$1?", "n": math.MaxInt32, "f": 0.1, "deep": []any{map[string]any{"a": nil}}}
		write := func(id workflow.RunID) func(tx *sql.Tx) error {
			return func(tx *sql.Tx) error {
				_, err := tx.ExecContext(ctx, d.text("INSERT INTO {}_orders (id) VALUES ('"+string(id)+"')"))
				return errors.Join(err,
					pawlsql.Start(ctx, b.In(tx), workflow.Run{ID: id, Workflow: "order", Tenant: "t", Labels: map[string]string{"kunde": "ü"}}, odd),
					pawlsql.Signal(ctx, b.In(tx), id, workflow.Signal{Name: "paid", Payload: odd}),
				)
			}
		}
		d.in(t, false, write("not"))
		d.in(t, true, write("kept ünd"))
		d.in(t, true, func(tx *sql.Tx) error {
			return errors.Join(
				pawlsql.Start(ctx, b.In(tx), workflow.Run{ID: "off", Definition: define(t, order)}, nil),
				pawlsql.Cancel(ctx, b.In(tx), "off", "käse"),
			)
		})
		eventually(t, func() bool { return d.count(t, "SELECT COUNT(*) FROM {}_calls") == 0 })
		out, err := e.Wait(ctx, "kept ünd")
		require.NoError(t, err)
		require.NoError(t, out.Err())
		want := map[string]any{"text": odd["text"], "n": int64(math.MaxInt32), "f": 0.1, "deep": odd["deep"]}
		require.Equal(t, map[string]any{"got": want, "input": want}, out.Output)
		s, err := e.Summary(ctx, "kept ünd")
		require.NoError(t, err)
		require.Equal(t, "t", s.Tenant)
		require.Equal(t, map[string]string{"kunde": "ü"}, s.Labels)
		_, err = e.Summary(ctx, "not")
		require.ErrorIs(t, err, pawl.ErrRunNotFound)
		out, err = e.Wait(ctx, "off")
		require.NoError(t, err)
		require.Equal(t, workflow.RunCancelled, out.Status)
	})
}

// A child run is signalled and cancelled as another run is.
func TestCallsOfChildRuns(t *testing.T) {
	forEach(t, func(t *testing.T, d database) {
		ctx := t.Context()
		b := d.outbox(t)
		e := openEngine(t, harness.Workspace(t), nil)
		for _, text := range []string{order, "name: parent\nstart: below\nnodes: [{id: below, subworkflow: {name: order}, output: {output.below: result}}]\n"} {
			_, err := e.Publish(ctx, define(t, text))
			require.NoError(t, err)
		}
		run(t, b, e)
		childOf := func(parent workflow.RunID) (child workflow.RunID) {
			require.NoError(t, e.Start(ctx, workflow.Run{ID: parent, Workflow: "parent"}, nil))
			eventually(t, func() bool {
				for s, err := range e.Runs(ctx, pawl.RunFilter{Prefix: string(parent) + "/"}) {
					require.NoError(t, err)
					child = s.Run
				}
				return child != ""
			})
			return child
		}
		require.NoError(t, pawlsql.Signal(ctx, b.In(d.db), childOf("signalled"), workflow.Signal{Name: "paid", Payload: 7}))
		out, err := e.Wait(ctx, "signalled")
		require.NoError(t, err)
		require.Equal(t, map[string]any{"got": int64(7), "input": map[string]any{}}, out.Output["below"])
		off := childOf("cancelled")
		require.NoError(t, pawlsql.Cancel(ctx, b.In(d.db), off, "off"))
		out, err = e.Wait(ctx, off)
		require.NoError(t, err)
		require.Equal(t, workflow.RunCancelled, out.Status)
	})
}

// The id of a child run below others is longer than that of a run that is started: MySQL has no room for all of them, and must not shorten
// one.
func TestLongIDsOfChildRuns(t *testing.T) {
	forEach(t, func(t *testing.T, d database) {
		b := d.outbox(t)
		e := &recorder{}
		run(t, b, e)
		child := workflow.RunID(strings.Repeat("x", 255) + strings.Repeat("/1234.1", 16))
		err := pawlsql.Cancel(t.Context(), b.In(d.db), child, "")
		if d.kind == pawlsql.MySQL {
			require.ErrorIs(t, err, pawl.ErrInvalid)
			child = workflow.RunID(strings.Repeat("x", 248)) + "/1234.1"
			err = pawlsql.Cancel(t.Context(), b.In(d.db), child, "")
		}
		require.NoError(t, err)
		eventually(t, func() bool { return len(e.of(child)) == 1 })
	})
}

// A nil of any type counts as no input, as it does for the engine.
func TestInputsThatAreNil(t *testing.T) {
	d := openDatabase(t, pawlsql.SQLite)
	b := d.outbox(t)
	e := openEngine(t, harness.Workspace(t), nil)
	run(t, b, e)
	def := define(t, "name: w\nstart: a\nnodes: [{id: a, output: {output.input: input}}]\n")
	for i, input := range []any{nil, map[string]any(nil), (*struct{})(nil), json.RawMessage("null"), strings.NewReader(" null\n")} {
		id := workflow.RunID(fmt.Sprint("r", i))
		require.NoError(t, pawlsql.Start(t.Context(), b.In(d.db), workflow.Run{ID: id, Definition: def}, input))
		eventually(t, func() bool { return d.count(t, "SELECT COUNT(*) FROM {}_calls") == 0 })
		out, err := e.Wait(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, map[string]any{"input": map[string]any{}}, out.Output)
	}
}

// Any number of processes share the calls: each is made once, those of a run in their order.
func TestOrderOfRuns(t *testing.T) {
	forEach(t, func(t *testing.T, d database) {
		ctx := t.Context()
		runs, signals := 12, 20
		e := &recorder{during: func(context.Context, workflow.RunID) { runtime.Gosched() }}
		b := d.outbox(t)
		for range 3 {
			run(t, d.outbox(t, func(o *pawlsql.Options) { o.Lease = time.Minute }), e) // whose end would have calls made twice
		}
		var writers sync.WaitGroup
		for w := range 3 {
			writers.Go(func() {
				for s := -1; s < signals; s++ {
					for r := w; r < runs; r += 3 {
						id := workflow.RunID(fmt.Sprint("r", r))
						d.in(t, true, func(tx *sql.Tx) error {
							if s < 0 {
								return pawlsql.Start(ctx, b.In(tx), workflow.Run{ID: id, Workflow: "w"}, nil)
							}
							return pawlsql.Signal(ctx, b.In(tx), id, workflow.Signal{Name: fmt.Sprint("s", s)})
						})
					}
				}
			})
		}
		writers.Wait()
		eventually(t, func() bool { return d.count(t, "SELECT COUNT(*) FROM {}_calls") == 0 })
		for r := range runs {
			want := []string{"start w<nil>"}
			for s := range signals {
				want = append(want, fmt.Sprint("signal s", s))
			}
			require.Equal(t, want, e.of(workflow.RunID(fmt.Sprint("r", r))))
		}
	})
}

// Calls that were committed are made, and dropped, while another transaction of the host with a call stays open. SQLite has one writer at a
// time.
func TestOpenTransactions(t *testing.T) {
	forEach(t, func(t *testing.T, d database) {
		if d.kind == pawlsql.SQLite {
			t.Skip("a transaction that writes keeps all others from it")
		}
		ctx := t.Context()
		b := d.outbox(t)
		start := func(tx pawlsql.Tx, id workflow.RunID) {
			require.NoError(t, pawlsql.Start(ctx, tx, workflow.Run{ID: id, Workflow: "w"}, nil))
		}
		for i := range 20 {
			start(b.In(d.db), workflow.RunID(fmt.Sprint("r", i)))
		}
		d.exec(t, "UPDATE {}_calls SET state = 1 WHERE run = 'r0'")
		tx, err := d.db.BeginTx(ctx, nil)
		require.NoError(t, err)
		start(b.In(tx), "r0")
		require.NoError(t, pawlsql.Signal(ctx, b.In(d.db), "r0", workflow.Signal{Name: "s"}))
		id := refused(t, b, 1)[0].ID
		e := &recorder{}
		run(t, b, e)
		eventually(t, func() bool { return d.count(t, "SELECT COUNT(*) FROM {}_calls") == 2 })
		dropped, err := b.Drop(ctx, id)
		require.NoError(t, err)
		require.Equal(t, int64(2), dropped)
		require.NoError(t, tx.Commit())
		eventually(t, func() bool { return d.count(t, "SELECT COUNT(*) FROM {}_calls") == 0 })
		require.Equal(t, []string{"start w<nil>"}, e.of("r0"), "another start of the run stays")
	})
}

// A call whose id a server has given to another call, after it took over from the one that had the call, is not taken for it.
func TestIDsOfOthers(t *testing.T) {
	for what, answer := range map[string]error{"made": nil, "refused": pawl.ErrRunExists, "later": &pawl.TenantBusyError{Tenant: "t", Active: 1, Max: 1}} {
		t.Run(what, func(t *testing.T) {
			forEach(t, func(t *testing.T, d database) {
				b := d.outbox(t)
				var taken sync.Once
				e := &recorder{answer: func(id workflow.RunID, _ string) error {
					if id == "lost" {
						return answer
					}
					return nil
				}}
				e.during = func(_ context.Context, id workflow.RunID) {
					if id == "lost" {
						taken.Do(func() {
							_, err := d.db.ExecContext(t.Context(), d.text("UPDATE {}_calls SET run = 'other', created = created + 1, taker = '', due = 0 WHERE run = 'lost'"))
							assert.NoError(t, err)
						})
					}
				}
				require.NoError(t, pawlsql.Start(t.Context(), b.In(d.db), workflow.Run{ID: "lost", Workflow: "w"}, nil))
				run(t, b, e)
				eventually(t, func() bool { return d.count(t, "SELECT COUNT(*) FROM {}_calls") == 0 })
				require.Equal(t, []string{"start w<nil>"}, e.of("other"))
			})
		})
	}
}

// Calls that were made go also while that of another run cannot be noted: nobody repeats them.
func TestNotesThatWait(t *testing.T) {
	forEach(t, func(t *testing.T, d database) {
		if d.kind == pawlsql.SQLite {
			t.Skip("a row cannot be locked alone")
		}
		ctx := t.Context()
		b := d.outbox(t, func(o *pawlsql.Options) { o.Lease = 200 * time.Millisecond })
		require.NoError(t, pawlsql.Start(ctx, b.In(d.db), workflow.Run{ID: "held", Workflow: "w"}, nil))
		for i := range 5 {
			require.NoError(t, pawlsql.Start(ctx, b.In(d.db), workflow.Run{ID: workflow.RunID(fmt.Sprint(i)), Workflow: "w"}, nil))
		}
		held := d.count(t, "SELECT id FROM {}_calls WHERE run = 'held'")
		tx, err := d.db.BeginTx(ctx, nil)
		require.NoError(t, err)
		var locked sync.Once
		e := &recorder{answer: func(id workflow.RunID, _ string) error {
			if id == "held" {
				return pawl.ErrRunExists
			}
			return nil
		}}
		e.during = func(_ context.Context, id workflow.RunID) {
			if id == "held" {
				locked.Do(func() {
					_, err := tx.ExecContext(ctx, d.text(fmt.Sprint("UPDATE {}_calls SET tries = 7 WHERE id = ", held)))
					assert.NoError(t, err)
				})
			}
		}
		run(t, b, e)
		eventually(t, func() bool { return d.count(t, "SELECT COUNT(*) FROM {}_calls") == 1 })
		require.NoError(t, tx.Rollback())
		refused(t, b, 1)
	})
}

// A signal for which its run has no room waits, and no later one overtakes it; one that never has room is refused.
func TestFullRun(t *testing.T) {
	forEach(t, func(t *testing.T, d database) {
		ctx := t.Context()
		b := d.outbox(t)
		e := openEngine(t, harness.Workspace(t), nil)
		run(t, b, e)
		require.NoError(t, e.Start(ctx, workflow.Run{ID: "r", Definition: define(t, full)}, nil))
		text := strings.Repeat("x", 20)
		d.in(t, true, func(tx *sql.Tx) error {
			return errors.Join(
				pawlsql.Signal(ctx, b.In(tx), "r", workflow.Signal{Name: "paid", Payload: text + "1"}),
				pawlsql.Signal(ctx, b.In(tx), "r", workflow.Signal{Name: "paid", Payload: text + text}),
				pawlsql.Signal(ctx, b.In(tx), "r", workflow.Signal{Name: "paid", Payload: text + "2"}),
				pawlsql.Signal(ctx, b.In(tx), "r", workflow.Signal{Name: "paid", Payload: 3}),
			)
		})
		list := refused(t, b, 1)
		require.Equal(t, []string{"r signal too_large 0"}, list.words())
		require.Contains(t, string(list[0].Call), text+text)
		eventually(t, func() bool {
			return d.count(t, "SELECT COUNT(*) FROM {}_calls WHERE code = 'too_large' AND state = 0") == 1
		})
		require.NoError(t, e.Signal(ctx, "r", workflow.Signal{Name: "go"}))
		out, err := e.Wait(ctx, "r")
		require.NoError(t, err)
		require.Equal(t, map[string]any{"first": text + "1", "second": text + "2", "third": int64(3)}, out.Output)
	})
}

// full keeps one signal of 20 bytes and no second one.
const full = `
name: full
start: wait
limits: {signalBytes: 30}
nodes:
  - {id: wait, wait: {event: go}}
  - {id: first, wait: {event: paid}, output: {output.first: result.payload}}
  - {id: second, wait: {event: paid}, output: {output.second: result.payload}}
  - {id: third, wait: {event: paid}, output: {output.third: result.payload}}
transitions:
  - {from: wait, to: first}
  - {from: first, to: second}
  - {from: second, to: third}
`

// A run with more calls than are looked at, which has to wait, keeps no other waiting.
func TestLongRun(t *testing.T) {
	forEach(t, func(t *testing.T, d database) {
		ctx := t.Context()
		b := d.outbox(t)
		e := &recorder{answer: func(id workflow.RunID, call string) error {
			if id == "long" && strings.HasPrefix(call, "start") {
				return pawl.ErrRunExists
			}
			return nil
		}}
		d.in(t, true, func(tx *sql.Tx) error {
			err := pawlsql.Start(ctx, b.In(tx), workflow.Run{ID: "long", Workflow: "w"}, nil)
			for range 1100 {
				err = errors.Join(err, pawlsql.Signal(ctx, b.In(tx), "long", workflow.Signal{Name: "s"}))
			}
			return errors.Join(err, pawlsql.Start(ctx, b.In(tx), workflow.Run{ID: "other", Workflow: "w"}, nil))
		})
		run(t, b, e)
		eventually(t, func() bool { return len(e.of("other")) == 1 })
		require.Empty(t, e.of("long"))
	})
}

// A refused call stays with its code, and holds up nobody but those who need it.
func TestRefusals(t *testing.T) {
	forEach(t, func(t *testing.T, d database) {
		ctx := t.Context()
		b := d.outbox(t)
		e := openEngine(t, harness.Workspace(t), nil)
		run(t, b, e)
		d.in(t, true, func(tx *sql.Tx) error {
			return errors.Join(
				pawlsql.Start(ctx, b.In(tx), workflow.Run{ID: "a", Workflow: "order"}, nil),
				pawlsql.Signal(ctx, b.In(tx), "a", workflow.Signal{Name: "paid", Payload: 1}),
				pawlsql.Signal(ctx, b.In(tx), "none", workflow.Signal{Name: "paid"}),
				pawlsql.Start(ctx, b.In(tx), workflow.Run{ID: "b", Definition: define(t, order)}, nil),
				pawlsql.Signal(ctx, b.In(tx), "b", workflow.Signal{Name: "unknown"}),
				pawlsql.Signal(ctx, b.In(tx), "b", workflow.Signal{Name: "paid", Payload: 2}),
			)
		})
		eventually(t, func() bool { return d.count(t, "SELECT COUNT(*) FROM {}_calls") == 4 })
		out, err := e.Wait(ctx, "b")
		require.NoError(t, err)
		require.EqualValues(t, 2, out.Output["got"], "a refused signal holds up nothing")
		list := refused(t, b, 3)
		require.Equal(t, []string{"a start not_published 1", "none signal run_not_found 0", "b signal invalid_request 0"}, list.words())
		require.Contains(t, list[0].Message, "order")
		require.Contains(t, string(list[0].Call), `"workflow":"order"`)
		require.WithinDuration(t, time.Now(), list[0].Written, time.Minute)
		backlog, err := b.Backlog(ctx)
		require.NoError(t, err)
		require.Equal(t, [2]int64{1, 3}, [2]int64{backlog.Waiting, backlog.Refused})
		require.Positive(t, backlog.Oldest)

		_, err = e.Publish(ctx, define(t, order))
		require.NoError(t, err)
		require.NoError(t, b.Retry(ctx, list[0].ID))
		eventually(t, func() bool { return d.count(t, "SELECT COUNT(*) FROM {}_calls") == 2 })
		out, err = e.Wait(ctx, "a")
		require.NoError(t, err)
		require.EqualValues(t, 1, out.Output["got"])
		for _, r := range list[1:] {
			n, err := b.Drop(ctx, r.ID)
			require.NoError(t, err)
			require.EqualValues(t, 1, n)
			_, err = b.Drop(ctx, r.ID)
			require.ErrorIs(t, err, pawlsql.ErrNotRefused)
			require.ErrorIs(t, b.Retry(ctx, r.ID), pawlsql.ErrNotRefused)
		}
		eventually(t, func() bool { return d.count(t, "SELECT COUNT(*) FROM {}_calls") == 0 })
	})
}

// A call that waits behind a refused start is never taken as of another run of the same id.
func TestBehindARefusedStart(t *testing.T) {
	forEach(t, func(t *testing.T, d database) {
		ctx := t.Context()
		b := d.outbox(t)
		e := &recorder{answer: func(_ workflow.RunID, call string) error {
			if strings.HasPrefix(call, "start bad") {
				return pawl.ErrRunExists
			}
			return nil
		}}
		stop := run(t, b, e)
		d.in(t, true, func(tx *sql.Tx) error {
			return errors.Join(
				pawlsql.Signal(ctx, b.In(tx), "a", workflow.Signal{Name: "before"}),
				pawlsql.Start(ctx, b.In(tx), workflow.Run{ID: "a", Workflow: "bad"}, nil),
				pawlsql.Signal(ctx, b.In(tx), "a", workflow.Signal{Name: "of the bad"}),
				pawlsql.Start(ctx, b.In(tx), workflow.Run{ID: "a", Workflow: "good"}, nil),
				pawlsql.Signal(ctx, b.In(tx), "a", workflow.Signal{Name: "of the good"}),
			)
		})
		list := refused(t, b, 1)
		require.Equal(t, []string{"a start run_exists 3"}, list.words())
		stop()
		run(t, b, e)
		d.in(t, true, func(tx *sql.Tx) error {
			return pawlsql.Start(ctx, b.In(tx), workflow.Run{ID: "other", Workflow: "w"}, nil)
		})
		eventually(t, func() bool { return len(e.of("other")) == 1 })
		require.Equal(t, []string{"signal before"}, e.of("a"))
		n, err := b.Drop(ctx, list[0].ID)
		require.NoError(t, err)
		require.EqualValues(t, 2, n, "the start and its signal")
		eventually(t, func() bool { return d.count(t, "SELECT COUNT(*) FROM {}_calls") == 0 })
		require.Equal(t, []string{"signal before", "start good<nil>", "signal of the good"}, e.of("a"))
	})
}

// An engine that is busy for some gets their calls later, and those of others at once.
func TestBusy(t *testing.T) {
	forEach(t, func(t *testing.T, d database) {
		ctx := t.Context()
		b := d.outbox(t)
		times := 0
		e := &recorder{answer: func(id workflow.RunID, _ string) error {
			if times++; id == "busy" && times < 4 {
				return &pawl.TenantBusyError{Tenant: "t", Active: 1, Max: 1}
			}
			return nil
		}}
		for _, id := range []workflow.RunID{"busy", "other"} {
			d.in(t, true, func(tx *sql.Tx) error {
				return errors.Join(pawlsql.Start(ctx, b.In(tx), workflow.Run{ID: id, Workflow: "w"}, nil), pawlsql.Cancel(ctx, b.In(tx), id, ""))
			})
		}
		run(t, b, e)
		eventually(t, func() bool { return d.count(t, "SELECT COUNT(*) FROM {}_calls") == 0 })
		require.Equal(t, []string{"start w<nil>", "cancel "}, e.of("busy"))
		require.Equal(t, []string{"start w<nil>", "cancel "}, e.of("other"))
	})
}

// An engine that takes no calls any more ends Run, and the calls are at once those of another.
func TestClosedEngine(t *testing.T) {
	forEach(t, func(t *testing.T, d database) {
		ctx := t.Context()
		logger, silences := logSilences()
		b := d.outbox(t, func(o *pawlsql.Options) { o.Lease, o.Logger = longLease, logger })
		for i := range 5 {
			d.in(t, true, func(tx *sql.Tx) error {
				return pawlsql.Start(ctx, b.In(tx), workflow.Run{ID: workflow.RunID(fmt.Sprint(i)), Workflow: "w"}, nil)
			})
		}
		began := time.Now()
		err := b.Run(ctx, &recorder{answer: func(workflow.RunID, string) error { return pawl.ErrClosed }})
		require.ErrorIs(t, err, pawl.ErrClosed)
		run(t, b, &recorder{})
		eventually(t, func() bool { return d.count(t, "SELECT COUNT(*) FROM {}_calls") == 0 })
		requireSooner(t, began, silences)
	})
}

// The calls of a process that stands still are made by another one when the lease is over, and those that it makes then are
// repetitions.
func TestLease(t *testing.T) {
	forEach(t, func(t *testing.T, d database) {
		ctx := t.Context()
		short := func(o *pawlsql.Options) { o.Lease = 200 * time.Millisecond }
		held, goOn := make(chan struct{}), make(chan struct{})
		slow := &recorder{during: func(context.Context, workflow.RunID) {
			select {
			case held <- struct{}{}:
				<-goOn
			case <-goOn:
			}
		}}
		b := d.outbox(t, short)
		d.in(t, true, func(tx *sql.Tx) error {
			return errors.Join(
				pawlsql.Start(ctx, b.In(tx), workflow.Run{ID: "r", Workflow: "w"}, nil),
				pawlsql.Signal(ctx, b.In(tx), "r", workflow.Signal{Name: "s"}),
			)
		})
		stop := run(t, b, slow)
		<-held
		quick := &recorder{}
		run(t, d.outbox(t, short), quick)
		eventually(t, func() bool { return len(quick.of("r")) == 2 })
		close(goOn)
		eventually(t, func() bool { return d.count(t, "SELECT COUNT(*) FROM {}_calls") == 0 })
		stop()
		require.Equal(t, []string{"start w<nil>", "signal s"}, quick.of("r"))
		require.Subset(t, []string{"start w<nil>", "signal s"}, slow.of("r"))
		require.Equal(t, "start w<nil>", slow.of("r")[0])
	})
}

// A body that is damaged by hand is refused, and nobody else waits.
func TestDamagedRow(t *testing.T) {
	forEach(t, func(t *testing.T, d database) {
		b := d.outbox(t)
		for _, values := range []string{"'a', 'start', '{'", "'b', 'start', '{\"input\": {\"a\": 1e999}}'", "'c', 'vote', '{}'"} {
			d.exec(t, "INSERT INTO {}_calls (run, kind, body, created) VALUES ("+values+", 0)")
		}
		run(t, b, &recorder{})
		list := refused(t, b, 3)
		require.Equal(t, []string{"a start invalid_request 0", "b start invalid_request 0", "c vote invalid_request 0"}, list.words())
	})
}

type refusals []pawlsql.Refusal

func (l refusals) words() (out []string) {
	for _, r := range l {
		out = append(out, fmt.Sprint(r.Run, " ", r.Kind, " ", r.Code, " ", r.Behind))
	}
	return out
}

// refused waits until n calls are refused.
func refused(t testing.TB, b *pawlsql.Outbox, n int) (out refusals) {
	t.Helper()
	eventually(t, func() bool {
		out = nil
		for r, err := range b.Refused(t.Context()) {
			require.NoError(t, err)
			out = append(out, r)
		}
		return len(out) == n
	})
	return out
}
