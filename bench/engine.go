package main

import (
	"context"
	"time"
)

// A System is a workflow engine to be measured. Another one stands beside pawl by
// a value of this type.
type System struct {
	Open func(ctx context.Context, c Config) (Engine, error)
	// CountFiled counts the ended runs in a directory that nobody has open whose
	// results are where they stay.
	CountFiled func(dir string) (int, error)
}

// A Config says how an engine is opened.
type Config struct {
	Dir       string
	PowerLoss bool          // every commit is synced; without, it survives the death of the process only
	IdleAfter time.Duration // how long a waiting run stays in memory; 0 is the engine's default
	Perform   func(t Task) (any, error)
}

// An Engine runs workflows in one directory, durably. Its methods may be called from
// any goroutine.
type Engine interface {
	// Start begins a run and returns when it is durable.
	Start(ctx context.Context, id string, s Shape) error
	// Wait waits until a run has ended, and returns the results of a Fanout in the
	// order of its branches. It fails if the run has.
	Wait(ctx context.Context, id string) ([]int, error)
	// Signal gives a Waiting run what it waits for.
	Signal(ctx context.Context, id string) error
	// Attach makes a run of an earlier process known to Wait and Signal.
	Attach(ctx context.Context, id string) error
	// Info returns what is committed of a run.
	Info(ctx context.Context, id string) (Info, error)
	// ListFailed lists the runs that have failed.
	ListFailed(ctx context.Context) ([]string, error)
	// Purge forgets the runs that ended before an instant, and returns how many those were.
	Purge(ctx context.Context, before time.Time) (int, error)
	// Close returns when everything is committed and filed.
	Close(ctx context.Context) error
}

// Info is what is committed of a run.
type Info struct {
	Steps int  // messages that are recorded: the start is one, every result another
	Ended bool // for good or ill
}

// A Kind is what a run does with its tasks.
type Kind string

// The kinds of runs.
const (
	Chain   Kind = "chain"   // tasks in a row
	Fanout  Kind = "fanout"  // a task for each element of a list, joined, the results collected in order
	Waiting Kind = "waiting" // task 0, then a wait for a signal, then task 1
)

// A Shape is a definition of a run.
type Shape struct {
	Kind  Kind
	Tasks int // of a Chain or a Fanout
}

// A Task is one execution.
type Task struct {
	Run    string
	Index  int // of the task in a Chain or a Waiting run, from 0
	Branch int // of a Fanout, from 0
}
