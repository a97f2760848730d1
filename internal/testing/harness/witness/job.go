package witness

import (
	"embed"
	"errors"
	"fmt"
	"strings"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

//go:embed testdata
var testdata embed.FS

// A Job is one run of a trial. It ends the same way whatever happens to the
// processes and the disk.
type Job struct {
	ID    workflow.RunID
	File  string // of the definition
	Input any
}

// Jobs returns runs of one definition with these inputs, numbered from 1.
func Jobs(file string, inputs ...any) []Job {
	var out []Job
	for i, in := range inputs {
		out = append(out, Job{workflow.RunID(fmt.Sprintf("%s-%d", file, i+1)), file, in})
	}
	return out
}

// Definition reads a definition of testdata; file has no extension.
func Definition(file string) (*workflow.Definition, error) {
	text, err := testdata.ReadFile("testdata/" + file + ".yaml")
	if err != nil {
		return nil, err
	}
	return workflow.ParseYAML(text)
}

// Long is a value that the journal keeps apart from its record.
var Long = strings.Repeat("long ", 500)

// An Input is what tasks of the definitions take.
type Input struct{ V, Long any }

// Perform has do perform a task, and keeps in the ledger that it begins and, unless
// its result comes later, what it has done.
func (l *Ledger) Perform(t pawl.Task, do func(in Input) (any, error)) (any, error) {
	l.Write(Entry{What: Begins, Run: t.Run, Key: t.Key, Effect: t.EffectKey, Attempt: t.Attempt})
	var in Input
	if err := t.Bind(&in); err != nil {
		return nil, err
	}
	output, err := do(in)
	if !errors.Is(err, pawl.ErrPending) {
		l.Write(Entry{What: Ends, Run: t.Run, Key: t.Key})
	}
	return output, err
}

// Perform performs a task of a definition: it gives back its input, but for cards
// and addresses that fail.
func (in Input) Perform(t pawl.Task) (any, error) {
	var err error
	switch {
	case t.Type == "charge" && in.V == "stolen":
		err = pawl.TaskError{Code: "declined", Message: "stolen", Retryable: true}
	case t.Type == "charge" && t.Attempt < 3:
		err = errors.New("busy")
	case t.Type == "ship" && in.V == "nowhere":
		err = pawl.Permanent(errors.New("no such address"))
	}
	return map[string]any{"v": in.V, "long": in.Long}, err
}
