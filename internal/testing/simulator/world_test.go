package simulator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash"
	"hash/fnv"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/acts"
	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/rescue"
	"github.com/pawl-run/pawl/workflow"
)

// A play is what a world is made from. Zero values of the bounds are drawn from
// the seed; a failure is shrunk by lowering them.
type play struct {
	seed    uint64
	steps   int // of the safety phase
	runs    int // roots
	without []string
	verbose bool // keep the lines of the trace
	yields  int  // how often a goroutine may step back at a failpoint
}

// A world is one life of a seed. Its goroutine owns time and lets everything
// happen, one thing after another; the next when all goroutines have come to rest.
//
// The fields above mu belong to that goroutine.
type world struct {
	play
	ctx      context.Context
	began    time.Time
	folder   string
	settings pawl.Options
	families [][]*compiled.Graph
	graphs   map[string]*compiled.Graph // by hash
	inputs   []map[string]any           // of the families
	models   map[workflow.RunID]*model
	asked    map[workflow.RunID]*compiled.Graph // starts that may have been taken
	purging  map[workflow.RunID]bool            // roots that may be gone
	former   map[pawl.Key]bool                  // of runs that are gone
	keys     map[pawl.Key]pawl.Key              // of the calls that were admitted, by name; with mu
	epochs   map[state.Epoch]string
	calls    []*call // admitted, not answered
	pending  []pawl.Key
	past     []pawl.Key // that were answered, or are over
	acts     []*act     // not answered
	launched int        // roots that were asked for
	serial   int        // of acts
	step     int
	calm     bool          // the liveness phase
	rate     int           // one step in so many is a crash; 0 none
	jumps    int           // one step in so many sets the clock; 0 none
	hook     testhook.Hook // of the engine of every life
	hands    hands
	over     map[workflow.RunID]bool
	trace    hash.Hash64
	lines    []string
	tally    *tally

	mu       sync.Mutex
	engine   *pawl.Engine
	life     int
	crashed  bool
	closing  bool
	dead     chan struct{} // closed when the process of this life is gone
	armed    halt          // where the process is to crash
	delays   int           // goroutines that wait at a failpoint for their time
	arrived  []*call
	given    map[pawl.Key]pawl.Key // that the executor was given, by name, also by a process that was about to crash
	running  map[pawl.Key]bool     // with the executor
	deferred map[pawl.Key]bool     // left pending in this life
	gates    map[string]chan struct{}
	asks     []*delivery     // held up
	final    map[string]bool // runs that had ended when all came to rest
	fault    error           // that an engine's goroutine has found
}

// draw returns the source of what is drawn for one purpose.
func (p play) draw(parts ...any) *rand.Rand {
	return rand.New(rand.NewPCG(p.seed, digest(parts...)))
}

func newWorld(p play, folder string) *world {
	r := p.draw("world")
	w := &world{
		play: p, ctx: context.Background(), began: time.Now(), folder: folder,
		graphs: map[string]*compiled.Graph{}, models: map[workflow.RunID]*model{}, asked: map[workflow.RunID]*compiled.Graph{},
		purging: map[workflow.RunID]bool{}, former: map[pawl.Key]bool{}, keys: map[pawl.Key]pawl.Key{}, given: map[pawl.Key]pawl.Key{}, epochs: map[state.Epoch]string{}, over: map[workflow.RunID]bool{},
		trace: fnv.New64a(), tally: newTally(),
	}
	steps, runs := 40+r.IntN(200), 1+r.IntN(4)
	w.steps, w.runs = cmp.Or(w.steps, steps), cmp.Or(w.runs, runs)
	w.rate, w.jumps = of(r, 0, 60, 25), of(r, 0, 0, 50, 15)
	w.settings = pawl.Options{
		Durability: pawl.ProcessCrash, Concurrency: of(r, 256, 256, 2, 1),
		IdleAfter:  of(r, 10*time.Second, 1307*time.Millisecond, 211*time.Millisecond),
		StallAfter: of(r, 0, 0, 0, 90*time.Second), MaxActive: of(r, 0, 0, 0, 3),
	}
	w.hook.SetPartBytes(of(p.draw("parts"), int64(512<<10), 2000, 300))
	w.hook.SetTrimRecords(of(p.draw("trim"), int64(256), 3, 1))
	w.hook.SetLogFrames(of(p.draw("log"), int64(12_000), 200, 30))
	w.hook.SetRedoBytes(of(p.draw("redo"), int64(8<<20), 8000, 1500, 1)) // the last is too small for any commit
	w.hook.SetGatherRuns(1)                                              // or what is written when would hang on which goroutine comes first
	for i := range w.runs {
		r := p.draw("family", i)
		family := drawFamily(r, fmt.Sprintf("d%d", i))
		for _, g := range family {
			w.graphs[g.Hash] = g
		}
		w.families = append(w.families, family)
		w.inputs = append(w.inputs, of(r, nil, map[string]any{"items": []any{int64(1), int64(2)}}, map[string]any{"items": []any{}}))
	}
	return w
}

// open opens the engine of the next life.
func (w *world) open() error {
	w.mu.Lock()
	w.life++
	w.crashed, w.armed, w.dead = false, halt{}, make(chan struct{})
	w.gates, w.arrived, w.running = map[string]chan struct{}{}, nil, map[pawl.Key]bool{}
	w.asks = nil
	w.deferred = map[pawl.Key]bool{}
	o, life := w.settings, w.life
	w.engine = nil
	w.mu.Unlock()
	o.Executor = pawl.Handlers{"*": w.execute(life, w.dead)}
	o.Logger = slog.New(&listener{world: w, life: life})
	engine, err := pawl.Open(testhook.With(w.ctx, &w.hook), w.path(life), o)
	if err != nil {
		return fmt.Errorf("open life %d: %w", life, err)
	}
	w.mu.Lock()
	w.engine = engine
	w.mu.Unlock()
	for _, family := range w.families {
		for _, g := range family {
			if _, err := engine.Publish(w.ctx, g.Definition); err != nil {
				return fmt.Errorf("publish %s: %w", g.Definition.Name, err)
			}
		}
	}
	return nil
}

func (w *world) path(life int) string { return filepath.Join(w.folder, fmt.Sprint(life)) }

// turn holds up an actor until it is let go on. Whether one of a run that has ended
// comes up once more depends on how far its filing was when the process crashed;
// it does nothing, so it is not held up.
func (w *world) turn(run string) {
	w.yield()
	w.mu.Lock()
	if w.closing || w.final[run] {
		w.mu.Unlock()
		return
	}
	gate, dead := make(chan struct{}), w.dead
	w.gates[run] = gate
	w.mu.Unlock()
	select {
	case <-gate:
	case <-dead:
	}
}

// down reports whether the process has crashed.
func (w *world) down() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.crashed
}

// crash ends the process, if it has not, and lets another one begin after a while
// with the files as they are at this moment. Calls that were not answered are lost.
func (w *world) crash() error {
	w.mu.Lock()
	w.crashed = true
	old, next, engine, dead := w.path(w.life), w.path(w.life+1), w.engine, w.dead
	w.mu.Unlock()
	synctest.Wait()
	w.note("crash")
	w.tally.Crashes++
	w.calls = nil
	w.acts = slices.DeleteFunc(w.acts, func(a *act) bool {
		if a.done { // what was acknowledged must be there after it
			return false
		}
		w.note("lost %s %s", a.kind, a.run)
		w.tally.Lost++
		return true
	})
	if err := os.CopyFS(next, os.DirFS(old)); err != nil {
		return err
	}
	close(dead)
	w.hook.Fence()
	ctx, cancel := context.WithCancel(w.ctx)
	cancel()
	_ = engine.Close(ctx) // the remains of the crash
	synctest.Wait()
	if err := os.RemoveAll(old); err != nil {
		return err
	}
	r := w.draw("downtime", w.life)
	w.sleep(of(r, 0, 0, 0, time.Duration(r.IntN(20_000))*time.Millisecond, time.Hour, 87_600*time.Hour))
	if err := w.open(); err != nil {
		return err
	}
	if err := w.rest(); err != nil {
		return err
	}
	// Recovery and the alarms may both wake a run, and wait for it: whichever was
	// first, all are up before anything else happens.
	for life := w.life; w.life == life && len(w.gated()) > 0; {
		if err := w.letGo(w.gated()[0]); err != nil {
			return err
		}
	}
	return w.deep()
}

// sleep lets time pass.
func (w *world) sleep(d time.Duration) {
	timer := time.NewTimer(d)
	<-timer.C
}

// settle waits until nothing moves any more. Messages are delivered one after
// another: which of two came first, no scheduler decides.
func (w *world) settle() {
	for again := true; again; again = w.delayed() || w.deliver() {
		synctest.Wait()
		w.sleep(1) // timers that are due at this instant fire before that
		synctest.Wait()
	}
}

// rest waits until nothing moves any more, and looks at what has happened.
func (w *world) rest() error {
	for again := true; again; again = w.dismiss() || w.pass() {
		w.settle()
		if w.down() {
			return w.crash()
		}
		for _, f := range []func() error{w.found, w.observe, w.answered, w.admit} {
			if err := f(); err != nil {
				return err
			}
		}
	}
	return w.quiet()
}

// pass lets go the actors of runs that turned out to have ended.
func (w *world) pass() (any bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for run, gate := range w.gates {
		if w.final[run] {
			any = true
			close(gate)
			delete(w.gates, run)
		}
	}
	return any
}

// found returns what an engine's goroutine has found.
func (w *world) found() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.fault
}

func (w *world) blame(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fault = cmp.Or(w.fault, err)
}

// legible returns a text with the names that a trace has for epochs, which are random,
// and for those of forged keys.
func (w *world) legible(text string) string {
	for epoch, name := range w.epochs {
		text = strings.ReplaceAll(text, epoch.String(), name)
		text = strings.ReplaceAll(text, otherLife(epoch).String(), "not "+name)
	}
	return text
}

// note adds a line to the trace.
func (w *world) note(format string, args ...any) {
	line := w.legible(fmt.Sprintf("%d @%d ", w.step, time.Since(w.began).Milliseconds()) + fmt.Sprintf(format, args...))
	fmt.Fprintln(w.trace, line)
	if w.verbose {
		w.lines = append(w.lines, line)
	}
}

// observe takes what was committed since the last time, and compares the index.
func (w *world) observe() error {
	seen := map[workflow.RunID]bool{}
	for r, err := range w.engine.Runs(w.ctx, pawl.RunFilter{}) {
		if err != nil {
			return fmt.Errorf("runs: %w", err)
		}
		seen[r.Run] = true
		m := w.models[r.Run]
		if m == nil {
			if m, err = w.born(r); err != nil {
				return err
			}
			w.models[r.Run] = m
		}
		if err := w.follow(m, r); err != nil {
			return fmt.Errorf("run %s: %w", r.Run, err)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(w.models)) {
		if seen[id] {
			continue
		}
		root, _, _ := strings.Cut(string(id), "/")
		if !w.purging[workflow.RunID(root)] || !w.models[id].state.Status.Final() {
			return fmt.Errorf("run %s is lost", id)
		}
		w.note("gone %s", id)
		for key := range w.models[id].out {
			w.former[key] = true
		}
		delete(w.models, id)
		delete(w.over, id)
	}
	return w.lists()
}

// born returns the model of a run that was not there before.
func (w *world) born(r pawl.RunSummary) (*model, error) {
	if r.Parent == "" {
		if w.asked[r.Run] == nil {
			return nil, fmt.Errorf("nobody has started the run %s", r.Run)
		}
		return newModel(r.Run, w.asked[r.Run], &w.hands), nil
	}
	parent := w.models[r.Parent]
	if parent == nil || parent.children[r.Run] == "" {
		return nil, fmt.Errorf("no parent wants the run %s", r.Run)
	}
	w.tally.Children++
	return newModel(r.Run, w.graphs[parent.children[r.Run]], &w.hands), nil
}

// follow takes the records of a run that are new, and compares its row in the
// index.
func (w *world) follow(m *model, r pawl.RunSummary) error {
	if r.Seq != int64(len(m.records)) {
		for record, err := range acts.Records(w.engine.Journal(w.ctx, r.Run, pawl.EventsOptions{})) {
			if err != nil {
				return fmt.Errorf("journal: %w", err)
			}
			if record.Seq <= int64(len(m.records)) {
				continue
			}
			if err := w.record(m, record); err != nil {
				return fmt.Errorf("record %d, %s: %w", record.Seq, messageText(record.Message), err)
			}
		}
	}
	return m.index(r)
}

func (w *world) record(m *model, r decision.Record) error {
	if w.epochs[r.Epoch] == "" {
		w.epochs[r.Epoch] = fmt.Sprintf("life%d.%d", w.life, len(w.epochs))
	}
	w.tally.Records++
	w.tally.Messages[strings.TrimPrefix(fmt.Sprintf("%T", r.Message), "workflow.")]++
	for _, d := range r.Decisions {
		w.tally.Decisions[strings.TrimPrefix(fmt.Sprintf("%T", d), "decision.")]++
	}
	w.note("%s %d %s at %d: %v", m.id, r.Seq, messageText(r.Message), r.At.Sub(w.began).Milliseconds(), r.Decisions)
	m.messages = append(m.messages, r.Message)
	if err := w.foretold(m, r); err != nil {
		return err
	}
	for _, d := range r.Decisions {
		if x, ok := d.(decision.DispatchTask); ok && w.former[keyOf(m.id, x.Token, x.Attempt, x.Epoch)] {
			return fmt.Errorf("%v: its key is that of a run that was purged", x)
		}
	}
	return m.take(r)
}

// close ends the last life: nothing of it may stay.
func (w *world) close() error {
	w.mu.Lock()
	w.closing = true
	gates, asks := w.gates, w.asks
	w.gates, w.asks = nil, nil
	w.mu.Unlock()
	for _, gate := range gates {
		close(gate)
	}
	for _, d := range asks {
		close(d.gate)
	}
	close(w.dead)
	if w.engine == nil {
		return nil
	}
	if err := w.engine.Close(w.ctx); err != nil {
		return err
	}
	report, err := rescue.Verify(w.ctx, w.path(w.life), rescue.Options{})
	if err == nil && report.Damage > 0 {
		err = fmt.Errorf("the directory is damaged: %v", report.Findings)
	}
	return err
}

// live plays a world to its end.
func (w *world) live() (err error) {
	w.hook.OnHit(w.hit)
	w.hook.OnTurn(w.turn)
	w.hook.OnAsk(w.delivers)
	w.hook.OnNow(w.hands.now)
	if err := w.open(); err != nil {
		return err
	}
	defer func() {
		if cerr := w.close(); err == nil && cerr != nil {
			err = fmt.Errorf("close: %w", cerr)
		}
	}()
	if err := w.safety(); err != nil {
		return fmt.Errorf("step %d: %w", w.step, err)
	}
	if err := w.liveness(); err != nil {
		return fmt.Errorf("liveness: %w", err)
	}
	return nil
}

// A listener hears what an engine can tell nobody. A fault is a violation.
type listener struct {
	slog.Handler
	world *world
	life  int
}

func (l *listener) Enabled(context.Context, slog.Level) bool { return true }

func (l *listener) Handle(_ context.Context, r slog.Record) error {
	if r.Level < slog.LevelError || r.Message == "pawl: a handler panicked" {
		return nil
	}
	l.world.mu.Lock()
	gone := l.world.crashed || l.world.closing || l.world.life != l.life
	l.world.mu.Unlock()
	if gone {
		return nil
	}
	text := r.Message
	r.Attrs(func(a slog.Attr) bool { text += fmt.Sprintf(" %s=%v", a.Key, a.Value); return true })
	l.world.blame(errors.New(text))
	return nil
}
