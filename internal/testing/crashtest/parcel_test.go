package crashtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/blob"
)

// pack stores a blob, once under a key of the task, and hands it over as an
// artifact as well.
func pack(ctx context.Context, t pawl.Task, v any) (any, error) {
	ref, err := t.Once(ctx, "", func(ctx context.Context) (any, error) {
		return t.Put(ctx, strings.NewReader(strings.Repeat(fmt.Sprint("parcel ", v), 1000)), "text/plain")
	})
	if err != nil {
		return nil, err
	}
	stored, err := blob.ParseRef(ref)
	return pawl.Result{Output: object{"ref": ref}, Artifacts: []pawl.Artifact{{Name: "parcel.txt", Blob: stored}}}, err
}

// amend puts a node before the last one. Another attempt may have done it.
func (l *life) amend(ctx context.Context, t pawl.Task) (any, error) {
	<-l.opened // Open sends what is out before it returns
	op := func(name, path string, v any) any { return object{"op": name, "path": path, "value": v} }
	_, err := l.engine.Patch(ctx, t.Run, pawl.Patch{Base: 1, Ops: []any{
		op("add", "/nodes/weigh", object{"task": "weigh", "input": object{"ref": "state.ref"}, "output": object{"output.bytes": "result"}}),
		op("replace", "/transitions/next/to", "weigh"),
		op("add", "/transitions/then", object{"from": "weigh", "to": "last"}),
	}})
	if errors.Is(err, pawl.ErrConflict) {
		err = nil
	}
	return object{}, err
}

// weigh reads the blob and returns its size.
func weigh(ctx context.Context, t pawl.Task) (any, error) {
	var in struct{ Ref blob.Ref }
	if err := t.Bind(&in); err != nil {
		return nil, err
	}
	r, err := t.Open(ctx, in.Ref)
	if err != nil {
		return nil, err
	}
	n, err := io.Copy(io.Discard, r)
	return n, errors.Join(err, r.Close())
}
