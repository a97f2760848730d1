package crashtest

import (
	"context"
	"slices"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testing/harness/witness"
	"github.com/pawl-run/pawl/workflow"
)

// A work is what the processes of one trial do: some runs that each end the same
// way however often the processes die.
type work struct {
	name    string
	runs    []witness.Job
	idle    time.Duration           // before a run passivates; 0 is the default
	closes  bool                    // the child closes the engine when the first task holds
	cancels workflow.RunID          // the run that is cancelled as soon as it has started
	alone   map[workflow.RunID]bool // runs that must go on without a Start
	calls   []string                // files of the definitions that the runs call
	parts   int64                   // bytes from which records are put aside, and then two leave the log at a time; 0 is the default
	forks   []forking               // which are made when the runs have ended
	follows bool                    // a copy follows the directory
	feeds   bool                    // events are published
	remote  bool                    // commits are kept in a log outside of the directory, which is lost in the end
	attach  bool                    // the first life has no log yet
	shorten bool                    // the log has lost its last entries when a life begins, which the directory has
	sealed  bool                    // values are encrypted, and no file may hold a secret
	first   int                     // as many runs end, and the engine is closed, before it opens again, with the others, and is backed up
}

// A forking is a fork of a run as of a record that it always has.
type forking struct {
	id, of workflow.RunID
	at     int64
}

type object = map[string]any

var long = witness.Long

var works = []work{
	{name: "chain", runs: witness.Jobs("chain", object{"v": 1, "long": long}, object{"v": 2, "long": ""},
		object{"v": 3, "long": long}, object{"v": 4, "long": long}, object{"v": 5, "long": ""}, object{"v": 6, "long": ""})},
	{name: "loop", runs: witness.Jobs("loop", object{"readyAt": 3}, object{"readyAt": 99})},
	{name: "quorum", runs: append(
		witness.Jobs("quorum", object{"who": []any{"nobody", "ann", "bob"}}), witness.Jobs("late", object{"who": []any{"nobody", "ann", "nobody"}})...)},
	{name: "nested", runs: witness.Jobs("nested", object{"orders": []any{[]any{"a", "b"}, []any{"c"}, []any{}}})},
	{name: "saga", runs: witness.Jobs("saga",
		object{"item": "lamp", "card": "valid", "address": "here"},
		object{"item": "lamp", "card": "stolen", "address": "here"},
		object{"item": "lamp", "card": "valid", "address": "nowhere"})},
	{name: "fanout", runs: witness.Jobs("fanout", object{})},
	{name: "timers", runs: witness.Jobs("timers", object{})},
	{name: "sleeper", runs: witness.Jobs("sleeper", object{}), idle: 2 * time.Millisecond},
	{name: "later", runs: append(
		witness.Jobs("later", object{"v": 7}), witness.Jobs("endless", object{})...), cancels: "endless-1"},
	{name: "family", runs: witness.Jobs("family", object{"v": 3}, object{"v": 5}), idle: 2 * time.Millisecond,
		calls: []string{"link", "leaf", "broken", "stuck"}},
	{name: "parcel", runs: witness.Jobs("parcel", object{"v": 1}, object{"v": 2})},
	{name: "copied", first: 3, runs: slices.Concat(witness.Jobs("parcel", object{"v": 1}, object{"v": 2}), witness.Jobs("chain", object{"v": 1, "long": long}),
		witness.Jobs("fanout", object{}), witness.Jobs("loop", object{"readyAt": 3}))},
	{name: "aside", parts: 700, runs: slices.Concat(witness.Jobs("chain", object{"v": 1, "long": long}),
		witness.Jobs("nested", object{"orders": []any{[]any{"a", "b"}, []any{"c"}, []any{}}}))},
	{name: "forked", runs: slices.Concat(witness.Jobs("fanout", object{}), witness.Jobs("saga", object{"item": "lamp", "card": "valid", "address": "nowhere"})),
		forks: []forking{{"wide", "fanout-1", 2}, {"again", "saga-1", 4}, {"fork-of-a-fork", "again", 5}}},
	{name: "followed", follows: true, parts: 700, runs: slices.Concat(witness.Jobs("parcel", object{"v": 1}), witness.Jobs("chain", object{"v": 1, "long": long}),
		witness.Jobs("fanout", object{}), witness.Jobs("loop", object{"readyAt": 3}))},
	{name: "fed", feeds: true, runs: slices.Concat(witness.Jobs("parcel", object{"v": 1}), witness.Jobs("chain", object{"v": 1, "long": ""}, object{"v": 2, "long": long}),
		witness.Jobs("fanout", object{}), witness.Jobs("saga", object{"item": "lamp", "card": "valid", "address": "nowhere"})),
		forks: []forking{{"again", "saga-1", 4}}},
	{name: "remote", remote: true, parts: 700, runs: slices.Concat(witness.Jobs("chain", object{"v": 1, "long": long}, object{"v": 2, "long": ""}),
		witness.Jobs("fanout", object{}), witness.Jobs("loop", object{"readyAt": 3}))},
	{name: "closing", runs: witness.Jobs("closing", object{}), closes: true},
}

func workNamed(name string) work {
	for _, w := range append(slices.Clip(works), sealed, attached, shortened) {
		if w.name == name {
			return w
		}
	}
	panic("no work " + name)
}

// attached is a work whose directory gets a log when there is something in it.
var attached = work{name: "attached", remote: true, attach: true, runs: witness.Jobs("chain", object{"v": 1, "long": long}, object{"v": 2, "long": ""})}

// shortened is a work whose log loses its end between two lives.
var shortened = work{name: "shortened", remote: true, shorten: true, runs: witness.Jobs("chain", object{"v": 1, "long": long}, object{"v": 2, "long": ""})}

// Execute implements pawl.Executor: some tasks do more than those of all works.
func (l *life) Execute(ctx context.Context, t pawl.Task) (any, error) {
	return l.ledger.Perform(t, func(in witness.Input) (any, error) {
		switch {
		case t.Type == "pack":
			return pack(ctx, t, in.V)
		case t.Type == "amend":
			return l.amend(ctx, t)
		case t.Type == "weigh":
			return weigh(ctx, t)
		case t.Type == "later":
			l.later <- answer{t.Run, t.Key, object{"v": in.V, "long": in.Long}}
			return nil, pawl.ErrPending
		case t.Type == "answer" && in.V == "nobody", t.Type == "slow" && t.Attempt == 1:
			return nil, never(ctx)
		case t.Type == "hold" && l.closes:
			l.once.Do(func() { close(l.holds) })
			return nil, never(ctx)
		}
		return in.Perform(t)
	})
}

// never returns when the task is not wanted any more.
func never(ctx context.Context) error {
	<-ctx.Done()
	return context.Cause(ctx)
}
