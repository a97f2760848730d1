package cluster

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/commitlog"
)

// A Backend is what the nodes share. Package natscluster has one on NATS JetStream.
type Backend struct {
	// NewLog opens the log, and is called for each life of the engine.
	NewLog func(ctx context.Context) (commitlog.Log, error)
	Bases  blob.Store // of the log
	Blobs  blob.Store // of the engine
	Lease  Cell       // says who should have the directory
}

// Options configure a node.
type Options struct {
	// Engine configures the engine. Blobs are the node's to set, and of Remote everything but Rebase, Keep and Report.
	Engine pawl.Options
	// API configures what ServeHTTP answers while the engine is here. For a request that is passed on Identify is asked twice: here, and by
	// the node with the engine, which sees the headers of the caller but not the address and the certificate. Both must know the same name, and
	// the caller has the rights that both give. Callers whom a certificate alone identifies are therefore refused by nodes that stand by: let a
	// balancer send them to the one with the engine. Without Identify, nothing is passed on but what takes no rights.
	API api.Options
	// Node is the name of the node, which no other has; by default it is drawn anew by each Open.
	Node string
	// Address is where other nodes reach ServeHTTP of this one, such as http://10.0.0.7:8080. Without one they cannot pass
	// calls on.
	Address string
	// HTTP sends the calls of Client; http.DefaultClient by default. Give its Transport what the API of the other nodes asks for:
	// certificates, a token.
	HTTP *http.Client
	// PassOn sends requests of others to the node with the engine. By default it is a copy of the Transport of HTTP without client
	// certificates if that is an *http.Transport, and else one as net/http has it. Set it if the connection takes more, such as an authority
	// for certificates. It must add nothing by which Identify could take the caller for this node: such requests are refused.
	PassOn http.RoundTripper
	// Term is how long a lease holds that is not renewed; 10 s by default, at least 300 ms. It is renewed thrice in that time. A
	// directory stands still for about a Term, and for as long as opening it takes, when its node dies.
	Term time.Duration
	// Pool makes the executor of each life of the engine, in place of Engine.Executor: a pool whose workers are other processes. The node calls
	// it when it has opened the engine, whose tasks wait until then, attaches the engine, and closes the pool before the engine: a node without the
	// engine has no pool, which would answer workers in place of that of the owner. If Pool fails, the node lets others have the lease for a Term.
	Pool func(ctx context.Context) (Pool, error)
	// Opened, which may be nil, is called with each engine that the node opens, before anybody else gets it. The node closes the engine; whatever
	// the function begins must end when the engine has failed or is closed (pawl.Engine.AwaitFailure).
	Opened func(*pawl.Engine)
	// Report, which may be nil and must not block, is called when something has changed.
	Report func(Status)
}

// A Status says how a node is.
type Status struct {
	Owner  Owner // who has the lease, as this node knows it
	Serves bool  // the engine is open here
	Err    error // what failed last; nil if nothing has since
	// Clock is how far, at least, the clock of this node is ahead of that of the servers that keep the lease; below 0 it is behind, and less than a
	// minute is 0. Timers follow the clock of the owner: those that begin while it is wrong fire at another time than they should.
	Clock time.Duration
}

// minTerm is the shortest term of a lease.
const minTerm = 300 * time.Millisecond

// lookPause is how often a node that waits looks at the lease: who gives it back is followed at once.
const lookPause = 500 * time.Millisecond

// closeTime is how long an engine may take to close that has lost its log, or is handed over.
const closeTime = 30 * time.Second

// A Node is one of the processes that keep a directory. Its methods may be called from any goroutine.
//
// The loop keepLease alone moves lease and opening, and opens and closes the engine; Close does so after the loop has ended. mu guards the
// fields that other goroutines read: status, over, and engine with pool and serves, which are set and unset together. closing lets the first
// Close do the work, and closed is what it returned, for all later ones. failed hands failures of engines to the loop.
type Node struct {
	path    string
	backend Backend
	o       Options
	lease   lease
	ctx     context.Context // of the node; ends with Close
	stop    context.CancelFunc
	loop    sync.WaitGroup
	closing sync.Once
	closed  error
	client  *api.Client
	passOn  http.RoundTripper
	log     *slog.Logger
	failed  chan failure
	opening *opening // under way, or nil; the loop's

	mu     sync.Mutex
	status Status
	engine *pawl.Engine // nil unless it is open here
	pool   Pool         // its executor, if Options.Pool has made that
	serves http.Handler // its API
	over   bool         // Close has ended
}

// A failure is why an engine can do nothing more.
//
// It names the engine, since the loop may have closed that one and opened another before it takes the failure.
type failure struct {
	engine *pawl.Engine
	err    error
}

// Open makes this process a node of the directory that the backend is of: the engine is opened at path, which is made if it is
// missing, when the node gets the lease. It returns at once; errors of the backend, and of opening the engine, are reported
// and tried again. Its own are pawl.ErrInvalid.
func Open(ctx context.Context, path string, b Backend, o Options) (*Node, error) {
	o.Node, o.Term = cmp.Or(o.Node, rand.Text()), cmp.Or(o.Term, 10*time.Second)
	if o.HTTP == nil {
		o.HTTP = http.DefaultClient
	}
	if o.Report == nil {
		o.Report = func(Status) {}
	}
	switch {
	case path == "":
		return nil, fmt.Errorf("%w: a node takes the path of its directory", pawl.ErrInvalid)
	case b.NewLog == nil || b.Bases == nil || b.Blobs == nil || b.Lease == nil:
		return nil, fmt.Errorf("%w: a cluster.Backend needs NewLog, Bases, Blobs and Lease", pawl.ErrInvalid)
	case o.Term < minTerm:
		return nil, fmt.Errorf("%w: cluster.Options.Term is %v: it is at least %v", pawl.ErrInvalid, o.Term, minTerm)
	case o.Pool != nil && o.Engine.Executor != nil:
		return nil, fmt.Errorf("%w: cluster.Options has both Pool and Engine.Executor: the pool is the executor", pawl.ErrInvalid)
	case o.Engine.Blobs != nil || o.Engine.Remote.Log != nil || o.Engine.Remote.Bases != nil || o.Engine.Remote.StandBy != nil || o.Engine.Remote.Detach:
		return nil, fmt.Errorf("%w: Blobs of cluster.Options.Engine, and of its Remote all but Rebase, Keep and Report, are set by the node", pawl.ErrInvalid)
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	// The node outlives the context of this call, and keeps its values: only Close ends it.
	n := &Node{path: path, backend: b, o: o, lease: lease{cell: b.Lease, self: Owner{o.Node, o.Address}, term: o.Term}, failed: make(chan failure)}
	if n.log = o.Engine.Logger; n.log == nil {
		n.log = slog.Default()
	}
	if n.passOn = o.PassOn; n.passOn == nil {
		n.passOn = copyWithoutCredentials(o.HTTP.Transport)
	}
	n.client = api.NewClient("http://"+ownerHost, &http.Client{Transport: (*passing)(n)})
	n.ctx, n.stop = context.WithCancel(context.WithoutCancel(ctx))
	n.loop.Go(n.keepLease) // until Close
	return n, nil
}

// Engine returns the engine if this node has it open, nil otherwise. It may be closed at any moment: calls fail with
// pawl.ErrClosed then, or with pawl.ErrFailed before.
func (n *Node) Engine() *pawl.Engine {
	if n == nil {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.engine
}

// Status says how the node is. When Close has returned it is the zero value.
func (n *Node) Status() Status {
	if n == nil {
		return Status{}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.over {
		return Status{}
	}
	return n.status
}

// Close closes the engine, if it is here, and gives the lease back, so that another node takes over at once. ctx bounds how long handlers are
// waited for, as for Engine.Close.
func (n *Node) Close(ctx context.Context) error {
	if n == nil || n.stop == nil {
		return fmt.Errorf("%w: it was never opened", pawl.ErrClosed)
	}
	n.closing.Do(func() {
		// The order matters: the loop must have ended before the engine is closed, or it would open another; and the lease is given
		// back only when the engine is closed, so that nobody waits for a log that is still being written.
		n.stop()
		n.loop.Wait()
		n.closed = n.closeEngine(ctx)
		released, cancel := context.WithTimeout(context.WithoutCancel(ctx), n.o.Term)
		defer cancel()
		if err := n.lease.release(released); err != nil { // it ends by itself
			n.o.Report(Status{Owner: n.status.Owner, Err: err})
		}
		n.mu.Lock()
		// Requests are still passed on to another owner, to where that was, until the server of the host ends as well.
		if n.over = true; n.status.Owner.Node == n.o.Node {
			n.status.Owner = Owner{}
		}
		n.mu.Unlock()
		if n.o.PassOn == nil {
			(&http.Client{Transport: n.passOn}).CloseIdleConnections()
		}
	})
	return n.closed
}

// keepLease renews the lease, or tries to get it, and opens and closes the engine accordingly.
//
// Each round renews first, then makes the engine fit the answer: no lease, no engine and a standby; a lease without an engine, openEngine.
// A node that has an engine and cannot reach the cell keeps the engine: its last known owner is itself, and another node that takes
// the log makes its commits fail, which arrives here through failed.
//
// A node whose directory is behind its log, or is empty, leaves a free lease to others for a term, and gives its own away, which it has of a
// former life: those that stood by meanwhile need no time to open theirs. Whether it is behind shows within a moment, by its standby.
func (n *Node) keepLease() {
	pause := time.NewTimer(0)
	defer pause.Stop()
	defer n.endOpening()
	for {
		behind, stood := n.isBehind()
		owner, held, err := n.renewLease(behind)
		switch {
		// Another has the lease, or it is free and could not be taken: this node only follows the log.
		case owner.Node != n.o.Node: // or nobody's
			_ = n.closeEngine(context.WithoutCancel(n.ctx))
			err = errors.Join(err, stood, n.standBy())
		// The lease is this node's, and was renewed just now. A damaged log is given up at once, and so is an engine that nobody works for; after
		// other errors the lease is kept, and the next round tries again.
		case n.Engine() == nil && held:
			if err = n.openEngine(); errors.Is(err, pawl.ErrCorrupt) || errors.Is(err, errPool) {
				n.yieldLease(err) // another node's directory may have what the log lacks
				continue
			}
		}
		n.noteStatus(owner, err)
		// An owner renews thrice a term, so that one renewal may fail. A node that waits looks more often: a lease that was given back is
		// nobody's, and each look that comes later is time in which the directory stands still.
		pause.Reset(n.o.Term / 3)
		var caughtUp, ended <-chan struct{}
		if !held && n.Engine() == nil {
			pause.Reset(min(n.o.Term/3, lookPause))
			if behind && err == nil && (owner.Node == "" || owner.Node == n.o.Node) { // it is to be had
				caughtUp, ended = n.opening.caughtUp, n.opening.done
			}
		}
		select {
		case <-n.ctx.Done():
			return
		case f := <-n.failed:
			// A failure of an engine that was closed meanwhile says nothing of the one that is open now.
			if f.engine == n.Engine() {
				n.giveUp(f.err)
			}
		case <-caughtUp:
		case <-ended:
		case <-pause.C:
		}
	}
}

// renewLease renews the lease, or tries to get it. held says that it is this node's, and was renewed.
func (n *Node) renewLease(behind bool) (owner Owner, held bool, err error) {
	ctx, cancel := context.WithTimeout(n.ctx, n.o.Term)
	defer cancel()
	return n.lease.renew(ctx, behind)
}

// noteStatus reports what has changed.
//
// Errors count as changed only between none and some: one that repeats with each renewal is reported once. Once Close has begun nothing
// is reported here, as what fails then fails because of it.
func (n *Node) noteStatus(owner Owner, err error) {
	if n.ctx.Err() != nil {
		return
	}
	n.mu.Lock()
	was := n.status
	n.status = Status{Owner: owner, Serves: n.engine != nil, Err: err, Clock: n.lease.clock}
	now := n.status
	n.mu.Unlock()
	if was.Clock == 0 && now.Clock != 0 {
		n.log.Error("cluster: the clock of this node is not that of the servers: set it right, for timers that begin here fire at another time than they should",
			"cluster_node", n.o.Node, "ahead", now.Clock)
	}
	if was.Owner != now.Owner || was.Serves != now.Serves || (was.Err == nil) != (now.Err == nil) || (was.Clock == 0) != (now.Clock == 0) {
		n.o.Report(now)
	}
}

// giveUp closes an engine that has failed: because another one has the log, or because of its disk. If it is because the log has lost
// its end, this node's directory has that, and appends it again.
//
// An engine fails when its commits no longer count, and never recovers by itself. With another cause than a damaged log the lease is
// given back, though this node might open the engine again: if its disk or its way to the log is bad, another node does better.
func (n *Node) giveUp(cause error) {
	_ = n.closeEngine(context.WithoutCancel(n.ctx)) // it has failed already
	if errors.Is(cause, pawl.ErrCorrupt) {
		err := n.openEngine()
		if err == nil {
			n.noteStatus(n.lease.self, nil)
			return
		}
		cause = errors.Join(cause, err)
	}
	n.yieldLease(cause)
}

// yieldLease gives the lease back, and lets others have it for a term.
//
// It blocks the loop for the whole of the term: otherwise this node, which looks at once, would mostly be the first to take the lease
// again. After Close has begun it returns immediately, since its context is that of the node.
func (n *Node) yieldLease(cause error) {
	ctx, cancel := context.WithTimeout(n.ctx, n.o.Term)
	defer cancel()
	err := n.lease.release(ctx)
	n.noteStatus(Owner{}, errors.Join(cause, err))
	<-ctx.Done()
}

// closeEngine closes the engine, if it is here.
//
// The engine is taken out of the node first, so that calls meanwhile are passed on or refused, rather than answered by an engine
// that closes. The lock is not held while it closes, which may take closeTime.
func (n *Node) closeEngine(ctx context.Context) error {
	n.mu.Lock()
	e, pool := n.engine, n.pool
	n.engine, n.pool, n.serves = nil, nil, nil
	n.mu.Unlock()
	if e == nil {
		return nil
	}
	return closeLife(ctx, pool, e)
}
