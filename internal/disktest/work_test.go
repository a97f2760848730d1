package disktest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/crashtest/witness"
	"github.com/pawl-run/pawl/workflow"
)

// A work is some runs, each of which ends the same way whatever the disk does.
type work struct {
	name  string
	runs  []job
	calls []string      // files of the definitions that the runs call
	idle  time.Duration // before a run passivates; 0 is the default
	parts int64         // bytes from which records are put aside; 0 is the default
}

// A job is one run of a work.
type job struct {
	id    workflow.RunID
	file  string // of the definition
	input any
}

type object = map[string]any

// long is a value that the journal keeps apart from its record.
var long = strings.Repeat("long ", 500)

// works are those of the release run; the gate does the first.
var works = []work{
	{name: "small", runs: []job{{"small-1", "small", object{"v": 1, "long": long}}}, parts: 1000},
	{name: "mix", runs: jobs("mix", object{"v": 1, "long": long}), calls: []string{"leaf"}},
	{name: "chain", runs: jobs("chain", object{"v": 1, "long": long}, object{"v": 2, "long": ""})},
	{name: "nested", runs: jobs("nested", object{"orders": []any{list("a", "b"), list("c"), list()}})},
	{name: "saga", runs: jobs("saga",
		object{"item": "lamp", "card": "valid", "address": "here"}, object{"item": "lamp", "card": "valid", "address": "nowhere"})},
	{name: "loop", runs: jobs("loop", object{"readyAt": 3}, object{"readyAt": 99}), idle: 2 * time.Millisecond},
}

// heavy is the work that makes the log so long that it is moved into the index.
var heavy = work{name: "heavy", runs: jobs("chain", heavyInputs()...)}

func heavyInputs() (out []any) {
	for v := range 6 {
		out = append(out, object{"v": v, "long": strings.Repeat("x", 900<<10)})
	}
	return out
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
	for _, w := range append(works, heavy) {
		if w.name == name {
			return w
		}
	}
	panic("no work " + name)
}

// definition reads a file of ours, or of the tests of kills.
func definition(file string) (*workflow.Definition, error) {
	text, err := os.ReadFile(filepath.Join("testdata", file+".yaml"))
	if errors.Is(err, os.ErrNotExist) {
		text, err = os.ReadFile(filepath.Join("..", "crashtest", "testdata", file+".yaml"))
	}
	if err != nil {
		return nil, err
	}
	return workflow.ParseYAML(text)
}

// Execute implements pawl.Executor: it keeps a ledger of what it begins and what
// it has done.
func (h *host) Execute(_ context.Context, t pawl.Task) (any, error) {
	h.ledger.Write(witness.Entry{What: witness.Begins, Run: t.Run, Key: t.Key, Effect: t.EffectKey, Attempt: t.Attempt})
	var in struct{ V, Long any }
	if err := t.Bind(&in); err != nil {
		return nil, err
	}
	var output any = object{"v": in.V, "long": in.Long}
	var err error
	switch {
	case t.Type == "charge" && t.Attempt < 3:
		err = errors.New("busy")
	case t.Type == "ship" && in.V == "nowhere":
		err = pawl.Permanent(errors.New("no such address"))
	}
	h.ledger.Write(witness.Entry{What: witness.Ends, Run: t.Run, Key: t.Key})
	return output, err
}
