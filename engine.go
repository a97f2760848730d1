package pawl

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/internal/closing"
	"github.com/pawl-run/pawl/internal/diskuse"
	"github.com/pawl-run/pawl/internal/dispatch"
	"github.com/pawl-run/pawl/internal/faults"
	"github.com/pawl-run/pawl/internal/following"
	"github.com/pawl-run/pawl/internal/keeping"
	"github.com/pawl-run/pawl/internal/late"
	"github.com/pawl-run/pawl/internal/once"
	"github.com/pawl-run/pawl/internal/outbox"
	"github.com/pawl-run/pawl/internal/purging"
	"github.com/pawl-run/pawl/internal/ranking"
	"github.com/pawl-run/pawl/internal/refusal"
	"github.com/pawl-run/pawl/internal/roster"
	"github.com/pawl-run/pawl/internal/running"
	"github.com/pawl-run/pawl/internal/scheduling"
	"github.com/pawl-run/pawl/internal/serving"
	"github.com/pawl-run/pawl/internal/socket"
	"github.com/pawl-run/pawl/internal/standing"
	"github.com/pawl-run/pawl/internal/taskkey"
	"github.com/pawl-run/pawl/internal/tasklog"
	"github.com/pawl-run/pawl/internal/telemetry"
	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/internal/timing"
	"github.com/pawl-run/pawl/internal/tracing"
	"github.com/pawl-run/pawl/internal/watching"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/workflow"
)

// Durability says what an acknowledged call survives.
type Durability uint8

// The durabilities. The zero value is PowerLoss.
const (
	PowerLoss    Durability = iota // the loss of power: every commit is synced
	ProcessCrash                   // the death of the process, not of the machine
)

// Options configure an engine. The zero value of every field works; without
// an Executor, the program delivers the result of each task.
type Options struct {
	// Executor performs the tasks. Without one, every task waits for Engine.Complete, as if the executor had returned ErrPending; the log
	// says so once for each type of task.
	Executor Executor
	// Durability of acknowledged calls; PowerLoss by default.
	Durability Durability
	// Concurrency is how many tasks run at once; 256 by default. A task whose result waits to be committed does not count: a run that
	// commits slowly does not keep other runs from their tasks. A run with Concurrency results that wait to be committed begins no
	// further task, so at most 2 x Concurrency results of one run wait.
	Concurrency int
	// Types limits, per task type, how many tasks run at once and how many begin per second; "*" applies to each type without an entry of
	// its own. A task that waits for its type takes no slot of Concurrency and delays no other type; within a type, runs take turns. A
	// task whose result comes later, through Complete, counts until its executor has returned ErrPending. Open fails with ErrInvalid if a
	// limit is negative, is not a number, or has a Burst without a Rate.
	Types map[string]TypeLimit
	// Tenants limits, per tenant name, the tasks that run at once, the active runs and the disk bytes; "*" applies to each
	// tenant without an entry of its own. Tenants always take turns, and runs without a tenant count as one tenant: ten
	// thousand tasks of one tenant do not delay the first task of another. Open fails with ErrInvalid if a limit is negative
	// or a name is empty.
	Tenants map[string]TenantLimit
	// MaxActive is how many runs may be active at once; beyond it, Start returns ErrBusy. 50,000 by default. A run that only
	// waits, without a task that is queued, running or pending, leaves the memory then to make room. Child runs count, but begin
	// even when the limit is reached. Runs that continue after Open, an alarm or a result are not held back either.
	MaxActive int
	// IdleAfter is how long a run stays in memory without a message; 10 s by default.
	IdleAfter time.Duration
	// Grace is how long Close lets running tasks go on before it cancels their contexts; 0 cancels them at once.
	Grace time.Duration
	// Blobs keeps large values; by default they are files in the folder blobs of
	// the directory. The engine does not close a store that is given here.
	Blobs blob.Store
	// Codec encrypts or compresses all values before they are written: inputs, results, state, signals, errors, messages,
	// definitions and blobs, in the log, in the files of runs and in backups. Package aesgcm has one; nil writes plain values.
	// Once a directory was opened with a codec, Open needs one that has the key, and fails with ErrSealed otherwise; older values
	// stay plain until they are written again, see docs/keep.md. A store in Blobs gets plain content and has to encrypt it
	// itself.
	Codec Codec
	// KeepArtifacts keeps the artifacts of runs that do not complete, and lists them in their outcomes.
	KeepArtifacts bool
	// StallAfter is how long a run may make no progress before it fails with the code stalled, unless it waits for a timer, an event, an
	// approval, a child or an operator. A run usually stalls because a task without a timeout never returned a result. It must exceed the
	// time that any task takes without a heartbeat. 0 lets such runs wait.
	StallAfter time.Duration
	// Maintenance opens the directory so that its runs can be read and operated, and nothing happens by itself: no run
	// wakes, no timer or timeout fires, no run fails as stalled, no task is dispatched, and no message goes to child or
	// parent runs. Calls that change a run (Start, Cancel, Signal, Vote, Retry, Complete and so on) commit; their effects are
	// sent at the next normal Open, and until then an expired wait still accepts a signal or a vote. Executor and StallAfter
	// are not used. Wait and Run fail with ErrMaintenance if the run has not ended. A directory that has a log (see Remote)
	// may be opened for reading without that log: calls that change a run then fail with ErrRemote. Open writes in the directory all the same.
	Maintenance bool
	// LockWait is how long Open waits for another process to release the directory before it fails with ErrLocked: an old
	// process that is closing, a killed process that is not gone yet, or a command that reads it. A second by default;
	// negative does not wait. A waiting engine goes before commands and before engines with Maintenance.
	LockWait time.Duration
	// Feed publishes the events of all runs, each at least once: see FeedOptions. By default they are not published. With
	// Maintenance they wait for the next normal Open. Open fails with ErrInvalid if a bound is negative.
	Feed FeedOptions
	// Remote makes a commit valid only once a log outside of the directory holds it, so that the
	// directory outlives its machine: see RemoteOptions, and docs/scale.md. Without a Log in it, commits
	// need the directory only. With a Log, Blobs is required and should outlive the machine as well, and
	// a Durability of ProcessCrash is enough.
	Remote RemoteOptions
	// Bounds limit the size of definitions that the engine compiles to start or publish them: not of a Graph, which the host has
	// compiled, nor of one that it knows, such as that of an active run. A bound that is not set is the limit of the format. A
	// program that takes definitions from people it does not trust lowers them: workflow.Bounds says what size costs.
	Bounds workflow.Bounds
	// Logger gets messages that no caller can be given, for instance that runs wait because the disk is full, and the warnings of
	// definitions that are published or started; slog.Default() by default.
	Logger *slog.Logger
	// MeterProvider gets the metrics of the engine, which docs/metrics.md lists; nil counts nothing and costs nothing. The
	// global provider of OpenTelemetry is never used. Give each engine of a process a provider of its own, or gauges of one
	// hide those of another.
	MeterProvider metric.MeterProvider
	// TracerProvider gets the spans of the engine, which docs/traces.md describes: the start of a run, its attempts with
	// their handlers inside, its waits and its end; nil makes none and costs nothing. The global provider of OpenTelemetry is
	// never used, and spans contain no values of runs.
	TracerProvider trace.TracerProvider
	// TraceLinkAfter is how long after the start of a run its spans belong to one trace; an hour by default. Attempts, waits
	// and child runs that begin later have traces of their own, which link to it. Negative keeps one trace for ever.
	TraceLinkAfter time.Duration
	// MeterTenants adds a tenant label to the metrics of runs and attempts, for at most 200 tenants: others count as _OTHER.
	MeterTenants bool
	// Socket serves other programs of this user, such as the command pawl; nil serves nobody. Open listens on the
	// unix socket named socket in the directory, mode 0600, and calls this function in a goroutine with the listener,
	// which accepts connections from processes of the same user only. The function must return soon after Close has
	// closed the listener; Close waits for it until its context is done, at most 10 s. inspector.Local and api.Local
	// are such functions. If the path is too long for a socket, the socket is below $XDG_RUNTIME_DIR or the folder for
	// temporary files, and the file socket says where. Open fails if it can make no socket.
	Socket func(*Engine, net.Listener)
}

// Bounds that every run's actor has.
const (
	mailboxSize  = 128
	batchSize    = 64
	flushRecords = 16384
	flushBytes   = 16 << 20
)

func (o Options) withDefaults() Options {
	if o.Concurrency <= 0 {
		o.Concurrency = 256
	}
	if o.MaxActive <= 0 {
		o.MaxActive = 50_000
	}
	if o.IdleAfter <= 0 {
		o.IdleAfter = 10 * time.Second
	}
	if o.TraceLinkAfter == 0 {
		o.TraceLinkAfter = time.Hour
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Executor == nil {
		o.Executor = &absentExecutor{}
	}
	return o
}

// An Engine runs workflows in one directory. Its methods may be called from any goroutine. One engine at a time, in one process, has a directory open.
type Engine struct {
	options    Options
	hook       *testhook.Hook // nil outside tests
	dir        *store.Dir
	metrics    *telemetry.Metrics // nil without Options.MeterProvider
	tracer     *tracing.Tracer    // nil without Options.TracerProvider
	timings    timing.Counters    // of tasks
	disk       diskuse.Meter      // of the directory
	path       string             // of the directory
	keys       *taskkey.Signer
	registry   *roster.Roster
	dispatcher *dispatch.Dispatcher
	waiters    *watching.Waiters
	watches    *watching.Hub[RunChange]
	runs       *running.Runs
	scheduler  *scheduling.Scheduler
	feeder     *outbox.Feeder // nil without Options.Feed
	purger     *purging.Purger
	ranker     ranking.Ranker
	purges     atomic.Uint64           // runs that were purged in this life
	stalls     *dispatch.StallDetector // nil without StallAfter
	faults     *faults.Log             // what the logger was told
	once       *once.Outcomes
	socket     *socket.Server // nil without Options.Socket
	blobs      *keeping.Keeper
	ctx        context.Context // of actors and background work
	stop       context.CancelFunc
	stopTasks  context.CancelCauseFunc
	background sync.WaitGroup
	late       late.Calls
	log        *late.Shared // confirms that the log outside of the directory is this engine's; nil without one
	closer     *closing.Closer
}

// Open opens the engine directory at path, made if it does not exist, and continues every unfinished run in it: unfinished tasks are sent again
// under the same key. It fails with ErrInvalid if path is empty, with ErrForeign if it is a folder of other files, with fs.ErrPermission if the
// process may not write in it, with ErrLocked if another engine or command has it open and keeps it longer than Options.LockWait, with ErrSealed
// if its values are sealed and Options.Codec lacks the key, and with ErrCorrupt or ErrVersion if this version cannot use it. ctx bounds the
// opening only.
func Open(ctx context.Context, path string, o Options) (*Engine, error) {
	if ctx == nil {
		return nil, errNoContext
	}
	if err := late.Cause(ctx); err != nil {
		return nil, err
	}
	if err := refusal.CheckFolder(path); err != nil {
		return nil, err
	}
	feed, err := checkFeed(o.Feed)
	if err := errors.Join(o.checkNumbers(), checkTypes(o.Types), checkTenants(o.Tenants), o.checkRemote(path), checkExecutor(o.Executor), err); err != nil {
		return nil, err
	}
	o.Feed = feed
	o = o.withDefaults()
	hook := testhook.From(ctx)
	dir, metrics, err := openStore(ctx, path, &o, hook)
	if err != nil {
		return nil, err
	}
	hook.FenceWith(dir.Fence)
	e := &Engine{options: o, hook: hook, dir: dir, path: path, metrics: metrics, keys: taskkey.NewSigner(dir.Secret()), watches: watching.NewHub(changeOf)}
	e.timings.Open(path, o.Logger)
	e.tracer = tracing.New(tracing.Options{Provider: o.TracerProvider, LinkAfter: o.TraceLinkAfter, Now: hook.Now})
	if err := e.openBlobs(path); err != nil {
		return nil, errors.Join(fmt.Errorf("open engine directory %q: %w", path, err), dir.Close())
	}
	e.ctx, e.stop = context.WithCancel(context.Background())
	tasks, stopTasks := context.WithCancelCause(serving.With(tasklog.WithLogger(context.Background(), o.Logger), servingHost{e}))
	e.stopTasks = stopTasks
	e.registry = newRoster(e)
	e.faults = newFaults(e)
	e.once = newOutcomes(e)
	e.waiters = watching.NewWaiters(watching.Options{Dir: dir, GoesOn: e.registry.GoesOn, Still: o.Maintenance, Hook: hook})
	e.dispatcher = newDispatcher(tasks, e)
	e.feeder = newFeeder(e)
	if o.StallAfter > 0 && !o.Maintenance {
		e.stalls = newStallDetector(e) // before a task runs, which may tell it a heartbeat
	}
	e.scheduler = newScheduler(e)
	e.runs = newRuns(e)
	e.purger = newPurger(e)
	e.closer = newCloser(e)
	if err := e.finishParts(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("open engine directory %q: %w", path, err), e.Close(ctx))
	}
	if o.Maintenance {
		dir.OpenOutbox()
		return e.finishOpen(ctx, path)
	}
	if err := e.scheduler.HoldRestored(); err != nil {
		return nil, errors.Join(fmt.Errorf("open engine directory %q: %w", path, err), e.Close(ctx))
	}
	if err := e.recoverRuns(); err != nil {
		return nil, errors.Join(fmt.Errorf("recover engine directory %q: %w", path, err), e.Close(ctx))
	}
	e.background.Go(func() { e.runs.Alarms.Watch(e.ctx) })
	if e.feeder != nil {
		e.feeder.Start()
	}
	if e.stalls != nil {
		e.background.Go(func() { e.stalls.ScanUntilDone(e.ctx) })
	}
	e.background.Go(func() { e.warnOfDefinitions(e.ctx) })
	return e.finishOpen(ctx, path)
}

// newOutcomes returns the outcomes of an engine, and lets the log outside of its directory be confirmed, if there is one.
func newOutcomes(e *Engine) *once.Outcomes {
	o, dir := &e.options, e.dir
	if o.Remote.Log != nil {
		e.log = e.late.Share(dir.ConfirmLog, ErrClosed)
	}
	return once.New(once.Options{
		ConfirmLog: e.log.Until, Dir: dir, Blobs: e.blobs, Late: &e.late, Remote: o.Remote.Log != nil, Alive: e.ctx, Limits: resultLimits, Faults: e.faults, Logger: o.Logger, Now: e.hook.Now,
		FirstEpoch: dir.Epoch(), Epoch: e.dispatchEpoch,
	})
}

// finishParts reads the schedules, and registers the parts of the engine as sources of metrics.
func (e *Engine) finishParts(ctx context.Context) error {
	o := &e.options
	err := e.metrics.Watch(standing.Parts{
		Dir: e.dir, Tasks: e.dispatcher, Runs: e.registry, Alarms: e.runs.Alarms, Feeder: e.feeder, Readers: e.watches.Count, MaxReaders: watching.MaxReaders,
		MaxActive: o.MaxActive, Concurrency: o.Concurrency, FeedBytes: o.Feed.MaxBytes, Maintenance: o.Maintenance, Blobs: e.blobs.Own(), Schedules: e.scheduler.FailedSchedules, Damaged: e.runs.CountDamaged,
		TenantLimit: func(tenant string) standing.TenantLimit {
			l := tenantLimitOf(o.Tenants, tenant)
			return standing.TenantLimit{Runs: int64(l.Active), Bytes: l.Bytes}
		},
	}.Sources())
	if err != nil {
		return fmt.Errorf("Options.MeterProvider: %w", err)
	}
	if err := e.scheduler.Load(ctx); err != nil {
		return fmt.Errorf("its schedules: %w", err)
	}
	return nil
}

// openStore opens the directory of an engine, and makes its metrics, which are nil without a provider.
func openStore(ctx context.Context, path string, o *Options, hook *testhook.Hook) (dir *store.Dir, metrics *telemetry.Metrics, err error) {
	metrics, err = telemetry.New(telemetry.Options{Provider: o.MeterProvider, Tenants: o.MeterTenants})
	if err != nil {
		return nil, nil, fmt.Errorf("open engine directory %q: Options.MeterProvider: %w", path, err)
	}
	of := store.Options{
		Durability: store.Durability(o.Durability), Logger: o.Logger, KeepArtifacts: o.KeepArtifacts, Codec: o.Codec, CountTenants: boundsBytes(o.Tenants), Outbox: o.Feed.MaxBytes, Detach: o.Remote.Detach, LogAway: o.Maintenance, Metrics: metrics, Hook: hook,
		LockWait: o.LockWait, GivesWay: o.Maintenance,
	}
	if o.Remote.Log != nil {
		if err := following.CheckApart(ctx, o.Remote.Bases, o.Blobs); err != nil {
			return nil, nil, fmt.Errorf("open engine directory %q: %w", path, err)
		}
		dir, err = store.OpenRemote(ctx, path, of, o.Remote.ofStore())
		return dir, metrics, err
	}
	dir, err = store.OpenContext(ctx, path, of)
	return dir, metrics, err
}

// finishOpen lets others reach an engine that is open.
func (e *Engine) finishOpen(ctx context.Context, path string) (*Engine, error) {
	if err := e.openSocket(path); err != nil {
		return nil, errors.Join(fmt.Errorf("open engine directory %q: %w", path, err), e.Close(ctx))
	}
	return e, nil
}

// AwaitFailure waits until the engine cannot continue, and returns why: ErrFailed, with ErrFenced if another
// engine has the directory or its log. Close the engine then, and open it again. AwaitFailure returns ErrClosed when the
// engine is closed, and the cause of ctx when ctx ends.
func (e *Engine) AwaitFailure(ctx context.Context) error {
	if err := e.checkUsable(ctx); err != nil {
		return err
	}
	select {
	case <-e.closer.Ended():
		return ErrClosed
	case <-e.dir.Failed():
		return e.dir.Err()
	case <-ctx.Done():
		return late.Cause(ctx)
	}
}

// recoverRuns wakes every unfinished run in the background, and has the records flushed that finished runs left in the log. A run that
// cannot be loaded is left as it is; the others continue.
func (e *Engine) recoverRuns() error {
	e.hook.Hit("recover.begin")
	unfinished, err := e.dir.Unfinished()
	if err != nil {
		return err
	}
	leftover, err := e.dir.Leftover()
	if err != nil {
		return err
	}
	e.hook.Hit("recover.wake")
	e.background.Go(e.scheduler.Watch)
	e.background.Go(func() { e.runs.WakeAll(append(unfinished, leftover...)) })
	return nil
}

var errNoContext = fmt.Errorf("%w: the context is nil", ErrInvalid)

// checkUsable returns an error if the engine does not come from Open, if there is no
// context, or if the context belongs to a task performed by a simulation.
func (e *Engine) checkUsable(ctx context.Context) error {
	switch {
	case e == nil || e.dir == nil:
		return fmt.Errorf("%w: it was never opened", ErrClosed)
	case ctx == nil:
		return errNoContext
	}
	return refusePlayed(ctx)
}

// checkCall is checkUsable, and returns the cause of ctx if that is done.
func (e *Engine) checkCall(ctx context.Context) error {
	if err := e.checkUsable(ctx); err != nil {
		return err
	}
	return late.Cause(ctx)
}
