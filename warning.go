package pawl

import (
	"context"
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
// by its name: its text is the engine's own, and the number of a line there tells nobody
// anything.
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

// A faultLog knows what the logger was told of faults that many runs notice.
type faultLog struct {
	mu      sync.Mutex
	full    time.Time             // when it was told last that the disk is full
	failed  bool                  // it was told that the engine has failed
	repeats map[string]*repeatLog // of other faults, by the text of the line
}

// repeatOf returns what the logger was told in lines of one text.
func (f *faultLog) repeatOf(text string) *repeatLog {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.repeats == nil {
		f.repeats = map[string]*repeatLog{}
	}
	if f.repeats[text] == nil {
		f.repeats[text] = &repeatLog{}
	}
	return f.repeats[text]
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

// logOfRun tells the logger of a fault that many runs may meet at once: one of the texts of this package, once a second with how often it
// came. An engine that has failed fails all its runs, and is told of once.
func (e *Engine) logOfRun(level slog.Level, text string, id workflow.RunID, err error, args ...any) {
	if errors.Is(err, ErrFailed) {
		e.logFailure(err)
		return
	}
	if n := e.faults.repeatOf(text).countOne(time.Now()); n > 0 {
		e.options.Logger.Log(context.Background(), level, text, append([]any{"times", n, "run", string(id), "error", err}, args...)...)
	}
}

// logFailure tells the logger, once, that the engine has failed, and how many runs were active.
func (e *Engine) logFailure(err error) {
	f := &e.faults
	f.mu.Lock()
	told := f.failed
	f.failed = true
	f.mu.Unlock()
	if !told {
		e.options.Logger.Error("pawl: the engine has failed, and its runs stand still: close it, and open the directory again, here or where its log was taken",
			"active", e.registry.Count(), "error", err)
	}
}

// logAsleep tells the logger that a run cannot be woken now, and will be tried again after a while.
func (e *Engine) logAsleep(id workflow.RunID, again time.Duration, err error) {
	e.logOfRun(slog.LevelWarn, "pawl: runs cannot be woken now", id, err, "again", again)
}

// logApart tells the logger that a parent and its child cannot speak now.
func (e *Engine) logApart(child workflow.RunID, err error) {
	e.logOfRun(slog.LevelWarn, "pawl: parents and children cannot speak now", child, err)
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
		e.logOfRun(slog.LevelError, "pawl: fault", id, err)
	}
}

// warningsOf returns the warnings of a sound definition d, whose graph is g. own is the graph that was compiled from
// d itself, nil if g was known.
//
// Compiling finds the warnings, so that d is checked here only if g was compiled from another text, in which they have other places. The
// caller may change what it gets.
func warningsOf(d *workflow.Definition, g, own *workflow.Graph) []workflow.Problem {
	switch {
	case own != nil:
		return append([]workflow.Problem{}, own.Warnings...)
	case d == nil || len(g.Warnings) == 0:
		return append([]workflow.Problem{}, g.Warnings...)
	}
	return slices.DeleteFunc(d.Check(), func(p workflow.Problem) bool { return !p.Warning })
}
