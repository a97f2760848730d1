package worker

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/limits"
	"github.com/pawl-run/pawl/internal/remote"
	"github.com/pawl-run/pawl/internal/value"
)

// version is that of the protocol. Messages of another minor version are
// understood.
const version = "1.0"

// instanceHeader has a text of the worker's choice that no other process sends, such as a random one. A pool of an earlier version, which
// would refuse a field that it does not know, ignores it.
const instanceHeader = "Pawl-Instance"

// The messages of the protocol; docs/workers.md describes them. Durations are
// texts like "30s".
type (
	registerRequest struct {
		Version  string   `json:"version,omitempty"`
		Worker   string   `json:"worker"`
		Types    []string `json:"types"`
		Capacity int      `json:"capacity"`
	}
	registerReply struct {
		Version string `json:"version"`
		Lease   string `json:"lease"`
	}
	pollRequest struct {
		Version string     `json:"version,omitempty"`
		Worker  string     `json:"worker"`
		Max     int        `json:"max,omitempty"`
		Wait    string     `json:"wait,omitempty"`
		Holding []pawl.Key `json:"holding,omitempty"`
	}
	pollReply struct {
		Tasks    []remote.TaskMessage `json:"tasks"`
		Drop     []pawl.Key           `json:"drop,omitempty"`
		Draining bool                 `json:"draining,omitempty"`
	}
	heartbeatRequest struct {
		Version string                       `json:"version,omitempty"`
		Worker  string                       `json:"worker"`
		Keys    []pawl.Key                   `json:"keys"`
		Details map[pawl.Key]json.RawMessage `json:"details,omitempty"`
	}
	heartbeatReply struct {
		Drop []pawl.Key `json:"drop"`
	}
	completeRequest struct {
		Version string `json:"version"`
		Worker  string `json:"worker"`
		remote.Completion
		Take int `json:"take,omitempty"`
	}
	completeReply struct {
		Status string               `json:"status"`
		Tasks  []remote.TaskMessage `json:"tasks,omitempty"`
	}
	onceRequest struct {
		Version string `json:"version,omitempty"`
		Worker  string `json:"worker"`
		remote.OnceMessage
	}
	leaveRequest struct {
		Version string `json:"version,omitempty"`
		Worker  string `json:"worker"`
	}
	errorReply struct {
		Error *Error `json:"error"`
	}
)

// Bounds of requests.
const (
	maxWait    = time.Minute // of a poll
	maxHolding = maxCapacity // keys in a poll or heartbeat
	maxTasks   = 8 << 20     // bytes of the tasks in one answer, without the last
)

// checkVersion accepts every minor version of the major one that is spoken here.
//
// "" passes, but not in a completion: a result must say what it is, since it is the message that
// changes a run.
func checkVersion(v string) error {
	if major, _, _ := strings.Cut(v, "."); v != "" && major != "1" {
		return poolErrorf(400, remote.CodeVersion, "the message has version %q, this pool speaks %s: send \"version\": %q", v, version, version)
	}
	return nil
}

// checkKeys bounds the keys in one message: a worker can hold no more tasks than that.
func checkKeys(keys []pawl.Key) error {
	if len(keys) > maxHolding {
		return invalidRequestf("%d keys in one message; at most %d: send several", len(keys), maxHolding)
	}
	return nil
}

// readDetails returns the details of the message, by task.
//
// Details without their key would be lost in silence, so they are refused. If those of one key
// cannot be decoded, the whole message is refused, before any lease is renewed.
func (q heartbeatRequest) readDetails() (map[pawl.Key]any, error) {
	out := make(map[pawl.Key]any, len(q.Details))
	for k, text := range q.Details {
		if !slices.Contains(q.Keys, k) {
			return nil, invalidRequestf("details name the key %q, which is not among keys: send it there as well", string(k))
		}
		v, err := value.Decode(text, value.Limits{Bytes: limits.MaxDetails})
		if err != nil {
			return nil, invalidRequestf("the details of key %q: %v", string(k), err)
		}
		out[k] = v
	}
	return out, nil
}

// toCompletion returns what the message says, checked.
//
// The key is still tagged; serveComplete replaces it by the engine's.
func (m *completeRequest) toCompletion() (completion, error) {
	c := completion{worker: m.Worker, key: m.Key, run: m.Run, node: m.Node}
	switch {
	case m.Version == "":
		return c, poolErrorf(400, remote.CodeVersion, "the completion has no version: send \"version\": %q", version)
	case m.Key == "":
		return c, invalidRequestf("the completion has no key: send the key of the task")
	case m.Take < 0:
		return c, invalidRequestf("take is %d: it must be positive, or left out for no tasks", m.Take)
	}
	var err error
	if c.output, c.cause, err = m.ReadResult(); err != nil {
		return c, invalidRequestf("%v", err)
	}
	return c, nil
}

// taskMessagesOf returns as many tasks as go into one answer, at least one. The
// worker holds the others as well: its next poll, which does not name them,
// returns them.
//
// Only inputs and details are counted, as the rest of a task is small; a task alone may be larger than the
// bound, and then goes alone.
func taskMessagesOf(tasks []pawl.Task, lease time.Duration) []remote.TaskMessage {
	messages, size := make([]remote.TaskMessage, 0, len(tasks)), 0
	for _, t := range tasks {
		m := remote.NewTaskMessage(t, lease)
		if size += len(m.Input) + len(m.Details); size > maxTasks && len(messages) > 0 {
			break
		}
		messages = append(messages, m)
	}
	return messages
}
