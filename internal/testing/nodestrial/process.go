//go:build unix

package nodestrial

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
	"github.com/pawl-run/pawl/workflow"
)

// variable is the environment variable that makes the test binary a node: a nodeOrder.
const variable = "PAWL_NODE"

// A nodeOrder is what a process is told that is a node.
type nodeOrder struct {
	Address, Dir, Name string
	Term, Rebase       time.Duration
}

// The reports of a process that is a node, a line each: a word, and for some words more.
const (
	saysBegun  = "begun"  // a task of a run is performed
	saysAcked  = "acked"  // a run was started: when the call began, and how long it took, in ns
	saysEnded  = "ended"  // a run has ended as it should
	saysFailed = "failed" // something that is worth knowing when a test fails
)

// runsAtATime is how many runs a node executes at a time, and TasksOfRun how many tasks each has.
const (
	runsAtATime = 4
	TasksOfRun  = 3
)

// FanOut is a definition with a task of type work per element of the input.
const FanOut = `
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

// MakeInput returns the input of a run of FanOut with so many tasks.
func MakeInput(tasks int) map[string]any {
	list := make([]int, tasks)
	for i := range list {
		list[i] = i
	}
	return map[string]any{"items": list}
}

// ReturnNumber performs a task: its result is its input.
func ReturnNumber(_ context.Context, t pawl.Task) (any, error) {
	return t.Input.(map[string]any)["n"], nil
}

// openNode opens a node of a cluster whose tasks of type work are performed by work.
func openNode(b cluster.Backend, o nodeOrder, work func(context.Context, pawl.Task) (any, error), report func(cluster.Status)) (*cluster.Node, error) {
	return cluster.Open(context.Background(), filepath.Join(o.Dir, o.Name), b, cluster.Options{
		Node: o.Name, Term: o.Term, Report: report,
		API: api.Options{Identify: func(*http.Request) (string, api.Rights, error) { return "", 0, errors.New("nobody") }},
		Engine: pawl.Options{
			Durability: pawl.ProcessCrash, Executor: pawl.Handlers{"work": work}, Logger: slog.New(slog.DiscardHandler),
			Remote: pawl.RemoteOptions{Rebase: o.Rebase},
		},
	})
}

// ServeChild makes this process a node, if a trial has started it as one, and returns only otherwise. connect reaches the servers at an address that
// Setting.Links has returned; it is tried until it succeeds.
func ServeChild(connect func(ctx context.Context, address string) (cluster.Backend, error)) {
	if order := os.Getenv(variable); order != "" {
		fmt.Fprintln(os.Stderr, serveNode(order, connect))
		os.Exit(1)
	}
}

// serveNode is a node that executes run after run while it has the engine, and says so, until it is killed.
func serveNode(order string, connect func(context.Context, string) (cluster.Backend, error)) error {
	var o nodeOrder
	if err := json.Unmarshal([]byte(order), &o); err != nil {
		return err
	}
	def, err := workflow.ParseYAML([]byte(FanOut))
	if err != nil {
		return err
	}
	ctx := context.Background()
	changed, report := newReport()
	work := func(ctx context.Context, t pawl.Task) (any, error) {
		fmt.Println(saysBegun, t.Run)
		return ReturnNumber(ctx, t)
	}
	b, err := connect(ctx, o.Address)
	for ; err != nil; b, err = connect(ctx, o.Address) { // the servers may be away, or look for a leader
		fmt.Println(saysFailed, fmt.Sprintf("%q", err))
		<-time.After(50 * time.Millisecond)
	}
	n, err := openNode(b, o, work, report)
	if err != nil {
		return err
	}
	for i := 0; ; i++ {
		e := awaitEngine(n, changed)
		var all sync.WaitGroup
		for at := range runsAtATime {
			all.Go(func() { executeRun(e, def, workflow.RunID(fmt.Sprintf("%s-%d-%d-%d", o.Name, os.Getpid(), i, at))) })
		}
		all.Wait()
	}
}

// newReport returns a report for a node that never waits, and the channel that it writes to.
func newReport() (changed <-chan struct{}, report func(cluster.Status)) {
	signals := make(chan struct{}, 1)
	return signals, func(cluster.Status) {
		select {
		case signals <- struct{}{}:
		default:
		}
	}
}

// awaitEngine returns the engine when the node has it, and says how the node is meanwhile.
func awaitEngine(n *cluster.Node, changed <-chan struct{}) *pawl.Engine {
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
	return e
}

// executeRun executes a run, and says what is acknowledged of it.
func executeRun(e *pawl.Engine, def *workflow.Definition, id workflow.RunID) {
	began := time.Now()
	err := e.Start(context.Background(), workflow.Run{ID: id, Definition: def}, MakeInput(TasksOfRun))
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
