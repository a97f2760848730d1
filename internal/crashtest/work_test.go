package crashtest

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

//go:embed testdata
var testdata embed.FS

// A work is what the processes of one trial do: some runs, each of which ends
// the same way however often they die.
type work struct {
	name   string
	runs   []job
	idle   time.Duration           // before a run passivates; 0 is the default
	closes bool                    // the child closes the engine when the first task holds
	alone  map[workflow.RunID]bool // runs that must go on without a Start
	calls  []string                // files of the definitions that the runs call
	parts  int64                   // bytes from which records are put aside; 0 is the default
	first  int                     // as many runs end, and the engine is closed, before it opens again, with the others, and is backed up
}

// A job is one run of a work.
type job struct {
	id     workflow.RunID
	file   string // of the definition, in testdata
	input  any
	cancel bool // it is cancelled as soon as it has started
}

type object = map[string]any

// long is a value that the journal keeps apart from its record.
var long = strings.Repeat("long ", 500)

var works = []work{
	{name: "chain", runs: jobs("chain", object{"v": 1, "long": long}, object{"v": 2, "long": ""},
		object{"v": 3, "long": long}, object{"v": 4, "long": long}, object{"v": 5, "long": ""}, object{"v": 6, "long": ""})},
	{name: "loop", runs: jobs("loop", object{"readyAt": 3}, object{"readyAt": 99})},
	{name: "quorum", runs: append(
		jobs("quorum", object{"who": list("nobody", "ann", "bob")}), jobs("late", object{"who": list("nobody", "ann", "nobody")})...)},
	{name: "nested", runs: jobs("nested", object{"orders": []any{list("a", "b"), list("c"), list()}})},
	{name: "saga", runs: jobs("saga",
		object{"item": "lamp", "card": "valid", "address": "here"},
		object{"item": "lamp", "card": "stolen", "address": "here"},
		object{"item": "lamp", "card": "valid", "address": "nowhere"})},
	{name: "fanout", runs: jobs("fanout", object{})},
	{name: "timers", runs: jobs("timers", object{})},
	{name: "sleeper", runs: jobs("sleeper", object{}), idle: 2 * time.Millisecond},
	{name: "later", runs: append(
		jobs("later", object{"v": 7}), job{id: "endless-1", file: "endless", input: object{}, cancel: true})},
	{name: "family", runs: jobs("family", object{"v": 3}, object{"v": 5}), idle: 2 * time.Millisecond,
		calls: []string{"link", "leaf", "broken", "stuck"}},
	{name: "parcel", runs: jobs("parcel", object{"v": 1}, object{"v": 2})},
	{name: "copied", first: 3, runs: slices.Concat(jobs("parcel", object{"v": 1}, object{"v": 2}), jobs("chain", object{"v": 1, "long": long}),
		[]job{{id: "fanout-1", file: "fanout", input: object{}}, {id: "loop-1", file: "loop", input: object{"readyAt": 3}}})},
	{name: "aside", parts: 700, runs: slices.Concat(jobs("chain", object{"v": 1, "long": long}), jobs("nested", object{"orders": []any{list("a", "b"), list("c"), list()}}))},
	{name: "closing", runs: jobs("closing", object{}), closes: true},
}

func list(xs ...any) []any { return append([]any{}, xs...) }

func jobs(file string, inputs ...any) []job {
	var out []job
	for i, in := range inputs {
		out = append(out, job{id: workflow.RunID(fmt.Sprintf("%s-%d", file, i+1)), file: file, input: in})
	}
	return out
}

func workNamed(name string) work {
	for _, w := range works {
		if w.name == name {
			return w
		}
	}
	panic("no work " + name)
}

func (j job) definition() (*workflow.Definition, error) {
	return definition(j.file)
}

func definition(file string) (*workflow.Definition, error) {
	text, err := testdata.ReadFile("testdata/" + file + ".yaml")
	if err != nil {
		return nil, err
	}
	return workflow.ParseYAML(text)
}

// Execute implements pawl.Executor: it keeps a ledger of what it begins and what
// it has done.
func (l *life) Execute(ctx context.Context, t pawl.Task) (any, error) {
	l.ledger.Write(entry{What: begins, Run: t.Run, Key: t.Key, Effect: t.EffectKey, Attempt: t.Attempt})
	var in struct{ V, Long any }
	if err := t.Bind(&in); err != nil {
		return nil, err
	}
	var output any = object{"v": in.V, "long": in.Long}
	var err error
	switch {
	case t.Type == "pack":
		output, err = pack(ctx, t, in.V)
	case t.Type == "amend":
		output, err = l.amend(ctx, t)
	case t.Type == "weigh":
		output, err = weigh(ctx, t)
	case t.Type == "later":
		l.later <- answer{t.Run, t.Key, output}
		return nil, pawl.ErrPending
	case t.Type == "answer" && in.V == "nobody", t.Type == "slow" && t.Attempt == 1:
		err = never(ctx)
	case t.Type == "hold" && l.closes:
		l.once.Do(func() { close(l.holds) })
		err = never(ctx)
	case t.Type == "charge" && in.V == "stolen":
		err = pawl.TaskError{Code: "declined", Message: "stolen", Retryable: true}
	case t.Type == "charge" && t.Attempt < 3:
		err = errors.New("busy")
	case t.Type == "ship" && in.V == "nowhere":
		err = pawl.Permanent(errors.New("no such address"))
	}
	l.ledger.Write(entry{What: ends, Run: t.Run, Key: t.Key})
	return output, err
}

// never returns when the task is not wanted any more.
func never(ctx context.Context) error {
	<-ctx.Done()
	return context.Cause(ctx)
}
