package natstest

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

	"github.com/nats-io/nats.go"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	pawlcluster "github.com/pawl-run/pawl/cluster"
	"github.com/pawl-run/pawl/nats/natscluster"
	"github.com/pawl-run/pawl/workflow"
)

// A nodeOrder is what a process is told that is a node.
type nodeOrder struct {
	URL, Dir, Name string
	Rebase         time.Duration
}

// openNode opens a node of a cluster whose tasks of type work are performed by work.
func openNode(conn *nats.Conn, o nodeOrder, work func(context.Context, pawl.Task) (any, error), report func(pawlcluster.Status)) (*pawlcluster.Node, error) {
	b, err := natscluster.Open(context.Background(), conn, natscluster.Options{Replicas: 3})
	if err != nil {
		return nil, err
	}
	return pawlcluster.Open(context.Background(), filepath.Join(o.Dir, o.Name), b, pawlcluster.Options{
		Node: o.Name, Term: 2 * time.Second, Report: report,
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

// nodeAsProcess is a node that executes run after run while it has the engine, and says so.
func nodeAsProcess(order string) int {
	var o nodeOrder
	if err := json.Unmarshal([]byte(order), &o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println("ready") // the servers may come later
	conn, err := nats.Connect(o.URL, nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond), nats.RetryOnFailedConnect(true))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	changed := make(chan struct{}, 1)
	report := func(pawlcluster.Status) {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	work := func(_ context.Context, t pawl.Task) (any, error) {
		fmt.Println(saysBegun, t.Run)
		return t.Input.(map[string]any)["n"], nil
	}
	n, err := openNode(conn, o, work, report)
	for ; err != nil; n, err = openNode(conn, o, work, report) { // until it is killed
		fmt.Println(saysFailed, fmt.Sprintf("%q", err)) // the servers may look for a leader
		<-time.After(100 * time.Millisecond)
	}
	def, err := workflow.ParseYAML([]byte(fanOut))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
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
			all.Go(func() { executeOnce(e, def, workflow.RunID(fmt.Sprintf("%s-%d-%d-%d", o.Name, os.Getpid(), i, at))) })
		}
		all.Wait()
	}
}

// executeOnce executes a run, and says what is acknowledged of it.
func executeOnce(e *pawl.Engine, def *workflow.Definition, id workflow.RunID) {
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

// How many runs such a node executes at a time, and how many tasks each has.
const (
	runsAtATime = 4
	tasksOfRun  = 3
)
