package pg_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/cluster"
	"github.com/pawl-run/pawl/pg"
	"github.com/pawl-run/pawl/workflow"
)

// nodeOf is the environment variable that makes the test binary a node: a nodeOrder.
const nodeOf = "PAWLPG_NODE"

// A nodeOrder is what a process is told that is a node.
type nodeOrder struct {
	URL, Dir, Name string
	Rebase         time.Duration
}

// openNode opens a node of a cluster whose tasks of type work are performed by work.
func openNode(ctx context.Context, db *pg.Database, o nodeOrder, work func(context.Context, pawl.Task) (any, error), report func(cluster.Status)) (*cluster.Node, error) {
	b, err := db.OpenBackend(ctx, "orders")
	if err != nil {
		return nil, err
	}
	return cluster.Open(ctx, filepath.Join(o.Dir, o.Name), b, cluster.Options{
		Node: o.Name, Term: time.Second, Report: report,
		API: api.Options{Identify: func(*http.Request) (string, api.Rights, error) { return "", 0, errors.New("nobody") }},
		Engine: pawl.Options{
			Durability: pawl.ProcessCrash, Executor: pawl.Handlers{"work": work}, Logger: slog.New(slog.DiscardHandler),
			Remote: pawl.RemoteOptions{Rebase: o.Rebase},
		},
	})
}

// The reports of a process that is a node, a line each: a word, and for some words more.
const (
	saysBegun  = "begun"  // a task of a run is performed
	saysAcked  = "acked"  // a run was started: when the call began, and how long it took, in ns
	saysEnded  = "ended"  // a run has ended as it should
	saysFailed = "failed" // something that is worth knowing when a test fails
)

// How many runs such a node executes at a time, and how many tasks each has.
const (
	runsAtATime = 4
	tasksOfRun  = 3
)

// fanOut is a definition with a task of type work per element of the input.
const fanOut = `
name: fan
start: each
nodes:
  - {id: each}
  - {id: work, task: work, input: {n: item}, retry: {maxAttempts: 3}}
  - {id: sum, output: {output.results: state.results}}
transitions:
  - {from: each, to: work, foreach: {collection: input.items}, siblingGroup: all}
  - {from: work, to: sum, synchronization: {siblingGroup: all, merge: {target: state.results, strategy: collect}}}
`

// number performs a task: its result is its input.
func number(_ context.Context, t pawl.Task) (any, error) { return t.Input.(map[string]any)["n"], nil }

func items(n int) map[string]any {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return map[string]any{"items": list}
}

// nodeAsProcess is a node that executes run after run while it has the engine, and says so.
func nodeAsProcess(order string) error {
	var o nodeOrder
	if err := json.Unmarshal([]byte(order), &o); err != nil {
		return err
	}
	ctx, changed := context.Background(), make(chan struct{}, 1)
	report := func(cluster.Status) {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	work := func(ctx context.Context, t pawl.Task) (any, error) {
		fmt.Println(saysBegun, t.Run)
		return number(ctx, t)
	}
	var n *cluster.Node
	for n == nil { // until it is killed: the server may be away
		db, err := pg.Open(ctx, o.URL, pg.Options{})
		if err == nil {
			if n, err = openNode(ctx, db, o, work, report); err != nil {
				db.Close()
			}
		}
		if err != nil {
			fmt.Println(saysFailed, fmt.Sprintf("%q", err))
			<-time.After(50 * time.Millisecond)
		}
	}
	def, err := workflow.ParseYAML([]byte(fanOut))
	if err != nil {
		return err
	}
	for i := 0; ; i++ {
		e, last := n.Engine(), ""
		for e == nil {
			select {
			case <-changed:
			case <-time.After(time.Second): // what fails again and again is not reported
			}
			if now := fmt.Sprintf("%+v", n.Status()); now != last {
				fmt.Println(saysFailed, now)
				last = now
			}
			e = n.Engine()
		}
		var all sync.WaitGroup
		for at := range runsAtATime {
			all.Go(func() { executeRun(e, def, workflow.RunID(fmt.Sprintf("%s-%d-%d-%d", o.Name, os.Getpid(), i, at))) })
		}
		all.Wait()
	}
}

// executeRun executes a run, and says what is acknowledged of it.
func executeRun(e *pawl.Engine, def *workflow.Definition, id workflow.RunID) {
	began := time.Now()
	err := e.Start(context.Background(), workflow.Run{ID: id, Definition: def}, items(tasksOfRun))
	if err != nil {
		fmt.Println(saysFailed, fmt.Sprintf("%q", err))
		return
	}
	fmt.Println(saysAcked, id, began.UnixNano(), int64(time.Since(began)))
	out, err := e.Wait(context.Background(), id)
	switch {
	case err != nil:
		fmt.Println(saysFailed, fmt.Sprintf("%q", err))
	case out.Status != workflow.RunCompleted:
		fmt.Println(saysFailed, id, out.Status)
	default:
		fmt.Println(saysEnded, id)
	}
}
