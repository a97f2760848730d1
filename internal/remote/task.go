// Package remote is what the engine's process and a worker in another one say of a task, whatever
// carries it between them: the task, how a function of the worker performs it, and what it came to.
package remote

import (
	"cmp"
	"encoding/json"
	"fmt"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/workflow"
)

// A TaskMessage is a task as a worker is told of it. Durations are texts like "30s".
// Root is left out if it is the run itself, Lease is for how long the worker holds the task without a
// sign of life, and Details are those of the last heartbeat that had some, of this attempt or one
// before. Deadline is an instant, zero for none. Queued is the DispatchedAt of the task, by the clock of the engine.
// A task's Order does not cross: only the pool sorts by it.
type TaskMessage struct {
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
	Branch    BranchMessage   `json:"branch"`
	Deadline  time.Time       `json:"deadline,omitzero"`
	Queued    time.Time       `json:"dispatchedAt,omitzero"`
	Lease     string          `json:"lease"`
	Details   json.RawMessage `json:"details,omitempty"`

	Traceparent string `json:"traceparent,omitempty"`
	Tracestate  string `json:"tracestate,omitempty"`
}

// A BranchMessage is the branch of a task.
type BranchMessage struct {
	Index int `json:"index"`
	Total int `json:"total"`
}

// NewTaskMessage returns the message that tells of a task, which is held for so long.
func NewTaskMessage(t pawl.Task, lease time.Duration) TaskMessage {
	m := TaskMessage{
		Key: t.Key, EffectKey: t.EffectKey, Run: t.Run, Workflow: t.Workflow, Tenant: t.Tenant, Node: t.Node, Type: t.Type,
		Attempt: t.Attempt, Priority: t.Priority, Input: value.Encode(t.Input),
		Branch: BranchMessage(t.Branch), Deadline: t.Deadline, Queued: t.DispatchedAt, Lease: lease.String(),
		Traceparent: t.Traceparent, Tracestate: t.Tracestate,
	}
	if t.Root != t.Run {
		m.Root = t.Root
	}
	if t.Details != nil {
		m.Details = value.Encode(t.Details)
	}
	return m
}

// ToTask returns a message as a worker sees it.
//
// The task lacks the services of its process, such as Put and Once: the caller adds them with
// WithServices. An error says that the pool, or what stands between, has sent something that is no
// JSON.
func (m TaskMessage) ToTask() (pawl.Task, error) {
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
		Attempt: m.Attempt, Priority: m.Priority, Input: input, Branch: pawl.Branch(m.Branch), Deadline: m.Deadline, DispatchedAt: m.Queued, Details: details,
		Traceparent: m.Traceparent, Tracestate: m.Tracestate,
	}, nil
}
