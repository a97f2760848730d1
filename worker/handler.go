package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/crowd"
	"github.com/pawl-run/pawl/internal/remote"
	"github.com/pawl-run/pawl/internal/strict"
	"github.com/pawl-run/pawl/internal/value"
)

// Bounds of one request, besides those of its messages.
const (
	readTimeout   = 30 * time.Second // of a body, and of what a refused caller sends
	writeTimeout  = time.Minute      // of an answer, and of each part of a blob
	commitTimeout = 30 * time.Second // for a result
)

// Handler returns the protocol of remote workers, paths /v1/..., for a server of
// the host. Every answer is JSON; an error is {"error": {status, code, message}}.
// Exactly one of Options.Token, Identify and NoToken says whom it serves; otherwise it refuses
// everybody.
//
// It checks access, path, method, body and message, in this order: a caller without access learns
// nothing of paths. A path of another version, such as /v2, is refused with a code of its own.
func (p *Pool) Handler() http.Handler {
	paths := map[string]http.Handler{
		"/v1/register":  postHandler(p, p.serveRegister),
		"/v1/poll":      postHandler(p, p.servePoll),
		"/v1/heartbeat": postHandler(p, p.serveHeartbeat),
		"/v1/complete":  postHandler(p, p.serveComplete),
		"/v1/leave":     postHandler(p, p.serveLeave),
		"/v1/once":      postHandler(p, p.serveOnce),
		"/v1/blobs":     http.HandlerFunc(p.serveBlobs),
		"/v1/status":    http.HandlerFunc(p.serveStatus),
	}
	return p.requireAccess(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h := paths[r.URL.Path]; h != nil {
			h.ServeHTTP(w, r)
			return
		}
		writeError(w, wrongPath(r.URL.Path))
	}))
}

// postHandler serves a path that takes one JSON object and answers one.
//
// serve gets the context of the request, which ends when the worker hangs up. Its error is an *Error,
// or a fault of the pool.
func postHandler[Q any](p *Pool, serve func(ctx context.Context, q Q) (any, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			writeError(w, wrongMethod(w, http.MethodPost, r))
			return
		}
		who := callerOf(r.Context()).Worker
		if who == every {
			who = "" // whoever has the shared token
		}
		load := p.bodies.Load(who)
		defer load.Leave()
		body, err := p.readBody(w, r, load)
		var q Q
		if err == nil {
			err = decodeObject(body, &q)
		}
		ctx, named := withInstance(r)
		if err == nil {
			err = named
		}
		if len(body) <= smallBody {
			load.Leave() // a poll waits for a minute
		}
		var a any
		if err == nil {
			a, err = serve(ctx, q)
		}
		if err != nil {
			writeError(w, err)
			return
		}
		writeReply(w, http.StatusOK, a)
	})
}

// instanceKey is under what the process that sends a request is in its context.
type instanceKey struct{}

// withInstance returns the context of a request, which knows the process that sends it.
func withInstance(r *http.Request) (context.Context, error) {
	instance := r.Header.Get(instanceHeader)
	if instance == "" {
		return r.Context(), nil
	}
	return context.WithValue(r.Context(), instanceKey{}, instance), checkName("the header "+instanceHeader, instance)
}

// instanceOf returns which process sends a request; "" if it does not say.
func instanceOf(ctx context.Context) string {
	instance, _ := ctx.Value(instanceKey{}).(string)
	return instance
}

// Bounds on the bodies of all requests together, in those of the largest size: of all callers, and of one. A request holds its
// place until it is answered, as the decoded body takes several times as much; one with a small body gives it back once that is decoded.
const (
	smallBody    = 4 << 10
	leastBody    = 2 << 20 // where the largest size is less: also the smallest body is counted as a piece
	mostBodies   = 64
	mostBodiesOf = 48
)

// newBodies returns the bound on all bodies of a pool, each of which has at most so many bytes.
func newBodies(most int64) *crowd.Crowd {
	pieces := int(max(most, leastBody) / crowd.Piece)
	return crowd.New(mostBodies*pieces, mostBodiesOf*pieces, "pieces of 64 KiB of bodies")
}

// readBody reads a request's body, within its bounds of size and time, and within that of all bodies, of which load has its part.
//
// The deadline is taken away behind the body: net/http goes on reading to notice the end of the
// connection, and would take the deadline for that end while a poll waits.
func (p *Pool) readBody(w http.ResponseWriter, r *http.Request, load *crowd.Load) ([]byte, error) {
	crowd.SetReadTimeout(w, readTimeout)
	body, err := io.ReadAll(http.MaxBytesReader(w, load.Reader(r.Body), p.options.MaxBody))
	crowd.SetReadTimeout(w, 0)
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, poolErrorf(http.StatusRequestEntityTooLarge, remote.CodeTooLarge, "the body has more than %d bytes: store large results elsewhere and send a resultRef", large.Limit)
	case errors.As(err, new(*crowd.BusyError)):
		return nil, poolErrorf(http.StatusServiceUnavailable, remote.CodeBusy, "the body is not read: %v", err)
	case err != nil:
		return nil, invalidRequestf("the body could not be read: %v", err)
	}
	return body, nil
}

// decodeObject reads a body into the struct that v points to.
//
// It is strict about one JSON object; see package strict. The error is sent to whoever wrote the
// program at the other end.
func decodeObject(body []byte, v any) error {
	err := strict.DecodeObject(body, v)
	if err == nil {
		err = checkNames(body)
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, strict.ErrEmpty):
		return invalidRequestf("the body is empty: send one JSON object, as docs/workers.md describes")
	}
	return invalidRequestf("the body is not the JSON object that this path takes: %v", err)
}

// spoken are the fields of messages that have the words of a handler, and no names. The texts of values
// are checked where those are read. An error, also one about a bad name, must come through, and
// has U+FFFD in place of what is no text.
var spoken = []string{"result", "metadata", "error", "outcome", "details"}

// checkNames refuses a name, id or key that is no UTF-8 or has half of a surrogate pair, in a body that
// was decoded. encoding/json replaces both by U+FFFD, so that two ids would become one.
func checkNames(body []byte) error {
	if utf8.Valid(body) && !bytes.Contains(body, []byte(`\ud`)) && !bytes.Contains(body, []byte(`\uD`)) {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(body))
	_, err := d.Token()
	for err == nil && d.More() {
		err = checkField(d)
	}
	return err
}

// checkField is checkNames for the next field.
func checkField(d *json.Decoder) error {
	token, err := d.Token()
	if err != nil {
		return err
	}
	var raw json.RawMessage
	if err := d.Decode(&raw); err != nil {
		return err
	}
	name, _ := token.(string)
	var wrong *value.Error
	if _, err := value.Decode(raw, value.Limits{}); slices.Contains(spoken, name) || !errors.As(err, &wrong) || wrong.Code != value.CodeString {
		return nil
	}
	return fmt.Errorf("%s%s: %s at byte %d", name, strings.TrimPrefix(wrong.Path, "$"), wrong.Message, int(d.InputOffset())-len(raw)+wrong.Offset)
}

// wrongMethod returns the refusal of a method where the methods in want are taken, and sets the header Allow, as 405 requires.
func wrongMethod(w http.ResponseWriter, want string, r *http.Request) error {
	w.Header().Set("Allow", want)
	return poolErrorf(http.StatusMethodNotAllowed, remote.CodeMethod, "%s takes %s, not %s", r.URL.Path, want, r.Method)
}

// wrongPath returns the refusal of a path. A path that looks like another version, v and digits, has
// the code of a version: a worker that is newer than its pool then knows why.
func wrongPath(path string) error {
	first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	if len(first) > 1 && first[0] == 'v' && first != "v1" && strings.Trim(first[1:], "0123456789") == "" {
		return poolErrorf(http.StatusNotFound, remote.CodeVersion, "this pool does not speak %s: use the paths under /v1", first)
	}
	return poolErrorf(http.StatusNotFound, remote.CodeNotFound, "there is no such path: there are /v1/register, poll, heartbeat, complete, once, blobs, leave and status")
}

// writeError answers with an error. Any error but an *Error is our fault.
//
// A 503 says when to try again. A refused caller's connection is closed behind the answer.
func writeError(w http.ResponseWriter, err error) {
	var e *Error
	if !errors.As(err, &e) {
		e = poolErrorf(http.StatusInternalServerError, "internal", "%v", err)
	}
	switch e.Status {
	case http.StatusServiceUnavailable:
		w.Header().Set("Retry-After", "1")
	case http.StatusUnauthorized, http.StatusForbidden:
		w.Header().Set("Connection", "close") // who may not ask keeps no descriptor
	}
	writeReply(w, e.Status, errorReply{e})
}

// writeReply sends an answer as JSON. It is encoded as a whole first, so that an error of encoding can
// still change the status, and the length is known. An answer that does not arrive is no error here:
// every message of the protocol can be repeated, and tasks that did not arrive are not named by the
// next poll, which returns them.
func writeReply(w http.ResponseWriter, status int, v any) {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false) // it would make inputs larger than they were counted
	if e.Encode(v) != nil {
		text.Reset()
		text.WriteString(`{"error": {"status": 500, "code": "internal", "message": "the answer is not JSON"}}`)
		status = http.StatusInternalServerError
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Length", strconv.Itoa(text.Len()))
	crowd.SetWriteTimeout(w, writeTimeout)
	w.WriteHeader(status)
	_, _ = w.Write(text.Bytes()) // who is gone gets the task again
	_ = http.NewResponseController(w).Flush()
	crowd.SetWriteTimeout(w, 0) // for what comes next on the connection
}

func (p *Pool) serveStatus(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		writeError(w, wrongMethod(w, "GET, HEAD", r))
		return
	}
	crowd.SetReadTimeout(w, 0)
	writeReply(w, http.StatusOK, callerOf(r.Context()).visibleStatus(p.Status()))
}

// serveRegister adds the worker or changes it, and tells it how long a lease is, which is the measure
// for its heartbeats.
func (p *Pool) serveRegister(ctx context.Context, q registerRequest) (any, error) {
	if err := errors.Join(checkVersion(q.Version), p.checkSender(ctx, q.Worker), callerOf(ctx).mayTake(q.Types)); err != nil {
		return nil, err
	}
	if err := p.registerRemote(Registration{ID: q.Worker, Types: q.Types, Capacity: q.Capacity}, instanceOf(ctx)); err != nil {
		return nil, err
	}
	return registerReply{Version: version, Lease: p.options.Lease.String()}, nil
}

// servePoll renews what the worker says it holds, tells it what to drop, and gives it tasks. Keys come
// with tags and are the engine's only between untagKeys and tagAll: one whose tag is wrong is for this
// worker's list of drops as it came, since the engine's key must not be told. Where there is something
// to drop it does not wait for tasks.
func (p *Pool) servePoll(ctx context.Context, q pollRequest) (any, error) {
	w := want{worker: q.Worker, instance: instanceOf(ctx), most: q.Max, wait: 30 * time.Second, holding: q.Holding}
	if err := errors.Join(checkVersion(q.Version), p.checkSender(ctx, q.Worker), p.checkTypes(ctx, q.Worker), checkKeys(q.Holding)); err != nil {
		return nil, err
	}
	if err := setWait(&w.wait, q.Wait); err != nil {
		return nil, err
	}
	if w.most < 0 {
		return nil, invalidRequestf("max is %d: it must be positive, or left out for as many as the capacity leaves", w.most)
	}
	if w.most == 0 {
		w.most = maxCapacity
	}
	tags, err := p.awaitTags(ctx)
	if err != nil {
		return nil, err
	}
	var drop []pawl.Key
	w.holding, drop = tags.untagKeys(w.worker, w.holding)
	over, err := p.renewLeases(ctx, w.worker, w.holding, nil)
	if err != nil {
		return nil, err
	}
	drop = tags.tagAll(drop, w.worker, over)
	if len(drop) > 0 {
		w.wait = 0 // it should know at once
	}
	tasks, draining, err := p.pollTasks(ctx, w)
	messages := tags.tagTasks(w.worker, taskMessagesOf(tasks, p.options.Lease))
	return pollReply{Tasks: messages, Drop: drop, Draining: draining}, err
}

// setWait reads how long a worker wants to wait; the default stays if it does not say.
func setWait(wait *time.Duration, text string) error {
	if text == "" {
		return nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return invalidRequestf("wait is %q: it must be a duration like \"30s\"", text)
	}
	*wait = min(d, maxWait)
	return nil
}

// serveHeartbeat renews leases. Details come under the tagged keys that the worker knows, and are
// passed on under those of the engine. The list of drops is never null in the answer, so that programs
// may range over it.
func (p *Pool) serveHeartbeat(ctx context.Context, q heartbeatRequest) (any, error) {
	if err := errors.Join(checkVersion(q.Version), p.checkSender(ctx, q.Worker), checkKeys(q.Keys)); err != nil {
		return nil, err
	}
	details, err := q.readDetails()
	if err != nil {
		return nil, err
	}
	tags, err := p.awaitTags(ctx)
	if err != nil {
		return nil, err
	}
	keys, drop := tags.untagKeys(q.Worker, q.Keys)
	for _, k := range keys {
		if tagged := tags.tagKey(q.Worker, k); details[tagged] != nil {
			details[k] = details[tagged]
		}
	}
	over, err := p.renewLeases(ctx, q.Worker, keys, details)
	if drop == nil {
		drop = []pawl.Key{} // it is in the answer even if it is empty
	}
	return heartbeatReply{Drop: tags.tagAll(drop, q.Worker, over)}, err
}

// serveComplete commits a result, even if the worker does not wait for that.
//
// Its context is cut off from that of the request: a worker that hangs up after sending must not leave
// the commit in doubt for the pool. With "take" the answer has the next tasks as well, which saves a
// poll; the result counts whether or not there are any.
func (p *Pool) serveComplete(ctx context.Context, q completeRequest) (any, error) {
	if err := errors.Join(checkVersion(q.Version), p.checkSender(ctx, q.Worker)); err != nil {
		return nil, err
	}
	c, err := q.toCompletion()
	if err != nil {
		return nil, err
	}
	committing, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitTimeout)
	defer cancel()
	tags, err := p.awaitTags(committing)
	if err != nil {
		return nil, err
	}
	if c.key, err = tags.untagKey(q.Worker, q.Key); err != nil {
		return nil, err
	}
	if err := p.completeTask(committing, c); err != nil {
		return nil, err
	}
	a := completeReply{Status: "accepted"}
	if q.Take > 0 && p.checkTypes(ctx, q.Worker) == nil {
		tasks, _, err := p.pollTasks(ctx, want{worker: q.Worker, instance: instanceOf(ctx), most: q.Take, more: true})
		if err == nil { // the result is taken, whatever comes next
			a.Tasks = tags.tagTasks(q.Worker, taskMessagesOf(tasks, p.options.Lease))
		}
	}
	return a, nil
}

// serveLeave takes back what a worker holds. To leave twice is no error.
//
// An unknown worker gets the same answer: it may have been forgotten, or its first goodbye's answer
// was lost. So does a process in whose place another has registered: the worker is that one now.
func (p *Pool) serveLeave(ctx context.Context, q leaveRequest) (any, error) {
	if err := errors.Join(checkVersion(q.Version), p.checkSender(ctx, q.Worker)); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.queue.workers[q.Worker]; s != nil && !s.isReplacing(instanceOf(ctx)) {
		p.removeWorker(s)
	}
	return struct{}{}, nil
}
