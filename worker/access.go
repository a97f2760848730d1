package worker

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/pawl-run/pawl/internal/crowd"
	"github.com/pawl-run/pawl/internal/loopback"
	"github.com/pawl-run/pawl/internal/remote"
)

// A Caller is the sender of a request, as Options.Identify names it. The zero
// Caller may do nothing.
//
// A request has two names in it: that of its Caller, which the credential proves, and the worker's id
// in the message, which the sender claims. checkSender lets the second be only what the first allows.
type Caller struct {
	// Worker is the only worker id that the caller may use; "*" allows every id.
	Worker string
	// Types are the task types that it may register for; "*" is every type.
	Types []string
	// Once are the beginnings of the business keys under which its tasks may call Task.Once; "*" is every key. A
	// task may always call it with the empty key.
	Once []string
}

// anyCaller is whoever has the shared token.
var anyCaller = Caller{Worker: every, Types: []string{every}, Once: []string{every}}

// IdentifyTokens returns a function for Options.Identify that knows callers by their
// bearer tokens, one or more for each. An empty token lets nobody in. The map is copied.
//
// Two tokens may lead to the same Caller, so that a token is replaced while both are known.
func IdentifyTokens(callers map[string]Caller) func(*http.Request) (Caller, error) {
	known := make(map[[sha256.Size]byte]Caller, len(callers)) // by hash: the time of a look-up tells nothing of a token
	for token, c := range callers {
		if token != "" {
			known[sha256.Sum256([]byte(token))] = c
		}
	}
	return func(r *http.Request) (Caller, error) {
		if r == nil {
			return Caller{}, errUnauthorized
		}
		c, ok := known[sha256.Sum256([]byte(bearerToken(r)))]
		if !ok {
			return Caller{}, errUnauthorized
		}
		return c, nil
	}
}

var errUnauthorized = poolErrorf(http.StatusUnauthorized, remote.CodeUnauthorized, "the token is missing or wrong: send \"Authorization: Bearer TOKEN\" with the token of the pool")

// bearerToken returns the token of a request; "" if it has none.
// The scheme is compared without regard to case, as RFC 9110 has it; the token is the rest, as it is.
func bearerToken(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return token
}

// ErrTokenNeeded says that a pool does not know whom it may serve: none of Options.Token,
// Identify and NoToken is set, or more than one, or it has NoToken and listens on an address that
// is not a loopback one.
var ErrTokenNeeded = errors.New("a pool serves remote workers with one of Options.Token, Options.Identify and, on a loopback address like 127.0.0.1:0, Options.NoToken")

// checkAccess returns ErrTokenNeeded if the options do not say whom to serve.
//
// Listen asks when it begins, and identifyCaller at each request, because a host may mount Handler in
// a server of its own, where Listen never was called. More than one way is refused rather than ranked:
// nobody should have to know which one wins.
func (o *Options) checkAccess() error {
	ways := 0
	for _, set := range []bool{o.Token != "", o.Identify != nil, o.NoToken} {
		if set {
			ways++
		}
	}
	if ways != 1 {
		return ErrTokenNeeded
	}
	return nil
}

// callerKey is under what the caller of a request is in its context.
type callerKey struct{}

// callerOf returns who has sent a request.
//
// It is the zero Caller, who may do nothing, for a request that did not come through requireAccess.
func callerOf(ctx context.Context) Caller {
	c, _ := ctx.Value(callerKey{}).(Caller)
	return c
}

// requireAccess refuses requests of another site, and of workers that the pool does not serve.
//
// It stands before every path, the status included. A browser on a developer's machine is a caller on
// the loopback address, which NoToken would serve: that is why requests from pages of other sites are
// refused first. After this the connection counts as trusted, and its place is no longer taken by
// newer ones.
func (p *Pool) requireAccess(next http.Handler) http.Handler {
	cross := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		crowd.SetReadTimeout(w, readTimeout) // the server reads the body of a refused request to its end
		crowd.SetWriteTimeout(w, 0)          // that of the host's server, which over HTTP/2 ends also a poll that waits
		if err := cross.Check(r); err != nil {
			writeError(w, poolErrorf(http.StatusForbidden, remote.CodeForbidden, "a page of another site may not ask: %v", err))
			return
		}
		caller, err := p.identifyCaller(r)
		if err != nil {
			p.logRefusal(r, err)
			w.Header().Set("WWW-Authenticate", `Bearer realm="pawl"`)
			writeError(w, err)
			return
		}
		if c, ok := r.Context().Value(connKey{}).(*boundedConn); ok {
			c.trustConn()
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, caller)))
	})
}

// identifyCaller returns who sends a request, or an *Error.
//
// Refusals tell a stranger as little as they can: an error of Identify is replaced by a text of the
// pool, unless it is an *Error that the host has made for the caller. With NoToken both ends are
// checked: RemoteAddr against other machines, and the Host header against a name that some web page
// has let point to 127.0.0.1.
func (p *Pool) identifyCaller(r *http.Request) (Caller, error) {
	if err := p.options.checkAccess(); err != nil {
		return Caller{}, poolErrorf(http.StatusForbidden, remote.CodeForbidden, "%v", err)
	}
	switch {
	case p.options.NoToken:
		if !loopback.IsLoopback(r.RemoteAddr) || !loopback.IsLoopback(r.Host) {
			return Caller{}, poolErrorf(http.StatusForbidden, remote.CodeForbidden, "this pool has no token, so it serves its own machine only: set Options.Token, and send it as a bearer token")
		}
		return anyCaller, nil
	case p.options.Token != "":
		given, want := sha256.Sum256([]byte(bearerToken(r))), sha256.Sum256([]byte(p.options.Token)) // of equal length, so that the time tells nothing
		if subtle.ConstantTimeCompare(given[:], want[:]) != 1 {
			return Caller{}, errUnauthorized
		}
		return anyCaller, nil
	}
	c, err := p.options.Identify(r)
	var refused *Error
	switch {
	case errors.As(err, &refused):
		return Caller{}, refused
	case err != nil:
		return Caller{}, poolErrorf(http.StatusUnauthorized, remote.CodeUnauthorized, "the caller is not known: send what Options.Identify of the pool asks for")
	case c.Worker == "":
		return Caller{}, poolErrorf(http.StatusForbidden, remote.CodeForbidden, "the caller is no worker of this pool")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return c, p.checkRevoked(c.Worker)
}

// checkSender refuses a message in the name of a worker that its sender is not, of one
// that is kept out, and of one of this process, for which nobody may speak.
//
// Every path that has a worker in its message asks it before anything else. A worker of this process
// holds its tasks without a lease; if a stranger could speak for it, it could complete them. The message is a contact of the process
// that sends it, see noteInstance.
func (p *Pool) checkSender(ctx context.Context, id string) error {
	if err := checkName("the id of a worker", id); err != nil {
		return err
	}
	if c := callerOf(ctx); c.Worker != every && c.Worker != id {
		return poolErrorf(http.StatusForbidden, remote.CodeForbidden, "the message is in the name of worker %q, and comes from %q: a worker speaks for itself only", id, c.Worker)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.queue.workers[id]
	if s != nil && p.locals[s] != nil {
		return localIDError(id)
	}
	if err := p.checkRevoked(id); err != nil {
		return err
	}
	if s != nil {
		s.noteInstance(instanceOf(ctx), time.Now())
	}
	return nil
}

// mayTake refuses a caller types that it may not register for.
// It is asked at register, and again at each poll: Identify may answer with fewer types than it did
// when the worker registered.
func (c Caller) mayTake(types []string) error {
	for _, kind := range types {
		if !slices.Contains(c.Types, kind) && !slices.Contains(c.Types, every) {
			return poolErrorf(http.StatusForbidden, remote.CodeForbidden, "worker %q may not take tasks of type %q: register for the types that it may take", c.Worker, kind)
		}
	}
	return nil
}

// mayKeep refuses a caller a business key that none of its Once begins: outcomes are shared by all tasks of the engine, so whoever
// may name every key reads those of others, and keeps others from making their effects.
func (c Caller) mayKeep(key string) error {
	begins := func(beginning string) bool { return beginning == every || strings.HasPrefix(key, beginning) }
	if key == "" || slices.ContainsFunc(c.Once, begins) {
		return nil
	}
	return poolErrorf(http.StatusForbidden, remote.CodeForbidden, "tasks of worker %q may not call Once under the key %q: Caller.Once has no beginning of it", c.Worker, key)
}

// checkTypes refuses a worker that has registered for types that it may no longer take.
//
// A worker that is not registered passes here; the poll itself refuses it with ErrUnknownWorker.
func (p *Pool) checkTypes(ctx context.Context, id string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.queue.workers[id]; s != nil {
		return callerOf(ctx).mayTake(s.types)
	}
	return nil
}

// visibleStatus returns what a caller may see: of workers and their tasks its own, unless it
// may be any worker.
//
// It sees the types that it may take, and no tenants; the numbers of the pool stay: they name nobody. s is a copy
// made for the request, so deleting from its lists harms nobody.
func (c Caller) visibleStatus(s Status) Status {
	if c.Worker == every {
		return s
	}
	s.Workers = slices.DeleteFunc(s.Workers, func(w WorkerStatus) bool { return w.ID != c.Worker })
	s.Active = slices.DeleteFunc(s.Active, func(a ActiveStatus) bool { return a.Worker != c.Worker })
	s.Types = slices.DeleteFunc(s.Types, func(t TypeStatus) bool { return c.mayTake([]string{t.Type}) != nil })
	s.Tenants = nil
	return s
}

// Revoke removes a worker as Leave does, and for the life of the pool refuses every request
// in its name with the code forbidden. The worker need not be registered. With a shared Token
// it can come back under another id: give each worker its own token, see Options.Identify.
// To keep a worker out after a restart, let Identify refuse it.
func (p *Pool) Revoke(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.revoked[id] = true
	if s := p.queue.workers[id]; s != nil {
		p.removeWorker(s)
	}
}

// checkRevoked refuses a worker that is kept out. The lock is held.
//
// It is asked twice on the way of a request, when the caller is identified and when the lock is held
// for the change: Revoke may come in between, and what was removed must not come back.
func (p *Pool) checkRevoked(id string) error {
	if p.revoked[id] {
		return poolErrorf(http.StatusForbidden, remote.CodeForbidden, "worker %q is kept out of this pool", id)
	}
	return nil
}
