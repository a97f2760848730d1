// Package standing tells metrics how an engine stands. The parts of the engine that it asks answer from memory.
package standing

import (
	"github.com/pawl-run/pawl/blob"
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
	Alarms      *roster.Alarms
	Feeder      *outbox.Feeder // nil without
	Readers     func() int     // of changes of all runs
	MaxReaders  int
	MaxActive   int   // runs
	Concurrency int   // tasks at once
	FeedBytes   int64 // of events that wait
	Maintenance bool
	Damaged     func() int             // runs that could not be loaded
	Schedules   func() map[string]bool // the ids of all, and whether each is paused because its runs failed
	Blobs       *blob.Files            // nil if they are kept elsewhere
	TenantLimit func(tenant string) TenantLimit
}

// A TenantLimit bounds what a tenant has; 0 is no bound.
type TenantLimit struct{ Runs, Bytes int64 }

// Sources returns what a collection of metrics asks.
func (p Parts) Sources() telemetry.Sources {
	return telemetry.Sources{
		Tasks: p.Tasks.Stands, EndAttempt: p.Tasks.EndAttempt, Actors: p.Runs.Count, State: p.readState, Rooms: p.readRooms, Feed: p.readFeed,
		Overdue: p.Alarms.Overdue, Runs: p.countRuns, Unfiled: p.Dir.Unfiled, Sizes: p.readSizes, CopyBehind: p.Dir.CopyBehind, LogOutside: p.logOutside, Schedules: p.Schedules, Damaged: p.Damaged,
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
	commits, files, redo := p.Dir.Backlogs()
	out := []telemetry.Room{
		{Bound: "runs", Used: int64(p.Runs.CountBusy()), Most: int64(p.MaxActive)},
		{Bound: "tasks", Used: int64(p.Tasks.Counts().Running), Most: int64(p.Concurrency)},
		{Bound: "readers", Used: int64(p.Readers()), Most: int64(p.MaxReaders)},
		{Bound: "commits", Used: commits.Waiting, Most: commits.Most},
		{Bound: "files", Used: files.Waiting, Most: files.Most},
	}
	if f, ok := p.readFeed(); ok {
		out = append(out, telemetry.Room{Bound: "feed", Used: f.Bytes, Most: p.FeedBytes})
	}
	if redo.Most > 0 {
		out = append(out, telemetry.Room{Bound: "redo", Used: redo.Waiting, Most: redo.Most})
	}
	return p.addTenantRooms(append(out, p.Tasks.Rooms()...))
}

// addTenantRooms adds how much tenants have of the runs and bytes that they may.
func (p Parts) addTenantRooms(out []telemetry.Room) []telemetry.Room {
	for tenant, n := range p.Runs.CountByTenant() {
		if most := p.TenantLimit(tenant).Runs; most > 0 {
			out = append(out, telemetry.Room{Bound: "tenant.runs", Tenant: tenant, Used: int64(n), Most: most})
		}
	}
	for tenant, n := range p.Dir.TenantsBytes() {
		if most := p.TenantLimit(tenant).Bytes; most > 0 {
			out = append(out, telemetry.Room{Bound: "tenant.bytes", Tenant: tenant, Used: n, Most: most})
		}
	}
	return out
}

// readFeed says how far the feed is.
func (p Parts) readFeed() (f telemetry.FeedStand, ok bool) {
	if p.Feeder == nil {
		return f, false
	}
	f.Waiting, f.Bytes = p.Dir.OutboxSize()
	f.Oldest = p.Dir.OldestInOutbox()
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

// readSizes says how many bytes the directory takes.
func (p Parts) readSizes() map[string]int64 {
	index, runs, counted := p.Dir.Sizes()
	out := map[string]int64{"index": index}
	if counted {
		out["runs"] = runs
	}
	if p.Blobs != nil {
		if n, ok := p.Blobs.Size(); ok {
			out["blobs"] = n
		}
	}
	return out
}
