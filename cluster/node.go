package cluster

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
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
	// calls on. Open refuses what is no URL of HTTP.
	Address string
	// HTTP has the Transport that sends the calls of Client, which uses nothing else of it; http.DefaultClient by default. Give that what the
	// API of the other nodes asks for: certificates, a token.
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
	// engine has no pool, which would answer workers in place of that of the owner; so both are closed when the lease was not renewed for a Term,
	// while an engine without a pool stays open. If Pool fails, the node lets others have the lease for a Term.
	Pool func(ctx context.Context) (Pool, error)
	// Opened, which may be nil, is called with each engine that the node opens, before anybody else gets it. It should return soon: until then
	// the node renews its lease, but serves nobody, and Close waits. The node closes the engine; whatever the function begins must end when the
	// engine has failed or is closed (pawl.Engine.AwaitFailure).
	Opened func(*pawl.Engine)
	// Report, which may be nil and must not block, is called when something has changed.
	Report func(Status)
}

// A Status says how a node is.
type Status struct {
	Owner  Owner // who has the lease, as this node knows it; nobody if it was its own, and was not renewed for a Term
	Serves bool  // the engine is open here, and the lease was renewed within a Term
	Err    error // what failed last; nil if nothing has since
	// Clock is how far, at least, the clock of this node is ahead of that of the servers that keep the lease; below 0 it is behind, and less than a
	// minute is 0. Timers follow the clock of the owner: those that begin while it is wrong fire at another time than they should.
	Clock time.Duration
}

// minTerm is the shortest term of a lease.
const minTerm = 300 * time.Millisecond

// lookPause is how often a node that waits looks at the lease: who gives it back is followed at once.
const lookPause = 500 * time.Millisecond

// closeTime is how long an engine may take to close that the loop closes: one that has lost its log, or is handed over.
const closeTime = 30 * time.Second

// closePatience is how long Close waits when its context is done: longer than pawl.Engine.Close does, to give the lease back.
const closePatience = 6 * time.Second

// A Node is one of the processes that keep a directory. Its methods may be called from any goroutine.
//
// The loop keepLease alone moves lease and opening, and opens and closes the engine; Close does so after the loop has ended. mu guards the
// fields that other goroutines read: status, over, ends, and engine with pool and serves, which are set and unset together; the loop, which sets
// them, reads them without it. closing lets the first Close begin the work; closed, which is set before ended is closed, is what all return.
// failed hands failures of engines to the loop.
type Node struct {
	path    string
	backend Backend
	o       Options
	lease   lease
	ctx     context.Context // of the node; ends with Close
	stop    context.CancelFunc
	closes  context.Context // under which the loop closes engines; Close ends it by hurry
	hurry   context.CancelCauseFunc
	loop    sync.WaitGroup
	closing sync.Once
	ended   chan struct{} // of Close
	closed  error
	client  *api.Client
	passOn  http.RoundTripper
	log     *slog.Logger
	failed  chan failure
	opening *opening // under way, or nil; the loop's

	mu     sync.Mutex
	status Status
	ends   time.Time    // the lease, unless it is renewed: a Term after the last renewal began
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
	case o.Address != "" && !isHTTP(o.Address):
		return nil, fmt.Errorf("%w: cluster.Options.Address is %q: it must be such as http://10.0.0.7:8080", pawl.ErrInvalid, o.Address)
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
	n.closes, n.hurry = context.WithCancelCause(context.WithoutCancel(ctx))
	n.loop.Go(n.keepLease) // until Close
	return n, nil
}

// isHTTP reports whether an address is a URL of HTTP with a host.
func isHTTP(address string) bool {
	u, err := url.Parse(address)
	return err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https")
}

// Engine returns the engine if this node has it open and has renewed its lease within a Term, nil otherwise. Get it anew for each call: an
// engine of before may not know what was acknowledged since. It may be closed at any moment: calls fail with pawl.ErrClosed then, or with
// pawl.ErrFailed before.
func (n *Node) Engine() *pawl.Engine {
	if n == nil {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.hasLease() {
		return nil
	}
	return n.engine
}

// hasLease reports whether this node has renewed its lease within a Term, by the monotonic clock: until then nobody else takes it. The lock is
// held, or the loop calls it.
func (n *Node) hasLease() bool { return time.Now().Before(n.ends) }

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
	return n.readStatus()
}

// readStatus returns the status that was noted, as it is now: a lease that was not renewed for a Term may be anybody's. The lock is held.
func (n *Node) readStatus() Status {
	s := n.status
	s.Serves = s.Serves && n.engine != nil && n.hasLease()
	if s.Owner.Node == n.o.Node && (n.engine != nil || s.Err != nil) && !n.hasLease() {
		s.Owner, s.Err = Owner{}, errors.Join(errLapsed, s.Err)
	}
	return s
}

// Close closes the engine, if it is here, and gives the lease back, so that another node takes over at once. ctx bounds how long handlers are
// waited for, as for Engine.Close, and in what the node has begun to close by itself.
//
// If the rest does not end then, since a disk or a function of Options does not return, Close waits until 6 s after ctx is done. It then returns
// the cause of ctx and goes on in the background: until that has ended, the directory is in use and the lease is not given back. Further calls wait
// for the first until their own ctx is done, and return the same.
func (n *Node) Close(ctx context.Context) error {
	if n == nil || n.stop == nil {
		return fmt.Errorf("%w: it was never opened", pawl.ErrClosed)
	}
	n.closing.Do(func() {
		n.ended = make(chan struct{})
		go func() { // until all has ended
			defer close(n.ended)
			n.shutDown(ctx)
		}()
	})
	select {
	case <-n.ended:
		return n.closed
	case <-ctx.Done():
	}
	patience := time.NewTimer(closePatience)
	defer patience.Stop()
	select {
	case <-n.ended:
		return n.closed
	case <-patience.C:
		return fmt.Errorf("the node is still closing: %w", context.Cause(ctx))
	}
}

// shutDown is Close without its patience.
//
// The order matters: the loop must have ended before the engine is closed, or it would open another; and the lease is given
// back only when the engine is closed, so that nobody waits for a log that is still being written.
func (n *Node) shutDown(ctx context.Context) {
	n.stop()
	defer context.AfterFunc(ctx, func() { n.hurry(context.Cause(ctx)) })()
	n.loop.Wait()
	pool, e := n.takeEngine()
	if e != nil {
		end := n.renewUntilClosed()
		n.closed = errors.Join(n.closed, closeLife(ctx, pool, e))
		end()
	}
	released, cancel := context.WithTimeout(context.WithoutCancel(ctx), n.o.Term)
	defer cancel()
	if _, err := n.lease.giveUpTerm(released); err != nil { // it ends by itself
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
}

// keepLease renews the lease, or tries to get it, and opens and closes the engine accordingly.
//
// Each round renews first, then makes the engine fit the answer:
//
//   - no lease: the node has no engine, and stands by;
//   - a lease without an engine: openEngine;
//   - an engine without a lease, as the cell cannot be reached: the node keeps the engine, since its last known owner is itself. Another
//     node that takes the log makes its commits fail, which arrives here through failed. When the lease has ended nobody is answered
//     from the engine until a renewal succeeds. An engine with a pool is closed then: the results of workers would be those of tasks
//     that it does not know.
//
// A node whose directory is behind its log, or is empty, leaves a free lease to others for a term, and gives its own away, which it has of a
// former life: those that stood by meanwhile need no time to open theirs. Whether it is behind shows within a moment, by its standby.
func (n *Node) keepLease() {
	pause := time.NewTimer(0)
	defer pause.Stop()
	defer n.endOpening()
	for {
		n.noteLapse()
		if n.o.Pool != nil && !n.hasLease() {
			n.leaveEngine(Owner{}, errLapsed)
		}
		behind, stood := n.isBehind()
		owner, held, err := n.renewLease(behind, n.engine != nil)
		switch {
		// Another has the lease, or it is free and could not be taken: this node only follows the log.
		case owner.Node != n.o.Node: // or nobody's
			n.leaveEngine(owner, err)
			err = errors.Join(err, stood, n.standBy())
		// The lease is this node's, and was renewed just now. A damaged log is given up at once, and so is an engine that nobody works for; after
		// other errors the lease is kept, and the next round tries again.
		case n.engine == nil && held:
			if err = n.openEngine(); errors.Is(err, pawl.ErrCorrupt) || errors.Is(err, errPool) {
				n.yieldLease(err) // another node's directory may have what the log lacks
				continue
			}
		}
		n.noteStatus(owner, err)
		// An owner renews thrice a term, so that one renewal may fail, and sees to it that its lease ends in time. A node that waits looks more
		// often: a lease that was given back is nobody's, and each look that comes later is time in which the directory stands still.
		pause.Reset(min(n.o.Term/3, time.Until(n.ends)))
		var caughtUp, ended <-chan struct{}
		if !held && n.Engine() == nil && (n.engine == nil || n.o.Pool == nil) {
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
			if f.engine == n.engine {
				n.giveUp(f.err)
			}
		case <-caughtUp:
		case <-ended:
		case <-pause.C:
		}
	}
}

// renewLease renews the lease, or tries to get it. held says that it is this node's, and was renewed.
//
// A renewal is given up when the lease ends by whose engine callers are answered, so that the loop notices.
func (n *Node) renewLease(behind, open bool) (owner Owner, held bool, err error) {
	most := n.o.Term
	if left := time.Until(n.ends); n.engine != nil && left > 0 {
		most = left
	}
	ctx, cancel := context.WithTimeout(n.ctx, most)
	defer cancel()
	if owner, held, err = n.lease.renewTerm(ctx, behind, open); held {
		n.mu.Lock()
		n.ends = n.lease.earliest.Add(n.o.Term) // nobody has seen the claim before
		n.mu.Unlock()
	}
	return owner, held, err
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
	n.status = n.readStatus()
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

// noteLapse reports that the lease has ended since the last round, also where the next renewal brings it back.
func (n *Node) noteLapse() {
	n.mu.Lock()
	now := n.readStatus()
	lapsed := n.status.Serves && !now.Serves && n.ctx.Err() == nil
	if lapsed {
		n.status = now
	}
	n.mu.Unlock()
	if lapsed {
		n.o.Report(now)
	}
}

// giveUp closes an engine that has failed: because another one has the log, or because of its disk. If it is because the log has lost
// its end, this node's directory has that, and appends it again.
//
// An engine fails when its commits no longer count, and never recovers by itself. With another cause than a damaged log the lease is
// given back, though this node might open the engine again: if its disk or its way to the log is bad, another node does better. The
// lease is looked at before the engine closes, so that calls which come meanwhile are passed on to its owner.
func (n *Node) giveUp(cause error) {
	pool, e := n.takeEngine()
	ctx, cancel := context.WithTimeout(n.ctx, n.o.Term/3)
	err := n.lease.look(ctx)
	cancel()
	n.endLife(pool, e, n.lease.seen.Owner, errors.Join(cause, err))
	if errors.Is(cause, pawl.ErrCorrupt) && n.lease.seen.Node == n.o.Node {
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
// It blocks the loop until another node has it, or for the whole of the term: otherwise this node, which looks at once, would mostly be the first
// to take the lease again. After Close has begun it returns immediately, since its context is that of the node.
func (n *Node) yieldLease(cause error) {
	ctx, cancel := context.WithTimeout(n.ctx, n.o.Term)
	defer cancel()
	for ctx.Err() == nil {
		owner, err := n.lease.giveUpTerm(ctx)
		if err == nil && owner.Node != "" && owner.Node != n.o.Node {
			return // the loop follows it
		}
		n.noteStatus(Owner{}, errors.Join(cause, err))
		pause, end := context.WithTimeout(ctx, lookPause)
		<-pause.Done()
		end()
	}
}

// takeEngine takes the engine out of the node, to be closed: calls are passed on or refused, rather than answered by an engine that closes.
func (n *Node) takeEngine() (pool Pool, e *pawl.Engine) {
	n.mu.Lock()
	defer n.mu.Unlock()
	pool, e = n.pool, n.engine
	n.engine, n.pool, n.serves = nil, nil, nil
	return pool, e
}

// leaveEngine closes the engine, if it is here.
func (n *Node) leaveEngine(owner Owner, cause error) {
	if pool, e := n.takeEngine(); e != nil {
		n.endLife(pool, e, owner, cause)
	}
}

// endLife closes an engine that was taken out of the node. That may take closeTime: who has the lease, and why, is noted before, and the lock is
// not held. An error does not matter, as the engine has been replaced or has failed, unless it is because Close could not wait.
func (n *Node) endLife(pool Pool, e *pawl.Engine, owner Owner, cause error) {
	n.noteStatus(owner, cause)
	if err := n.closeInTime(pool, e); err != nil && n.closes.Err() != nil {
		n.closed = errors.Join(context.Cause(n.closes), err)
	}
}

// renewUntilClosed renews the lease, for the loop that has ended, until end is called: an engine that waits for its handlers commits what they
// return. A lease that somebody else has by now is left alone.
func (n *Node) renewUntilClosed() (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	renewing := n.renewInTerms(ctx, func() bool {
		within, done := context.WithTimeout(ctx, n.o.Term)
		defer done()
		_, _, _ = n.lease.renewTerm(within, false, true) // the log says whose commits count
		return true
	})
	return func() {
		cancel()
		<-renewing
	}
}

// renewInTerms calls renew three times a term, in a goroutine of its own, until ctx is done or it returns false. The channel is closed when the
// goroutine has ended: until then nobody else may use the lease.
func (n *Node) renewInTerms(ctx context.Context, renew func() bool) (ended <-chan struct{}) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		pause := time.NewTicker(n.o.Term / 3)
		defer pause.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-pause.C:
			}
			if !renew() {
				return
			}
		}
	}()
	return done
}

// closeInTime is closeLife for the loop.
func (n *Node) closeInTime(pool Pool, e *pawl.Engine) error {
	ctx, cancel := context.WithTimeout(n.closes, closeTime)
	defer cancel()
	return closeLife(ctx, pool, e)
}
