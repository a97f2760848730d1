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
