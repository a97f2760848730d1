package disktest

import (
	"context"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/internal/testing/harness/witness"
)

// A work is some runs that each end the same way whatever the disk does.
type work struct {
	name   string
	runs   []witness.Job
	calls  []string      // files of the definitions that the runs call
	idle   time.Duration // before a run passivates; 0 is the default
	parts  int64         // bytes from which records are put aside; 0 is the default
	frames int64         // of the log from which it is moved into the index; 0 is the default
}

type object = map[string]any

var long = witness.Long

// works are those of the release run; the gate does the first.
var works = []work{
	{name: "small", runs: witness.Jobs("small", object{"v": 1, "long": long}), parts: 1000},
	{name: "mix", runs: witness.Jobs("mix", object{"v": 1, "long": long}), calls: []string{"leaf"}},
	{name: "chain", runs: witness.Jobs("chain", object{"v": 1, "long": long}, object{"v": 2, "long": ""})},
	{name: "nested", runs: witness.Jobs("nested", object{"orders": []any{[]any{"a", "b"}, []any{"c"}, []any{}}})},
	{name: "saga", runs: witness.Jobs("saga",
		object{"item": "lamp", "card": "valid", "address": "here"}, object{"item": "lamp", "card": "valid", "address": "nowhere"})},
	{name: "loop", runs: witness.Jobs("loop", object{"readyAt": 3}, object{"readyAt": 99}), idle: 2 * time.Millisecond},
}

// heavy is the work that makes the log so long that it is moved into the index: here a tenth of what is long elsewhere.
var heavy = work{name: "heavy", runs: witness.Jobs("chain", heavyInputs()...), frames: 1200}

// heavySize is how long a text each of its runs carries.
const heavySize = 90 << 10

func heavyInputs() (out []any) {
	for v := range 6 {
		out = append(out, object{"v": v, "long": harness.RandomLetters(heavySize)})
	}
	return out
}

func workNamed(name string) work {
	for _, w := range append(works, heavy) {
		if w.name == name {
			return w
		}
	}
	panic("no work " + name)
}

// Execute implements pawl.Executor.
func (h *host) Execute(_ context.Context, t pawl.Task) (any, error) {
	return h.ledger.Perform(t, func(in witness.Input) (any, error) { return in.Perform(t) })
}
