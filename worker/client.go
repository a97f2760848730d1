package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/remote"
	"github.com/pawl-run/pawl/workflow"
)

// A Client is a worker in another process than the engine. URL and ID must be
// set. Its methods may be called from any goroutine.
//
// It has no state of its own, and its fields should not change while it is used. A clientLoop has the
// state of Run.
type Client struct {
	URL      string       // address of the pool, without /v1
	ID       string       // id of the worker: no two running at once may have the same
	Token    string       // token of the pool, if it has one
	Capacity int          // how many tasks at once; 1 by default
	Types    []string     // task types that it takes; by default, the types of the handlers
	HTTP     *http.Client // NewHTTPSClient makes one with certificates; http.DefaultClient by default. It should have no timeout
	Logger   *slog.Logger // gets what Run cannot return; slog.Default() by default

	// Drain makes Run, once it is closed, take no more tasks, finish those that it holds, with their leases
	// renewed, and return nil. A nil Drain never does.
	Drain <-chan struct{}

	instance string // tells the pool which process it is; set in the copy that a Run uses
}

// maxReply bounds an answer of the pool, in bytes: maxTasks, one input above, and what stands around.
// A pool that is not one, or is broken, must not fill the memory of its workers.
const maxReply = 64 << 20

// callTimeout bounds every call, besides the time that a poll waits.
const callTimeout = 40 * time.Second

// Register joins the pool, or changes what the worker takes. It returns how long
// a lease is.
//
// Run calls it when it begins, and again whenever the pool answers that it does not know the worker.
// The worker keeps the tasks that it holds: the pool sends again those that the next poll does not name.
func (c *Client) Register(ctx context.Context, types ...string) (lease time.Duration, err error) {
	var a registerReply
	q := registerRequest{Version: version, Worker: c.ID, Types: types, Capacity: max(c.Capacity, 1)}
	if err := c.callPool(ctx, "register", q, &a); err != nil {
		return 0, err
	}
	return time.ParseDuration(a.Lease)
}

// polled is the answer to a poll.
type polled struct {
	Tasks    []pawl.Task
	unread   []unreadTask // that came as well
	Drop     []pawl.Key   // of those that the worker holds: no longer wanted
	Draining bool         // there will be no more: finish what you hold, and leave
}

// pollPool asks for at most so many new tasks, 0 being as many as the capacity leaves by what the pool knows, and waits for one if none
// is queued. holding has the tasks that the worker works on: their leases are
// renewed, and other tasks that it holds are given to it again.
//
// To call it with less in holding than the worker works on has tasks delivered twice; with more,
// leases are renewed that nobody needs. The tasks get services that call this pool: Heartbeat, Put,
// Open and Once.
func (c *Client) pollPool(ctx context.Context, wait time.Duration, most int, holding ...pawl.Key) (polled, error) {
	var a pollReply
	q := pollRequest{Version: version, Worker: c.ID, Max: most, Wait: wait.String(), Holding: holding}
	if err := c.callPool(ctx, "poll", q, &a); err != nil {
		return polled{}, err
	}
	out := polled{Drop: a.Drop, Draining: a.Draining}
	for _, m := range a.Tasks {
		switch t, err := m.ToTask(); {
		case err == nil:
			out.Tasks = append(out.Tasks, t.WithServices(remoteServices{c}))
		case m.Key != "":
			named := pawl.Task{Key: m.Key, EffectKey: m.EffectKey, Run: m.Run, Workflow: m.Workflow, Node: m.Node, Type: m.Type, Attempt: m.Attempt}
			out.unread = append(out.unread, unreadTask{named, fmt.Errorf("the worker cannot read it: %w", err)})
		default: // it cannot even be failed
			return polled{}, err
		}
	}
	return out, nil
}

// An unreadTask is one that came in a form which this worker cannot read. The task has only what names it.
type unreadTask struct {
	task  pawl.Task
	cause error
}

// sendHeartbeat renews the leases on keys, with details of the first one, and returns those that are not wanted from
// this worker any more.
func (c *Client) sendHeartbeat(ctx context.Context, keys []pawl.Key, details any) (drop []pawl.Key, err error) {
	q := heartbeatRequest{Version: version, Worker: c.ID, Keys: keys}
	text, err := remote.EncodeDetails(details)
	if err != nil {
		return nil, err
	}
	if text != nil {
		q.Details = map[pawl.Key]json.RawMessage{keys[0]: text}
	}
	var a heartbeatReply
	err = c.callPool(ctx, "heartbeat", q, &a)
	return a.Drop, err
}

// completeTask delivers what a handler returned for a task: an output, which may be a
// pawl.Result, or an error. It returns when that is committed, or has been
// before; pawl.ErrStale and ErrNotHolder say that it was not wanted. A result that the
// pool does not take, since it is too large, say, fails the task with the code
// result_too_large or invalid_result. Messages are cut at 16 KiB.
//
// A caller repeats it after an error that is not final, with the same arguments: the pool answers a
// result that it has taken before like the first one. So a lost answer does no harm.
func (c *Client) completeTask(ctx context.Context, t pawl.Task, output any, cause error) error {
	q := completeRequest{Version: version, Worker: c.ID, Completion: remote.NewCompletion(t, output, cause)}
	err := c.callPool(ctx, "complete", q, &completeReply{})
	if refused := refusedResult(err); refused != nil {
		q.SetFailure(*refused) // once: the task would come again and again otherwise
		err = c.callPool(ctx, "complete", q, &completeReply{})
	}
	return err
}

// refusedResult returns the failure that tells a run that the pool refused what its
// task came to; nil if it has not, or for another reason than what was sent.
//
// The statuses 413 and 400 are about the message, so the same result would be refused each time, while
// its task would be performed again after each lease.
func refusedResult(err error) *pawl.TaskError {
	var e *Error
	switch {
	case !errors.As(err, &e):
		return nil
	case e.Status == http.StatusRequestEntityTooLarge:
		return &pawl.TaskError{Code: workflow.CodeResultTooLarge, Message: e.Message}
	case e.Status == http.StatusBadRequest && !e.foreign:
		return &pawl.TaskError{Code: workflow.CodeInvalidResult, Message: e.Message}
	}
	return nil
}

// leavePool gives back what the worker holds, and has the pool forget it.
func (c *Client) leavePool(ctx context.Context) error {
	return c.callPool(ctx, "leave", leaveRequest{Version: version, Worker: c.ID}, &struct{}{})
}

// callPool sends one message and reads the answer. An answer that refuses is an
// *Error.
//
// Its time-out allows for the longest wait of a poll. It tries once: those who must repeat have their
// own rules for that, Run, deliverResult and askOnce. A minor version may add fields to an answer;
// unknown ones are ignored.
func (c *Client) callPool(ctx context.Context, path string, q, a any) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout+maxWait)
	defer cancel()
	text, err := json.Marshal(q)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	response, err := c.sendRequest(ctx, http.MethodPost, path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err = io.ReadAll(io.LimitReader(response.Body, maxReply+1))
	switch {
	case err != nil:
		return fmt.Errorf("%s: read the answer: %w", path, err)
	case len(text) > maxReply:
		return fmt.Errorf("%s: the answer is larger than %d bytes", path, maxReply)
	}
	if err := json.Unmarshal(text, a); err != nil {
		return fmt.Errorf("%s: the answer is not JSON: %w", path, err)
	}
	return nil
}
