// Package testhook lets tests reach into one engine: they are told what it does,
// hold it up, set its clock, make its limits small and stop it dead. A hook is
// handed in where an engine, a directory or an actor is opened. Without one, which
// is how every program runs, each question to it costs the check of a nil pointer.
package testhook

import (
	"context"
	"sync/atomic"
	"time"
)

// A Hook is what one engine tells, and asks, while it works. The zero value tells
// nobody anything and changes nothing. The engine calls the methods Hit, Turn, Ask,
// HoldAlarm, AlarmRang, Stage, Migration, ReadParts, Now, Until, MaxNap, PartBytes, TrimRecords, StandByBytes,
// TailBytes, LogFrames, RedoBytes, EraseAfter, FlushWorkers, GatherRuns and FenceWith,
// which a nil Hook has as well; tests call the others, at any time.
type Hook struct {
	hit          atomic.Pointer[func(point string)]
	turn         atomic.Pointer[func(run string)]
	ask          atomic.Pointer[func(run string, message any)]
	alarm        atomic.Pointer[Alarms]
	stage        atomic.Pointer[func(stage string) error]
	readParts    atomic.Pointer[func()]
	now          atomic.Pointer[func() time.Time]
	fence        atomic.Pointer[func()]
	migration    atomic.Pointer[migration]
	partBytes    atomic.Int64
	trimRecords  atomic.Int64
	standByBytes atomic.Int64
	tailBytes    atomic.Int64
	workers      atomic.Int64
	gather       atomic.Int64
	logFrames    atomic.Int64
	redoBytes    atomic.Int64
	eraseAfter   atomic.Int64
	nap          atomic.Int64
}

// Hit says that the engine is at the failpoint with this name: a place at which a
// crash must do no harm. The name must be a literal: tests read the names out of
// the source.
func (h *Hook) Hit(point string) {
	if h != nil {
		h.hitPoint(point)
	}
}

func (h *Hook) hitPoint(point string) {
	if f := h.hit.Load(); f != nil {
		(*f)(point)
	}
}

// OnHit has f called at every failpoint, from whichever goroutine it is, and
// returns what ends that. There is one f at a time.
func (h *Hook) OnHit(f func(point string)) (reset func()) {
	h.hit.Store(&f)
	return func() { h.hit.Store(nil) }
}

// Turn says that the actor of a run is about to send what it waits for, or to plan
// what has come for it. A test that lets one actor at a time continue blocks the
// others there.
func (h *Hook) Turn(run string) {
	if h == nil {
		return
	}
	if f := h.turn.Load(); f != nil {
		(*f)(run)
	}
}

// OnTurn has f called at every turn of an actor, from the goroutine that has the turn, and returns
// what ends that. There is one f at a time.
func (h *Hook) OnTurn(f func(run string)) (reset func()) {
	h.turn.Store(&f)
	return func() { h.turn.Store(nil) }
}

// Ask says that a message is about to be delivered to a run. A test that wants to say
// in which order messages from several goroutines arrive blocks them there.
func (h *Hook) Ask(run string, message any) {
	if h == nil {
		return
	}
	if f := h.ask.Load(); f != nil {
		(*f)(run, message)
	}
}

// OnAsk has f called before every delivery, from the goroutine of the sender, and
// returns what ends that. There is one f at a time.
func (h *Hook) OnAsk(f func(run string, message any)) (reset func()) {
	h.ask.Store(&f)
	return func() { h.ask.Store(nil) }
}

// Alarms is asked when timers fire.
type Alarms interface {
	// Hold reports whether the timers of a run that are due have to wait. Then ring, which may be called once, at any
	// time and from any goroutine, makes the run look at its timers again. The goroutine that has the turn of the run calls it.
	// A schedule that is due asks as well, by the name of an @ and its id.
	Hold(run string, ring func()) bool
	// Rang says that the timers of a run that are due fire now.
	Rang(run string)
}

// HoldAlarm reports whether the timers of a run that are due have to wait until ring is called. Nothing has to,
// unless a test wants it.
func (h *Hook) HoldAlarm(run string, ring func()) bool {
	if h == nil {
		return false
	}
	a := h.alarm.Load()
	return a != nil && (*a).Hold(run, ring)
}

// AlarmRang says that the timers of a run that are due fire now.
func (h *Hook) AlarmRang(run string) {
	if h == nil {
		return
	}
	if a := h.alarm.Load(); a != nil {
		(*a).Rang(run)
	}
}

// OnAlarm has a be asked when timers fire, and returns what ends that. There is one a at a time.
func (h *Hook) OnAlarm(a Alarms) (reset func()) {
	h.alarm.Store(&a)
	return func() { h.alarm.Store(nil) }
}

// A migration leads from one format to the next.
type migration struct {
	from uint32
	step func(script func(text string) error) error
}

// Migration returns the step that a test has planted behind a format, which executes texts of SQL; nil without.
func (h *Hook) Migration(from uint32) func(script func(text string) error) error {
	if h == nil {
		return nil
	}
	if m := h.migration.Load(); m != nil && m.from == from && m.step != nil {
		return m.step
	}
	return nil
}

// PlantMigration has Migration return a step behind a format, before the store is opened.
func (h *Hook) PlantMigration(from uint32, step func(script func(text string) error) error) {
	h.migration.Store(&migration{from, step})
}

// Stage says that the files of some runs have come to a stage of their writing. With
// an error the writing fails there.
func (h *Hook) Stage(stage string) error {
	if h == nil {
		return nil
	}
	if f := h.stage.Load(); f != nil {
		return (*f)(stage)
	}
	return nil
}

// OnStage has f called at every stage, from the goroutine that writes, and returns
// what ends that. There is one f at a time.
func (h *Hook) OnStage(f func(stage string) error) (reset func()) {
	h.stage.Store(&f)
	return func() { h.stage.Store(nil) }
}

// ReadParts says that some parts of a large record are about to be read.
func (h *Hook) ReadParts() {
	if h == nil {
		return
	}
	if f := h.readParts.Load(); f != nil {
		(*f)()
	}
}

// OnReadParts has f called before parts of a large record are read, and returns what
// ends that. There is one f at a time.
func (h *Hook) OnReadParts(f func()) (reset func()) {
	h.readParts.Store(&f)
	return func() { h.readParts.Store(nil) }
}

// PartBytes returns from how many bytes on the store writes a record in parts of as
// many: usual, unless a test has set another number.
func (h *Hook) PartBytes(usual int64) int64 {
	if h == nil {
		return usual
	}
	return positiveOr(h.partBytes.Load(), usual)
}

// SetPartBytes sets what PartBytes returns: a small number sends records of every
// size that way, 0 restores the usual one.
func (h *Hook) SetPartBytes(n int64) { h.partBytes.Store(n) }

// FlushWorkers returns how many workers flush the files of runs: usual, unless a test
// has set another number before the store was opened.
func (h *Hook) FlushWorkers(usual int64) int64 {
	if h == nil {
		return usual
	}
	return positiveOr(h.workers.Load(), usual)
}

// SetFlushWorkers sets what FlushWorkers returns: with one worker the order of flushes is
// known, 0 restores the usual number.
func (h *Hook) SetFlushWorkers(n int64) { h.workers.Store(n) }

// GatherRuns returns for how many runs that have ended the flush of one does not wait for others: usual, unless a
// test has set another number before the store was opened.
func (h *Hook) GatherRuns(usual int64) int64 {
	if h == nil {
		return usual
	}
	return positiveOr(h.gather.Load(), usual)
}

// SetGatherRuns sets what GatherRuns returns: with 1 nobody waits, so that when a file is written does not hang on
// whether somebody has asked for it. 0 restores the usual number.
func (h *Hook) SetGatherRuns(n int64) { h.gather.Store(n) }

// StandByBytes returns of how many bytes of changes on a directory that stands by is flushed: usual, unless
// a test has set another number.
func (h *Hook) StandByBytes(usual int64) int64 {
	if h == nil {
		return usual
	}
	return positiveOr(h.standByBytes.Load(), usual)
}

// SetStandByBytes sets what StandByBytes returns, 0 restores the usual number.
func (h *Hook) SetStandByBytes(n int64) { h.standByBytes.Store(n) }

// LogFrames returns how many frames the store's write-ahead log has before it is moved into
// pawl.db: usual, unless a test has set another number.
func (h *Hook) LogFrames(usual int64) int64 {
	if h == nil {
		return usual
	}
	return positiveOr(h.logFrames.Load(), usual)
}

// SetLogFrames sets what LogFrames returns: with a small number there is a checkpoint after
// every few commits, 0 restores the usual one.
func (h *Hook) SetLogFrames(n int64) { h.logFrames.Store(n) }

// RedoBytes returns how many bytes a region of the redo log has: usual, unless a test has set another number.
func (h *Hook) RedoBytes(usual int64) int64 {
	if h == nil {
		return usual
	}
	return positiveOr(h.redoBytes.Load(), usual)
}

// SetRedoBytes sets what RedoBytes returns, before the store is opened: with a small number regions take turns every few
// commits, 0 restores the usual one.
func (h *Hook) SetRedoBytes(n int64) { h.redoBytes.Store(n) }

// TailBytes returns how large a file of the last entries of a log becomes: usual, unless a test has set another number.
func (h *Hook) TailBytes(usual int64) int64 {
	if h == nil {
		return usual
	}
	return positiveOr(h.tailBytes.Load(), usual)
}

// SetTailBytes sets what TailBytes returns, 0 restores the usual number.
func (h *Hook) SetTailBytes(n int64) { h.tailBytes.Store(n) }

// TrimRecords returns how many records the store drops from the log in one
// transaction: usual, unless a test has set another number.
func (h *Hook) TrimRecords(usual int64) int64 {
	if h == nil {
		return usual
	}
	return positiveOr(h.trimRecords.Load(), usual)
}

// SetTrimRecords sets what TrimRecords returns: with a small number the records of
// short runs are dropped in several transactions, 0 restores the usual one.
func (h *Hook) SetTrimRecords(n int64) { h.trimRecords.Store(n) }

func positiveOr(n, usual int64) int64 {
	if n > 0 {
		return n
	}
	return usual
}

// FenceWith gives the hook what stops its engine dead. The engine calls it as it
// is opened; of several engines with one hook the last counts.
func (h *Hook) FenceWith(f func()) {
	if h != nil {
		h.fence.Store(&f)
	}
}

// Fence makes the engine stop dead: from now on nothing that it does is committed,
// and nothing that it holds can be read. It is what a crash of the process does to
// the engine; its files stay as they are. The engine is to be closed afterwards.
func (h *Hook) Fence() {
	f := h.fence.Load()
	if f == nil {
		panic("testhook: no engine was opened with this hook")
	}
	(*f)()
}

type contextKey struct{}

// With returns a context for pawl.Open, whose engine then has the hook.
func With(ctx context.Context, h *Hook) context.Context {
	return context.WithValue(ctx, contextKey{}, h)
}

// From returns the hook of a context, nil if it has none.
func From(ctx context.Context) *Hook {
	h, _ := ctx.Value(contextKey{}).(*Hook)
	return h
}

// A machine has two clocks. Instants that are stored come from the wall clock,
// which people and daemons set: it may jump. How long something takes comes from
// package time, whose readings carry a clock that never does. Only the wall clock
// is asked of the hook, so that tests can set it.

// Now returns the wall clock without a monotonic reading: what is stored and
// compared with what was stored. It may be earlier than the last one.
func (h *Hook) Now() time.Time {
	if h != nil {
		if f := h.now.Load(); f != nil {
			return (*f)().Round(0)
		}
	}
	return time.Now().Round(0)
}

// MaxNap returns how long a timer sleeps at most that waits for an instant of the wall
// clock: usual, unless a test has set another time.
func (h *Hook) MaxNap(usual time.Duration) time.Duration {
	if h == nil {
		return usual
	}
	return time.Duration(positiveOr(h.nap.Load(), int64(usual)))
}

// SetMaxNap sets what MaxNap returns, 0 restores the usual time. Where the clock never
// jumps, as in virtual time, a long nap spares a test the wakes between two instants.
func (h *Hook) SetMaxNap(d time.Duration) { h.nap.Store(int64(d)) }

// EraseAfter returns how long what was deleted stays before it is erased: usual, unless a test has set another time.
func (h *Hook) EraseAfter(usual time.Duration) time.Duration {
	if h == nil {
		return usual
	}
	return time.Duration(positiveOr(h.eraseAfter.Load(), int64(usual)))
}

// SetEraseAfter sets what EraseAfter returns, 0 restores the usual time.
func (h *Hook) SetEraseAfter(d time.Duration) { h.eraseAfter.Store(int64(d)) }

// Until returns how long it is by the wall clock to an instant, which may be past.
func (h *Hook) Until(at time.Time) time.Duration { return at.Sub(h.Now()) }

// OnNow has f be the wall clock and returns what ends that. There is one f at a
// time.
func (h *Hook) OnNow(f func() time.Time) (reset func()) {
	h.now.Store(&f)
	return func() { h.now.Store(nil) }
}
