package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

// pawlSystem is pawl. This file and version.go have all that the workloads use of it, and with -against
// they are compiled in another checkout too: this one keeps to what both have.
func pawlSystem() System { return System{Open: openPawl, CountFiled: countRunFiles} }

type pawlEngine struct {
	engine *pawl.Engine

	mu     sync.Mutex
	shapes shapes
}

func openPawl(ctx context.Context, c Config) (Engine, error) {
	perform := func(_ context.Context, t pawl.Task) (any, error) {
		index, err := strconv.Atoi(string(t.Node[1:]))
		if err != nil {
			return nil, err
		}
		return c.Perform(Task{Run: string(t.Run), Index: index, Branch: t.Branch.Index})
	}
	o := pawl.Options{Executor: pawl.Handlers{"work": perform}, IdleAfter: c.IdleAfter, Durability: pawl.ProcessCrash}
	if c.PowerLoss {
		o.Durability = pawl.PowerLoss
	}
	e, err := pawl.Open(ctx, c.Dir, o)
	if err != nil {
		return nil, err
	}
	return &pawlEngine{engine: e, shapes: shapes{}}, nil
}

func (e *pawlEngine) Start(ctx context.Context, id string, s Shape) error {
	var input any
	if s.Kind == Fanout {
		input = map[string]any{"items": make([]int, s.Tasks)}
	}
	run, err := e.runOf(id, s)
	if err != nil {
		return err
	}
	return e.engine.Start(ctx, run, input)
}

func defineShape(s Shape) *workflow.Definition {
	d := &workflow.Definition{Name: string(s.Kind), Start: nodeID(0)}
	switch s.Kind {
	case Chain:
		for i := range s.Tasks {
			d.Nodes = append(d.Nodes, workflow.Node{ID: nodeID(i), Task: "work"})
			if i > 0 {
				d.Transitions = append(d.Transitions, workflow.Transition{From: nodeID(i - 1), To: nodeID(i)})
			}
		}
	case Fanout:
		d.Start = "split"
		d.Nodes = []workflow.Node{{ID: "split"}, {ID: nodeID(0), Task: "work"}, {ID: "done"}}
		d.Transitions = []workflow.Transition{
			{From: "split", To: nodeID(0), SiblingGroup: "g", Foreach: &workflow.Foreach{Collection: "input.items"}},
			{From: nodeID(0), To: "done", Synchronization: &workflow.Synchronization{
				SiblingGroup: "g", Merge: &workflow.Merge{Target: "state.results", Strategy: "collect"},
			}},
		}
		d.Output.Mapping = map[string]string{"results": "state.results"}
	case Waiting:
		d.Nodes = []workflow.Node{
			{ID: nodeID(0), Task: "work"}, {ID: "wait", Wait: &workflow.WaitSpec{Event: "go"}}, {ID: nodeID(1), Task: "work"},
		}
		d.Transitions = []workflow.Transition{{From: nodeID(0), To: "wait"}, {From: "wait", To: nodeID(1)}}
	default:
		panic(fmt.Sprintf("bench: unknown kind %q", s.Kind))
	}
	return d
}

func nodeID(i int) workflow.NodeID { return workflow.NodeID("n" + strconv.Itoa(i)) }

func (e *pawlEngine) Wait(ctx context.Context, id string) ([]int, error) {
	out, err := e.engine.Wait(ctx, workflow.RunID(id))
	if err != nil {
		return nil, err
	}
	if err := out.Err(); err != nil {
		return nil, err
	}
	text, err := json.Marshal(out.Output["results"])
	if err != nil {
		return nil, err
	}
	var results []int
	err = json.Unmarshal(text, &results)
	return results, err
}

func (e *pawlEngine) Signal(ctx context.Context, id string) error {
	return e.engine.Signal(ctx, workflow.RunID(id), workflow.Signal{Name: "go"})
}

// Attach has nothing to do: pawl needs no handle.
func (e *pawlEngine) Attach(context.Context, string) error { return nil }

func (e *pawlEngine) Info(ctx context.Context, id string) (Info, error) {
	s, err := e.engine.Inspect(ctx, workflow.RunID(id))
	return Info{Steps: int(s.Seq), Ended: s.Status.Final()}, err
}

func (e *pawlEngine) ListFailed(ctx context.Context) ([]string, error) {
	var ids []string
	for s, err := range e.engine.Runs(ctx, pawl.RunFilter{Status: []workflow.RunStatus{workflow.RunFailed}}) {
		if err != nil {
			return nil, err
		}
		ids = append(ids, string(s.Run))
	}
	return ids, nil
}

func (e *pawlEngine) Close(ctx context.Context) error { return e.engine.Close(ctx) }

// countRunFiles counts the files of runs.
func countRunFiles(dir string) (int, error) {
	n := 0
	err := filepath.WalkDir(filepath.Join(dir, "runs"), func(path string, _ fs.DirEntry, err error) error {
		if filepath.Ext(path) == ".db" {
			n++
		}
		return err
	})
	return n, err
}
