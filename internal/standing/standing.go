// Package standing tells metrics how an engine stands. The parts of the engine that it asks answer from memory.
package standing

import (
	"github.com/pawl-run/pawl/internal/dispatch"
	"github.com/pawl-run/pawl/internal/outbox"
	"github.com/pawl-run/pawl/internal/roster"
	"github.com/pawl-run/pawl/internal/telemetry"
	"github.com/pawl-run/pawl/store"
)

// Parts are those of an engine. All fields but Feeder are needed.
type Parts struct {
	Dir         *store.Dir
	Tasks       *dispatch.Dispatcher
	Runs        *roster.Roster
	Feeder      *outbox.Feeder // nil without
	Readers     func() int     // of changes of all runs
	MaxReaders  int
	MaxActive   int   // runs
	Concurrency int   // tasks at once
	FeedBytes   int64 // of events that wait
	Maintenance bool
}

// Sources returns what a collection of metrics asks.
func (p Parts) Sources() telemetry.Sources {
	return telemetry.Sources{
		Tasks: p.Tasks.Stands, EndAttempt: p.Tasks.EndAttempt, Actors: p.Runs.Count, State: p.readState, Rooms: p.readRooms, Feed: p.readFeed,
		Runs: p.countRuns, Unfiled: p.Dir.Unfiled, LogOutside: p.logOutside,
	}
}

// readState says whether the engine works.
func (p Parts) readState() telemetry.State {
	select {
	case <-p.Dir.Failed():
		if p.Dir.IsFenced() {
			return telemetry.Fenced
		}
		return telemetry.Failed
	default:
	}
	if p.Maintenance {
		return telemetry.Maintenance
	}
	return telemetry.Open
}

// readRooms says how full the bounds are.
func (p Parts) readRooms() []telemetry.Room {
	commits, files := p.Dir.Backlogs()
	out := []telemetry.Room{
		{Bound: "runs", Used: int64(p.Runs.Count()), Most: int64(p.MaxActive)},
		{Bound: "tasks", Used: int64(p.Tasks.Counts().Running), Most: int64(p.Concurrency)},
		{Bound: "readers", Used: int64(p.Readers()), Most: int64(p.MaxReaders)},
		{Bound: "commits", Used: commits.Waiting, Most: commits.Most},
		{Bound: "files", Used: files.Waiting, Most: files.Most},
	}
	if f, ok := p.readFeed(); ok {
		out = append(out, telemetry.Room{Bound: "feed", Used: f.Bytes, Most: p.FeedBytes})
	}
	return out
}

// readFeed says how far the feed is.
func (p Parts) readFeed() (f telemetry.FeedStand, ok bool) {
	if p.Feeder == nil {
		return f, false
	}
	f.Waiting, f.Bytes = p.Dir.OutboxSize()
	f.Failing = p.Feeder.Stats().Failing
	return f, true
}

// countRuns says how many runs have not ended.
func (p Parts) countRuns() (out []telemetry.RunStand) {
	for _, n := range p.Dir.StandingRuns() {
		out = append(out, telemetry.RunStand(n))
	}
	return out
}

// logOutside says how the directory stands with its log.
func (p Parts) logOutside() (telemetry.LogStand, bool) {
	s, ok := p.Dir.LogOutside()
	return telemetry.LogStand(s), ok
}
