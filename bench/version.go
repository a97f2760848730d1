package main

import (
	"context"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

// This file has what the workloads use of pawl and older versions spell otherwise. With -against and
// -with another file takes its place in the other checkout; testdata has one for version 2ef9e513.

// shapes are definitions that are compiled once, as in a program that has a few.
type shapes map[Shape]*workflow.Graph

func (e *pawlEngine) runOf(id string, s Shape) (workflow.Run, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	g := e.shapes[s]
	if g == nil {
		var err error
		if g, err = workflow.Compile(defineShape(s)); err != nil {
			return workflow.Run{}, err
		}
		e.shapes[s] = g
	}
	return workflow.Run{ID: workflow.RunID(id), Graph: g}, nil
}

func (e *pawlEngine) Purge(ctx context.Context, before time.Time) (int, error) {
	return e.engine.PurgeEnded(ctx, pawl.Retention{Before: before})
}
