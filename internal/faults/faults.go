// Package faults tells a logger what no caller can be told: faults that many runs notice, and what definitions are warned of. It
// says the same thing of many runs once a second.
package faults

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/pawl-run/pawl/actor"
	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/memo"
	"github.com/pawl-run/pawl/internal/problem"
	"github.com/pawl-run/pawl/internal/tasklog"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/workflow"
)

// maxWarned bounds how many definitions a Log remembers. Beyond it, it may log a warning
// once more.
var maxWarned = memo.Bounds{Entries: 10_000}

// maxWarnings bounds how many warnings of one definition are logged.
const maxWarnings = 100

// fullDiskPause is the time between two lines of the log that say that the disk is full.
const fullDiskPause = time.Minute

// repeatPause is the time between two lines of the log that say the same of many runs.
const repeatPause = time.Second

// A Log knows what the logger of an engine was told.
type Log struct {
	logger *slog.Logger
	active func() int                               // how many runs are
	types  func(*compiled.Graph) []workflow.Problem // what a definition is warned of over the types of handlers; nil knows none

	mu      sync.Mutex
	full    time.Time                    // when it was told last that the disk is full
	failed  bool                         // it was told that the engine has failed
	repeats map[string]*repeatLog        // of other faults, by the text of the line
	warned  memo.Table[string, struct{}] // hashes of definitions whose warnings it was told
}

// New returns the log of an engine of which active says how many runs are active.
func New(logger *slog.Logger, active func() int) *Log {
	return &Log{logger: logger, active: active, repeats: map[string]*repeatLog{}}
}

// CheckTypes lets the log warn of what else is wrong with definitions, before it is used.
func (l *Log) CheckTypes(types func(*compiled.Graph) []workflow.Problem) { l.types = types }

// repeatOf returns what the logger was told in lines of one text.
func (l *Log) repeatOf(text string) *repeatLog {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.repeats[text] == nil {
		l.repeats[text] = &repeatLog{}
	}
	return l.repeats[text]
}

// A repeatLog knows when the log was told last of something that comes to many runs at once, where the disk is
// full or there are no descriptors, and how often it has come since. The next line tells the number. The zero value is that of a log
// that was told nothing.
type repeatLog struct {
	mu   sync.Mutex
	told time.Time
	n    int
}

// countOne counts one, and returns of how many the log is to be told now; 0 if of none.
func (r *repeatLog) countOne(now time.Time) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.n++
	if since := now.Sub(r.told); !r.told.IsZero() && since >= 0 && since < repeatPause {
		return 0
	}
	n := r.n
	r.told, r.n = now, 0
	return n
}

// OfRun tells of a fault that many runs may meet at once: one of the texts of the engine, once a second with how often it
// came. An engine that has failed fails all its runs, and is told of once.
func (l *Log) OfRun(level slog.Level, text string, id workflow.RunID, err error, args ...any) {
	if errors.Is(err, store.ErrFailed) {
		l.Failure(err)
		return
	}
	if n := l.repeatOf(text).countOne(time.Now()); n > 0 {
		l.logger.Log(context.Background(), level, text, append([]any{"times", n, "run", string(id), "error", err}, args...)...)
	}
}

// Failure tells, once, that the engine has failed, and how many runs were active.
func (l *Log) Failure(err error) {
	l.mu.Lock()
	told := l.failed
	l.failed = true
	l.mu.Unlock()
	if !told {
		l.logger.Error("pawl: the engine has failed, and its runs stand still: close it, and open the directory again, here or where its log was taken",
			"active", l.active(), "error", err)
	}
}

// FullDisk tells that the disk is full, once a minute.
func (l *Log) FullDisk(text string, args ...any) {
	now := time.Now()
	l.mu.Lock()
	due := l.full.IsZero() || now.Sub(l.full) >= fullDiskPause
	if due {
		l.full = now
	}
	l.mu.Unlock()
	if due {
		l.logger.Error("pawl: the disk is full: make room. "+text, args...)
	}
}

// Asleep tells that a run cannot be woken now, and will be tried again after a while.
func (l *Log) Asleep(id workflow.RunID, again time.Duration, err error) {
	l.OfRun(slog.LevelWarn, "pawl: runs cannot be woken now", id, err, "again", again)
}

// Apart tells that a parent and its child cannot speak now.
func (l *Log) Apart(child workflow.RunID, err error) {
	l.OfRun(slog.LevelWarn, "pawl: parents and children cannot speak now", child, err)
}

// Fault tells what an actor can tell no caller.
func (l *Log) Fault(at actor.Place, err error) {
	parent, _ := at.Trace.Headers()
	args := tasklog.RunArgs(at.Workflow, at.Seq, parent)
	switch {
	case errors.Is(err, store.ErrNoRoom): // a sibling was quicker; the parent is told
	case errors.Is(err, store.ErrNoSpace):
		l.FullDisk("Runs wait for it, this one and perhaps others, and nothing is lost", append([]any{"run", string(at.Run), "error", err}, args...)...)
	default:
		l.OfRun(slog.LevelError, "pawl: fault", at.Run, err, args...)
	}
}

// isFirst reports whether a definition comes for the first time.
func (l *Log) isFirst(hash string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.warned.Has(hash) {
		return false
	}
	l.warned.Put(hash, struct{}{}, 0, maxWarned)
	return true
}

// Warnings tells what a sound definition is warned of, unless it was
// told before. d, g and own are those of WarningsOf; d is nil for a definition that is started
// by its name: its text is the engine's own, and the number of a line there tells nobody
// anything.
func (l *Log) Warnings(ctx context.Context, d *workflow.Definition, g, own *compiled.Graph) {
	if len(g.Warnings) == 0 && l.types == nil || !l.logger.Enabled(ctx, slog.LevelWarn) || !l.isFirst(g.Hash) {
		return
	}
	warnings := l.WarningsOf(d, g, own)
	for _, p := range warnings[:min(len(warnings), maxWarnings)] {
		if d == nil {
			p.Line, p.Column = 0, 0
		}
		text := "the definition can run, but look at this"
		if p.Code == problem.HandlerMissing || p.Code == problem.HandlerType {
			text = "the definition does not fit the handlers: runs of it may fail"
		}
		l.logger.Warn(text, "workflow", g.Definition.Name, "version", g.Definition.Version, "problem", p.String())
	}
}

// WarningsOf returns the warnings of a sound definition d, whose graph is g. own is the graph that was compiled from
// d itself, nil if g was known: then a warning of the types of handlers has no line.
//
// Compiling finds the warnings, so that d is checked here only if g was compiled from another text, in which they have other places. The
// caller may change what it gets.
func (l *Log) WarningsOf(d *workflow.Definition, g, own *compiled.Graph) []workflow.Problem {
	var out []workflow.Problem
	switch {
	case own != nil:
		out = append([]workflow.Problem{}, own.Warnings...)
	case d == nil || len(g.Warnings) == 0:
		out = append([]workflow.Problem{}, g.Warnings...)
	default:
		out = slices.DeleteFunc(d.Check(), func(p workflow.Problem) bool { return !p.Warning })
	}
	if l.types == nil {
		return out
	}
	for _, p := range l.types(g) {
		if own == nil {
			p.Line, p.Column = 0, 0
		}
		out = append(out, p)
	}
	return out
}
