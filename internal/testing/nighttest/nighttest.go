// Package nighttest fills an engine directory as people find one in the middle of the night: 37 orders do not move, for seven reasons;
// others have failed since a version of the workflow quotes wrongly; and charges take ten times as long as the day before.
package nighttest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/workflow"
)

// Orders that do not move, and how many there are for each reason: charge or ship is parked, an approval, a signal, branches that cannot
// come, a retry and a timer are waited for.
const (
	PayDown     = 14
	CarrierDown = 9
	Large       = 6
	Unpaid      = 4
	Unmet       = 2
	Again       = 1
	Held        = 1

	Stuck = PayDown + CarrierDown + Large + Unpaid + Unmet + Again + Held
)

// The other orders: those of each day that were completed, and those that have failed, Bad among them.
const (
	Completed = 40
	Failed    = 3

	Bad workflow.RunID = "bad-3"
)

// order is the workflow. Its second version takes the quote from another task, and ends where a charge fails.
const order = `
name: order
version: %d
start: quote
nodes:
  - {id: quote, task: %s, input: {amount: input.amount}}
  - {id: approve, approval: {message: "A large order. Shall it be shipped?"}}
  - {id: paid, wait: {event: paid}}
  - {id: hold, wait: {for: 12h}}
  - {id: notify, task: notify, retry: {maxAttempts: 3, initialInterval: 12h}}
  - {id: left}
  - {id: right}
  - {id: both, join: all}
  - {id: away}
  - {id: charge, task: charge, input: {price: nodes.quote.output.price}, retry: {maxAttempts: 1, exhausted: %s}}
  - {id: ship, task: ship, retry: {maxAttempts: 1, exhausted: park}}
  - {id: refused, end: {codeExpr: error.code, messageExpr: error.message}}
transitions:
  - {from: quote, to: approve, condition: input.way == "large"}
  - {from: quote, to: paid, condition: 'input.way in ["unpaid", "unmet"]'}
  - {from: quote, to: hold, condition: input.way == "held"}
  - {from: quote, to: notify, condition: input.way == "again"}
  - {from: quote, to: left, condition: input.way == "unmet"}
  - {from: quote, to: right, condition: input.way == "unmet"}
  - {from: quote, to: charge, priority: 1}
  - {from: left, to: both}
  - {from: right, to: both, condition: "false"}
  - {from: right, to: away, priority: 1}
  - {from: approve, to: charge}
  - {from: paid, to: charge}
  - {from: hold, to: charge}
  - {from: notify, to: charge}
  - {from: charge, to: ship}
  - {from: charge, to: refused, outcome: error, errors: [bad_amount]}
`

// A night fills a directory.
type night struct {
	engine *pawl.Engine
	now    atomic.Int64  // nanoseconds
	charge time.Duration // how long a charge takes
}

// Fill makes the directory, as if the last 26 hours until an instant had passed in it.
func Fill(ctx context.Context, dir string, until time.Time) (err error) {
	n := &night{}
	n.now.Store(until.Add(-26 * time.Hour).UnixNano())
	hook := &testhook.Hook{}
	hook.OnNow(func() time.Time { return time.Unix(0, n.now.Load()).UTC() })
	ctx = testhook.With(ctx, hook)
	n.engine, err = pawl.Open(ctx, dir, pawl.Options{Durability: pawl.ProcessCrash, Concurrency: 1, Executor: n.makeHandlers()})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.engine.Close(ctx)) }()
	if err := n.publishVersion(ctx, 1, "quote", "park"); err != nil {
		return err
	}
	n.charge = 200 * time.Millisecond
	if err := n.startKind(ctx, kind{"yesterday", Completed, workflow.EventWorkflowCompleted}); err != nil {
		return err
	}
	n.charge = 2 * time.Second // no task is out
	n.now.Store(until.Add(-50 * time.Minute).UnixNano())
	if err := n.startKind(ctx, kind{"today", Completed, workflow.EventWorkflowCompleted}); err != nil {
		return err
	}
	return n.startStuck(ctx)
}

// A kind of orders that do not move, or fail.
type kind struct {
	name string
	n    int
	last workflow.EventType // after which nothing moves
}

// startStuck begins the orders that do not move, and those that fail.
func (n *night) startStuck(ctx context.Context) error {
	for _, k := range []kind{
		{"paydown", PayDown, workflow.EventTaskParked}, {"carrier", CarrierDown, workflow.EventTaskParked}, {"large", Large, workflow.EventApprovalRequested},
		{"unpaid", Unpaid, workflow.EventTokenWaiting}, {"unmet", Unmet, workflow.EventTaskCompleted}, {"again", Again, workflow.EventTaskRetrying}, {"held", Held, workflow.EventTokenWaiting},
	} {
		if err := n.startKind(ctx, k); err != nil {
			return err
		}
	}
	if err := n.publishVersion(ctx, 2, "quote-2", "fail"); err != nil {
		return err
	}
	return n.startKind(ctx, kind{"bad", Failed, workflow.EventWorkflowFailed})
}

// publishVersion publishes a version of the workflow.
func (n *night) publishVersion(ctx context.Context, version int, quote, exhausted string) error {
	d, err := workflow.ParseYAML(fmt.Appendf(nil, order, version, quote, exhausted))
	if err != nil {
		return err
	}
	_, err = n.engine.Publish(ctx, d)
	return err
}

// startKind begins orders, and returns when nothing of them moves by itself.
func (n *night) startKind(ctx context.Context, k kind) error {
	for i := range k.n {
		n.now.Add(int64(time.Second))
		run := workflow.Run{ID: workflow.RunID(fmt.Sprintf("%s-%d", k.name, i+1)), Workflow: "order", Labels: map[string]string{"shop": []string{"north", "south"}[i%2]}}
		if err := n.engine.Start(ctx, run, map[string]any{"amount": 12, "way": k.name}); err != nil {
			return err
		}
		if err := n.await(ctx, run.ID, k.last); err != nil {
			return err
		}
	}
	return nil
}

// await returns when a run has had an event.
func (n *night) await(ctx context.Context, id workflow.RunID, last workflow.EventType) error {
	for e, err := range n.engine.Events(ctx, id, pawl.EventsOptions{Follow: true}) {
		if err != nil || e.Type == last {
			return err
		}
	}
	return fmt.Errorf("%s has ended without %s", id, last)
}

// makeHandlers returns what performs the tasks. Time passes only in them.
func (n *night) makeHandlers() pawl.Handlers {
	return pawl.Handlers{"*": func(_ context.Context, t pawl.Task) (any, error) {
		switch t.Type {
		case "quote":
			n.now.Add(int64(20 * time.Millisecond))
			return map[string]any{"price": 12}, nil
		case "quote-2":
			return map[string]any{"price": 0}, nil
		case "charge":
			n.now.Add(int64(n.charge))
		default:
			n.now.Add(int64(300 * time.Millisecond))
		}
		return nil, failureOf(t)
	}}
}

// failureOf returns why a task fails, which is in the id of its run; nil if it does not.
func failureOf(t pawl.Task) error {
	name, number, _ := strings.Cut(string(t.Run), "-")
	switch name + " at " + string(t.Node) {
	case "bad at charge":
		return pawl.TaskError{Code: "bad_amount", Message: "nothing is to be charged"}
	case "paydown at charge":
		return pawl.TaskError{Code: "pay_down", Message: "the bank does not answer for order " + number, Retryable: true}
	case "carrier at ship":
		return pawl.TaskError{Code: "carrier_down", Message: "the carrier does not answer for order " + number, Retryable: true}
	case "again at notify":
		return pawl.TaskError{Code: "mail_down", Message: "the mail server does not answer", Retryable: true}
	}
	return nil
}
