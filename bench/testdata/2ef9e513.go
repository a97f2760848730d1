package main

import (
	"context"
	"time"

	"github.com/pawl-run/pawl/workflow"
)

// shapes are definitions that are made once, as in a program that has a few.
type shapes map[Shape]*workflow.Definition

func (e *pawlEngine) runOf(id string, s Shape) (workflow.Run, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	d := e.shapes[s]
	if d == nil {
		d = defineShape(s)
		e.shapes[s] = d
	}
	return workflow.Run{ID: workflow.RunID(id), Definition: d}, nil
}

func (e *pawlEngine) Purge(ctx context.Context, before time.Time) (int, error) {
	return e.engine.PurgeBefore(ctx, before)
}
