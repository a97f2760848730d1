package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

// A troubled counts the runs of a command about many that could not be read, and names each of them beside the answer. The zero value has
// none.
type troubled struct{ runs int }

// note names a run that cannot be read, and returns nil: the command goes on with the others. An error of another kind is returned as it
// is, as it would be the same for all.
func (t *troubled) note(ctx context.Context, con *console, run workflow.RunID, err error) error {
	ofRun := errors.Is(err, pawl.ErrCorrupt) || errors.Is(err, pawl.ErrVersion) || errors.Is(err, pawl.ErrSealed)
	if err == nil || !ofRun || ctx.Err() != nil {
		return err
	}
	t.runs++
	fmt.Fprintf(con.Errs, "pawl: %s: %s\n", printableText(string(run)), printableText(err.Error()))
	return nil
}

// saysNo returns what makes the exit status: the answer is no if a run could not be read.
func (t *troubled) saysNo() error {
	if t.runs > 0 {
		return errNo
	}
	return nil
}
