package pawl

import (
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/pawl-run/pawl/internal/memo"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/workflow"
)

// maxWarned bounds how many definitions a warningLog remembers. Beyond it, it may log a warning
// once more.
var maxWarned = memo.Bounds{Entries: 10_000}

// maxWarnings bounds how many warnings of one definition are logged.
const maxWarnings = 100

// A warningLog knows the definitions, by hash, whose warnings this engine has logged.
type warningLog struct {
	mu     sync.Mutex
	logged memo.Table[string, struct{}]
}

// isFirst reports whether a definition comes for the first time.
func (w *warningLog) isFirst(hash string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.logged.Has(hash) {
		return false
	}
	w.logged.Put(hash, struct{}{}, 0, maxWarned)
	return true
}

// logWarnings tells the logger what a sound definition is warned of, unless it was
// told before. d, g and own are those of warningsOf; d is nil for a definition that is started
// by its name: its text is the engine's own, of which a line tells nobody anything.
func (e *Engine) logWarnings(d *workflow.Definition, g, own *workflow.Graph) {
	log := e.options.Logger
	if len(g.Warnings) == 0 || !log.Enabled(e.ctx, slog.LevelWarn) || !e.warned.isFirst(g.Hash) {
		return
	}
	warnings := warningsOf(d, g, own)
	for _, p := range warnings[:min(len(warnings), maxWarnings)] {
		if d == nil {
			p.Line, p.Column = 0, 0
		}
		log.Warn("the definition can run, but look at this", "definition", g.Definition.Name, "version", g.Definition.Version, "problem", p.String())
	}
}

// fullDiskPause is the time between two lines of the log that say that the disk is full.
const fullDiskPause = time.Minute

// A faultLog knows when the log was told last that the disk is full, which every run
// notices again and again.
type faultLog struct {
	mu   sync.Mutex
	full time.Time
}

// isDue reports whether the log is to be told that the disk is full.
func (f *faultLog) isDue(now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.full.IsZero() && now.Sub(f.full) < fullDiskPause {
		return false
	}
	f.full = now
	return true
}

// repeatPause is the time between two lines of the log that say the same of many runs.
const repeatPause = time.Second

// A repeatLog knows when the log was told last of something that comes to many runs at once, where the disk is
// full or there are no descriptors, and how often it has come since. The next line tells the number. The zero value is that of a log
// that was told nothing.
type repeatLog struct {
	mu   sync.Mutex
	told time.Time
	n    int
}

// countOne counts one, and returns of how many the log is to be told now; 0 if of none.
func (l *repeatLog) countOne(now time.Time) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.n++
	if since := now.Sub(l.told); !l.told.IsZero() && since >= 0 && since < repeatPause {
		return 0
	}
	n := l.n
	l.told, l.n = now, 0
	return n
}

// logAsleep tells the logger that a run cannot be woken now, and will be tried again after a while.
func (e *Engine) logAsleep(id workflow.RunID, again time.Duration, err error) {
	if n := e.asleep.countOne(time.Now()); n > 0 {
		e.options.Logger.Warn("pawl: runs cannot be woken now", "times", n, "run", string(id), "again", again, "error", err)
	}
}

// logApart tells the logger that a parent and its child cannot speak now.
func (e *Engine) logApart(child workflow.RunID, err error) {
	if n := e.apart.countOne(time.Now()); n > 0 {
		e.options.Logger.Warn("pawl: parents and children cannot speak now", "times", n, "child", string(child), "error", err)
	}
}

// logFault tells the logger what an actor can tell no caller.
func (e *Engine) logFault(id workflow.RunID, err error) {
	switch {
	case errors.Is(err, store.ErrNoRoom): // a sibling was quicker; the parent is told
	case errors.Is(err, ErrNoSpace):
		if e.faults.isDue(time.Now()) {
			e.options.Logger.Error("pawl: the disk is full: make room. Runs wait for it, this one and perhaps others, and nothing is lost", "run", string(id), "error", err)
		}
	default:
		e.options.Logger.Error("pawl: fault", "run", string(id), "error", err)
	}
}

// warningsOf returns the warnings of a sound definition d, whose graph is g. own is the graph that was compiled from
// d itself, nil if g was known.
//
// Compiling finds the warnings, so that d is checked here only if g comes of another text, in which
// they have other places. The caller may change what it gets.
func warningsOf(d *workflow.Definition, g, own *workflow.Graph) []workflow.Problem {
	switch {
	case own != nil:
		return append([]workflow.Problem{}, own.Warnings...)
	case d == nil || len(g.Warnings) == 0:
		return append([]workflow.Problem{}, g.Warnings...)
	}
	return slices.DeleteFunc(d.Check(), func(p workflow.Problem) bool { return !p.Warning })
}
