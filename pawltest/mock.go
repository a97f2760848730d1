package pawltest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/expr"
	"github.com/pawl-run/pawl/workflow"
)

// A call is an attempt of a task that a mock performs, from when the engine
// hands it over until it is answered or given up.
type call struct {
	pawl.Task
	life   int // of the engine
	entry  mock
	due    time.Time // when it is answered
	beat   time.Time // when it says next that it is alive; zero if never
	late   bool      // it is answered at a later instant than it came at
	answer chan answer
}

type answer struct {
	output any
	err    error
}

// A promise is what an attempt was found to come to, for when it is handed over
// again.
type promise struct {
	entry mock
	due   time.Time
}

// errCrashed ends the tasks of an engine that has crashed.
var errCrashed = errors.New("the process has crashed")

// newHandler returns the handler of all tasks in one life of the engine: it hands
// the task to the driver and waits for the answer.
func (d *driver) newHandler(life int) func(context.Context, pawl.Task) (any, error) {
	return func(ctx context.Context, t pawl.Task) (any, error) {
		c := &call{Task: t, life: life, answer: make(chan answer, 1)}
		d.mu.Lock()
		if d.life == life && !d.crashed {
			d.arrived = append(d.arrived, c)
		}
		d.mu.Unlock()
		d.wakeDriver()
		select {
		case a := <-c.answer:
			return c.resultOf(ctx, a)
		case <-ctx.Done():
			d.mu.Lock()
			defer d.mu.Unlock()
			d.arrived = removeCall(d.arrived, c)
			d.calls = removeCall(d.calls, c)
			return nil, errors.Join(errCrashed, context.Cause(ctx))
		}
	}
}

// resultOf adds the metadata of a mock to its answer, and its artifacts if that is no error.
func (c *call) resultOf(ctx context.Context, a answer) (any, error) {
	if len(c.entry.Artifacts) == 0 && !c.entry.Metadata.set {
		return a.output, a.err
	}
	r := c.entry.reported(a.output)
	if a.err != nil {
		return r, a.err
	}
	for _, name := range slices.Sorted(maps.Keys(c.entry.Artifacts)) {
		ref, err := c.Put(ctx, strings.NewReader(c.entry.Artifacts[name]), "text/plain")
		if err != nil {
			return nil, err
		}
		r.Artifacts = append(r.Artifacts, pawl.Artifact{Name: name, Blob: ref})
	}
	return r, nil
}

// reported returns an output with the metadata of the mock.
func (m *mock) reported(output any) pawl.Result { return resultWith(output, m.Metadata) }

func resultWith(output any, metadata optional) pawl.Result {
	r := pawl.Result{Output: output}
	r.Metadata, _ = metadata.value.(map[string]any)
	return r
}

func removeCall(calls []*call, c *call) []*call {
	return slices.DeleteFunc(calls, func(x *call) bool { return x == c })
}

// admitCalls decides what the calls come to that have arrived since the last time. It
// takes them in the order of their runs and tokens, so that it does not matter
// which goroutine was first.
func (d *driver) admitCalls() error {
	d.mu.Lock()
	arrived := d.arrived
	d.arrived = nil
	d.mu.Unlock()
	slices.SortFunc(arrived, func(a, b *call) int {
		return cmp.Or(compareRuns(a.Run, b.Run), cmp.Compare(tokenOf(a.Key), tokenOf(b.Key)), cmp.Compare(a.Attempt, b.Attempt))
	})
	now := time.Now()
	for _, c := range arrived {
		p, again := d.promises[c.Key]
		if !again {
			p.entry = d.takeMock(c)
		}
		if !again || !d.resume {
			p.due = now.Add(p.entry.Delay)
		}
		d.promises[c.Key] = p
		d.noteKey(c)
		c.entry, c.due, c.late = p.entry, p.due, p.due.After(now)
		if c.entry.Heartbeats > 0 {
			c.beat = now.Add(c.entry.Heartbeats)
		}
	}
	d.mu.Lock()
	d.calls = append(d.calls, arrived...)
	d.mu.Unlock()
	return nil
}

// otherIndices is the key of byIndex for the branches that have no list of their own.
const otherIndices = "*"

// takeMock returns the entry of the mocks of a node that a new call takes.
func (d *driver) takeMock(c *call) mock {
	m, ok := d.scenario.document.Mocks[string(c.Node)]
	if !ok {
		return mock{}
	}
	list, counted := m.calls, string(c.Node)
	if m.byIndex != nil {
		index := strconv.Itoa(c.Branch.Index)
		if list, ok = m.byIndex[index]; !ok {
			list = m.byIndex[otherIndices]
		}
		counted += "\x00" + index
	}
	k := d.taken[counted]
	d.taken[counted]++
	if len(list) == 0 {
		return mock{}
	}
	return list[min(k, len(list)-1)]
}

// answerOf returns what a call comes to.
func (d *driver) answerOf(c *call) answer {
	m := c.entry
	switch {
	case m.Error != nil:
		return answer{err: m.Error.taskError()}
	case m.Snooze > 0:
		return answer{err: pawl.Snooze(m.Snooze)}
	case m.Expr != nil:
		v, err := m.Expr.Eval(d.variablesOf(c))
		if err != nil {
			return answer{err: pawl.TaskError{Code: "mock", Message: fmt.Sprintf("expr %s: %v", m.Expr.Source(), err)}}
		}
		return answer{output: v}
	}
	return answer{output: m.Output.orElse(c.Input)}
}

func (m *mockError) taskError() error {
	return pawl.TaskError{
		Code: cmp.Or(m.Code, workflow.CodeError), Message: m.Message,
		Retryable: m.Retryable == nil || *m.Retryable, RetryAfter: m.RetryAfter,
	}
}

// variablesOf returns what the expr of a mock may use. item and index are those of
// the innermost branch that has an element.
func (d *driver) variablesOf(c *call) expr.Map {
	v := expr.Map{"input": c.Input, "attempt": int64(c.Attempt), "details": c.Details}
	if c.Branch.Total == 0 {
		return v
	}
	v["index"] = int64(c.Branch.Index)
	branch := map[string]any{"index": int64(c.Branch.Index), "total": int64(c.Branch.Total)}
	of := subject{engine: d.engine, run: c.Run, copied: d.copied}
	snap, err := of.inspectRun(d.ctx)
	if err != nil {
		return v
	}
	groups := map[workflow.GroupID]pawl.Group{}
	for _, g := range snap.Groups {
		groups[g.ID] = g
	}
	scope := scopeOf(snap, tokenOf(c.Key))
	branch["group"] = groups[scope.Group].Name
	v["branch"] = branch
	items := of.branchItems(d.ctx)
	for ; scope.Group != 0; scope = groups[scope.Group].Scope {
		if list := items[scope.Group]; scope.Branch < len(list) {
			v["item"] = list[scope.Branch]
			break
		}
	}
	return v
}

func scopeOf(snap pawl.Snapshot, id workflow.TokenID) workflow.Scope {
	for i := range snap.Tokens {
		if snap.Tokens[i].ID == id {
			return snap.Tokens[i].Scope
		}
	}
	return workflow.Scope{}
}
