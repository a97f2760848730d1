package worker

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/workflow"
)

// Version is that of the protocol. Messages of another minor version are
// understood.
const Version = "1.0"

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
		Tasks    []taskMessage `json:"tasks"`
		Drop     []pawl.Key    `json:"drop,omitempty"`
		Draining bool          `json:"draining,omitempty"`
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
		Version   string            `json:"version"`
		Worker    string            `json:"worker"`
		Key       pawl.Key          `json:"key"`
		Run       string            `json:"run,omitempty"`
		Node      string            `json:"node,omitempty"`
		Status    string            `json:"status"`
		Result    json.RawMessage   `json:"result,omitempty"`
		ResultRef string            `json:"resultRef,omitempty"`
		Error     *failureMessage   `json:"error,omitempty"`
		After     string            `json:"after,omitempty"`
		Metadata  json.RawMessage   `json:"metadata,omitempty"`
		Artifacts []artifactMessage `json:"artifacts,omitempty"`
		Take      int               `json:"take,omitempty"`
	}
	artifactMessage struct {
		Name string   `json:"name"`
		Blob blob.Ref `json:"blob"`
	}
	completeReply struct {
		Status string        `json:"status"`
		Tasks  []taskMessage `json:"tasks,omitempty"`
	}
	failureMessage struct {
		Code       string `json:"code"`
		Message    string `json:"message"`
		Retryable  *bool  `json:"retryable,omitempty"`
		RetryAfter string `json:"retryAfter,omitempty"`
	}
	onceRequest struct {
		Version string          `json:"version,omitempty"`
		Worker  string          `json:"worker"`
		Key     pawl.Key        `json:"key"`
		Turn    string          `json:"turn"`
		Once    string          `json:"once,omitempty"`
		Wait    string          `json:"wait,omitempty"`
		Outcome json.RawMessage `json:"outcome,omitempty"`
		Failed  bool            `json:"failed,omitempty"`
	}
	onceReply struct {
		Status  string          `json:"status"`
		Outcome json.RawMessage `json:"outcome,omitempty"`
	}
	leaveRequest struct {
		Version string `json:"version,omitempty"`
		Worker  string `json:"worker"`
	}
	taskMessage struct {
		Key       pawl.Key        `json:"key"`
		EffectKey string          `json:"effectKey"`
		Run       workflow.RunID  `json:"run"`
		Root      workflow.RunID  `json:"root,omitempty"` // if it is another
		Workflow  string          `json:"workflow"`
		Tenant    string          `json:"tenant,omitempty"`
		Node      workflow.NodeID `json:"node"`
		Type      string          `json:"type"`
		Attempt   int             `json:"attempt"`
		Priority  int             `json:"priority"`
		Input     json.RawMessage `json:"input"`
		Branch    branchMessage   `json:"branch"`
		Deadline  time.Time       `json:"deadline,omitzero"`
		Lease     string          `json:"lease"`
		Details   json.RawMessage `json:"details,omitempty"`
	}
	branchMessage struct {
		Index int `json:"index"`
		Total int `json:"total"`
	}
	errorReply struct {
		Error *Error `json:"error"`
	}
)

// The values of status in a completion.
const (
	statusCompleted = "completed"
	statusFailed    = "failed"
	statusSnoozed   = "snoozed"
)

// The values of status in the answer to a onceRequest.
const (
	onceKept   = "kept"   // outcome is what is kept
	onceYours  = "yours"  // the worker has the turn: it makes the effect
	onceWait   = "wait"   // somebody else has the turn: ask again
	onceFailed = "failed" // the turn is given up
)

// Bounds of requests.
const (
	maxWait    = time.Minute // of a poll
	maxHolding = MaxCapacity // keys in a poll or heartbeat
	maxRef     = 4096        // bytes of a reference
	maxTasks   = 8 << 20     // bytes of the tasks in one answer, without the last
)

// checkVersion accepts every minor version of the major one that is spoken here.
func checkVersion(v string) error {
	if major, _, _ := strings.Cut(v, "."); v != "" && major != "1" {
		return poolErrorf(400, CodeVersion, "the message has version %q, this pool speaks %s: send \"version\": %q", v, Version, Version)
	}
	return nil
}

func checkKeys(keys []pawl.Key) error {
	if len(keys) > maxHolding {
		return invalidRequestf("%d keys in one message; at most %d: send several", len(keys), maxHolding)
	}
	return nil
}

// readDetails returns how far the tasks are of which the message says so.
func (q heartbeatRequest) readDetails() (map[pawl.Key]any, error) {
	out := make(map[pawl.Key]any, len(q.Details))
	for k, text := range q.Details {
		if !slices.Contains(q.Keys, k) {
			return nil, invalidRequestf("details name the key %q, which is not among keys: send it there as well", string(k))
		}
		v, err := value.Decode(text, value.Limits{Bytes: pawl.MaxDetails})
		if err != nil {
			return nil, invalidRequestf("the details of key %q: %v", string(k), err)
		}
		out[k] = v
	}
	return out, nil
}

// toCompletion returns what the message says, checked.
func (m completeRequest) toCompletion() (completion, error) {
	c := completion{worker: m.Worker, key: m.Key, run: m.Run, node: m.Node}
	switch {
	case m.Version == "":
		return c, poolErrorf(400, CodeVersion, "the completion has no version: send \"version\": %q", Version)
	case m.Key == "":
		return c, invalidRequestf("the completion has no key: send the key of the task")
	case m.Status == statusFailed:
		err := m.fillCause(&c)
		return c, err
	case m.Status == statusSnoozed:
		after, err := time.ParseDuration(m.After)
		if err != nil || after < 0 {
			return c, invalidRequestf("after is %q: send a duration such as \"30s\"", m.After)
		}
		c.cause = pawl.Snooze(after)
		return c, nil
	case m.Status != statusCompleted:
		return c, invalidRequestf("status is %q: it must be \"completed\", \"failed\" or \"snoozed\"", m.Status)
	case m.Error != nil:
		return c, invalidRequestf("status is \"completed\" and there is an error: send \"status\": \"failed\", or no error")
	case m.Result != nil && m.ResultRef != "":
		return c, invalidRequestf("there are a result and a resultRef: send one of them")
	case len(m.ResultRef) > maxRef:
		return c, invalidRequestf("resultRef has %d bytes; at most %d", len(m.ResultRef), maxRef)
	}
	err := m.readOutput(&c)
	return c, err
}

func (m completeRequest) readOutput(c *completion) error {
	var out pawl.Result
	var err error
	switch {
	case m.ResultRef != "":
		out.Output = map[string]any{"$ref": m.ResultRef}
	case m.Result != nil:
		if out.Output, err = value.Decode(m.Result, value.Limits{}); err != nil {
			return invalidRequestf("result: %v", err)
		}
	}
	if out.Metadata, err = m.readMetadata(); err != nil {
		return err
	}
	for _, a := range m.Artifacts {
		if _, err := blob.ParseRef(a.Blob.Value()); err != nil {
			return invalidRequestf("the artifact %q: %v: send what POST /v1/blobs answered", a.Name, err)
		}
		out.Artifacts = append(out.Artifacts, pawl.Artifact{Name: a.Name, Blob: a.Blob})
	}
	c.output = out
	return nil
}

// readMetadata returns what the message tells about the attempt; nil if nothing.
func (m completeRequest) readMetadata() (map[string]any, error) {
	if m.Metadata == nil {
		return nil, nil
	}
	metadata, err := value.Decode(m.Metadata, value.Limits{})
	if err != nil {
		return nil, invalidRequestf("metadata: %v", err)
	}
	out, ok := metadata.(map[string]any)
	if !ok && metadata != nil {
		return nil, invalidRequestf("metadata must be an object")
	}
	return out, nil
}

// fillCause sets the error that the message reports.
func (m completeRequest) fillCause(c *completion) error {
	if m.Error == nil {
		return invalidRequestf("status is \"failed\" and there is no error: send \"error\": {\"code\": ..., \"message\": ...}")
	}
	after := time.Duration(0)
	if text := m.Error.RetryAfter; text != "" {
		var err error
		if after, err = time.ParseDuration(text); err != nil || after < 0 {
			return invalidRequestf("retryAfter is %q: send a duration such as \"30s\"", text)
		}
	}
	code := m.Error.Code
	if code == "" {
		code = workflow.CodeError
	}
	c.cause = pawl.TaskError{Code: code, Message: m.Error.Message, Retryable: m.Error.Retryable == nil || *m.Error.Retryable, RetryAfter: after}
	metadata, err := m.readMetadata()
	if metadata != nil {
		c.cause = pawl.WithMetadata(c.cause, metadata)
	}
	return err
}

func taskMessageOf(t pawl.Task, lease time.Duration) taskMessage {
	m := taskMessage{
		Key: t.Key, EffectKey: t.EffectKey, Run: t.Run, Workflow: t.Workflow, Tenant: t.Tenant, Node: t.Node, Type: t.Type,
		Attempt: t.Attempt, Priority: t.Priority, Input: value.Encode(t.Input),
		Branch: branchMessage(t.Branch), Deadline: t.Deadline, Lease: lease.String(),
	}
	if t.Root != t.Run {
		m.Root = t.Root
	}
	if t.Details != nil {
		m.Details = value.Encode(t.Details)
	}
	return m
}

// taskMessagesOf returns as many tasks as go into one answer, at least one. The
// worker holds the others as well: its next poll, which does not name them,
// returns them.
func taskMessagesOf(tasks []pawl.Task, lease time.Duration) []taskMessage {
	messages, size := make([]taskMessage, 0, len(tasks)), 0
	for _, t := range tasks {
		m := taskMessageOf(t, lease)
		if size += len(m.Input); size > maxTasks && len(messages) > 0 {
			break
		}
		messages = append(messages, m)
	}
	return messages
}

// toTask returns a message as a worker sees it.
func (m taskMessage) toTask() (pawl.Task, error) {
	input, err := value.Decode(m.Input, value.Limits{})
	if err != nil {
		return pawl.Task{}, fmt.Errorf("input of task %q: %w", string(m.Key), err)
	}
	var details any
	if m.Details != nil {
		if details, err = value.Decode(m.Details, value.Limits{}); err != nil {
			return pawl.Task{}, fmt.Errorf("details of task %q: %w", string(m.Key), err)
		}
	}
	return pawl.Task{
		Key: m.Key, EffectKey: m.EffectKey, Run: m.Run, Root: cmp.Or(m.Root, m.Run), Workflow: m.Workflow, Tenant: m.Tenant, Node: m.Node, Type: m.Type,
		Attempt: m.Attempt, Priority: m.Priority, Input: input, Branch: pawl.Branch(m.Branch), Deadline: m.Deadline, Details: details,
	}, nil
}
