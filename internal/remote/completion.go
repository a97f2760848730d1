package remote

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/internal/keeping"
	"github.com/pawl-run/pawl/internal/limits"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/workflow"
)

// A Completion is what a worker says that a task came to.
// Both protocols send it: package worker as the body of /v1/complete, natspool inside its "done"
// request, each with the id of the worker beside it. Key is the only field that decides which attempt
// it is; Run and Node are copies for a reader, and the HTTP pool refuses those that do not fit the
// key. Status says which of the other fields count:
//
//	completed  Result or ResultRef (one of them at most), Metadata, Artifacts
//	failed     Error, Metadata
//	snoozed    After, a duration as text: the attempt is called again later, and has not failed
type Completion struct {
	Key       pawl.Key          `json:"key"`
	Run       string            `json:"run,omitempty"`
	Node      string            `json:"node,omitempty"`
	Status    string            `json:"status"`
	Result    json.RawMessage   `json:"result,omitempty"`
	ResultRef string            `json:"resultRef,omitempty"`
	Error     *FailureMessage   `json:"error,omitempty"`
	After     string            `json:"after,omitempty"`
	Metadata  json.RawMessage   `json:"metadata,omitempty"`
	Artifacts []ArtifactMessage `json:"artifacts,omitempty"`
}

// An ArtifactMessage is an artifact of a result.
type ArtifactMessage struct {
	Name string   `json:"name"`
	Blob blob.Ref `json:"blob"`
}

// A FailureMessage is the error of a task.
// Retryable nil means that the failure may be retried: a worker in another language that says nothing
// gets the retries of the definition. RetryAfter is a duration as text; "" leaves the pause to the
// definition. An empty Code is read as workflow.CodeError.
type FailureMessage struct {
	Code       string `json:"code"`
	Message    string `json:"message"`
	Retryable  *bool  `json:"retryable,omitempty"`
	RetryAfter string `json:"retryAfter,omitempty"`
}

// The values of Status in a completion.
const (
	StatusCompleted = "completed"
	StatusFailed    = "failed"
	StatusSnoozed   = "snoozed"
)

// Bounds of a completion, in bytes.
const (
	MaxMessage = 16 << 10 // of the text of a failure; more is cut off
	MaxRef     = 4096     // of a reference
)

// NewCompletion returns what a function has returned for a task: an output, which may be a
// pawl.Result, or an error. An output that is not JSON is the failure invalid_result; one that is too large or too deep
// fails as it would in the engine's process. Messages of failures are cut at 16 KiB.
//
// Remote workers of both protocols call it once PerformTask is done. It never fails: whatever a
// handler returns has to become a message, since a completion that cannot be sent would leave the
// attempt to its lease, which gives the task to the next worker with the same outcome. A cause counts
// more than an output; an output that is no JSON beside a cause is no second failure.
func NewCompletion(t pawl.Task, output any, cause error) Completion {
	m := Completion{Key: t.Key, Run: string(t.Run), Node: string(t.Node), Status: StatusCompleted}
	if err := m.setOutput(output); cause == nil && err != nil {
		cause = unfitResult(err)
	}
	if cause != nil {
		m.SetFailure(cause)
	}
	return m
}

// setOutput puts an output into a completion.
// It fills Result, Metadata and Artifacts and leaves Status alone; after an error the caller makes a
// failure of the completion, and SetFailure clears what was filled already. The limit is that of a
// value that a run merges, so that the worker hears of it here, and not from the engine.
func (m *Completion) setOutput(output any) error {
	var metadata map[string]any
	if r, ok := output.(pawl.Result); ok {
		output, metadata = r.Output, r.Metadata
		for _, a := range r.Artifacts {
			m.Artifacts = append(m.Artifacts, ArtifactMessage{a.Name, a.Blob})
		}
	}
	taken, err := value.Take(output, value.Limits{Bytes: limits.MaxMergedBytes})
	if err != nil {
		return fmt.Errorf("the result is not JSON: %w", err)
	}
	m.Result = taken.Canonical()
	if metadata == nil {
		return nil
	}
	if m.Metadata, err = encodeMetadata(metadata); err != nil {
		return fmt.Errorf("the metadata are not JSON: %s", err.Error())
	}
	return nil
}

func encodeMetadata(metadata map[string]any) ([]byte, error) {
	v, err := value.Normalize(metadata, value.Limits{})
	if err != nil {
		return nil, err
	}
	return value.Encode(v), nil
}

// SetFailure makes a completion that of an error.
//
// It also turns a completion that was refused into a failure: package worker calls it when the pool
// answers that a result is too large or not valid, natspool also when it does not fit into a message.
// Everything of a success is cleared, since ReadResult reads a message with Error only if its status
// is "failed", and refuses one with fields of another status. A snooze, wherever it stands in the chain
// of the error, is no failure and has no error.
func (m *Completion) SetFailure(cause error) {
	if s := (pawl.SnoozeError{}); errors.As(cause, &s) {
		m.Status, m.Result, m.ResultRef, m.Metadata, m.Artifacts, m.Error = StatusSnoozed, nil, "", nil, nil, nil
		m.After = max(s.After, 0).String()
		return
	}
	f := &FailureMessage{Code: workflow.CodeError, Message: fmt.Sprint(cause)}
	var te pawl.TaskError
	if errors.As(cause, &te) {
		f.Code, f.Message = te.Code, te.Message
		if te.RetryAfter > 0 {
			f.RetryAfter = te.RetryAfter.String()
		}
	} else if about := keeping.BlobFailure(cause); about != nil {
		f.Code = about.Code
	}
	// The cut may fall into the middle of a character; JSON takes whole ones only.
	f.Message = strings.ToValidUTF8(f.Message[:min(len(f.Message), MaxMessage)], "\uFFFD")
	retryable := !pawl.IsPermanent(cause)
	f.Retryable = &retryable
	m.Status, m.Result, m.ResultRef, m.Metadata, m.Artifacts, m.Error, m.After = StatusFailed, nil, "", nil, nil, f, ""
	if metadata := pawl.ErrorMetadata(cause); metadata != nil {
		m.Metadata, _ = encodeMetadata(metadata) // PerformTask has looked at it
	}
}

// ReadResult returns what the message says that the task came to: an output, which may be a
// pawl.Result, or the cause of a failure. err says what is wrong with the message, whose key
// is not looked at.
//
// It is the other end of NewCompletion, in the process of the engine, but it must not trust that: a
// worker in any language may have written the message. The errors are sent to its author, so they say
// what to send instead. A status that contradicts the other fields is refused, and not guessed at. A
// result that is JSON, but no value that a run can keep, is a failure for good, as it is for a function
// of this process: if it were refused, its task would come again for ever, since the next attempt has
// the same result. The pool passes output and cause on to SendResult.
func (m *Completion) ReadResult() (output any, cause, err error) {
	if err := m.checkFields(); err != nil {
		return nil, nil, err
	}
	switch m.Status {
	case StatusFailed:
		cause, err = m.readCause()
		return nil, cause, err
	case StatusSnoozed:
		after, err := time.ParseDuration(m.After)
		if err != nil || after < 0 {
			return nil, nil, fmt.Errorf("after is %q: send a duration such as \"30s\"", m.After)
		}
		return nil, pawl.Snooze(after), nil
	}
	if output, err = m.readOutput(); err != nil {
		return nil, pawl.TaskError{Code: workflow.CodeInvalidResult, Message: err.Error()}, nil
	}
	return output, nil, nil
}

// checkFields refuses a message whose fields contradict each other, or are not of their form. A
// result of null says nothing beside another status: some programs send every field, null where they have none.
func (m *Completion) checkFields() error {
	switch m.Status {
	case StatusCompleted, StatusFailed, StatusSnoozed:
	default:
		return fmt.Errorf("status is %q: it must be \"completed\", \"failed\" or \"snoozed\"", m.Status)
	}
	for _, f := range []struct {
		name  string
		given bool
		with  string // the status that the field is for
	}{
		{"result", m.Result != nil && string(m.Result) != "null", StatusCompleted},
		{"resultRef", m.ResultRef != "", StatusCompleted},
		{"artifacts", len(m.Artifacts) > 0, StatusCompleted},
		{"error", m.Error != nil, StatusFailed},
		{"after", m.After != "", StatusSnoozed},
	} {
		if f.given && m.Status != f.with {
			return fmt.Errorf("status is %q and there is the field %s: send \"status\": %q, or no %s", m.Status, f.name, f.with, f.name)
		}
	}
	switch {
	case m.Result != nil && m.ResultRef != "":
		return errors.New("there are a result and a resultRef: send one of them")
	case len(m.ResultRef) > MaxRef:
		return fmt.Errorf("resultRef has %d bytes; at most %d", len(m.ResultRef), MaxRef)
	case len(m.Metadata) > 0 && m.Metadata[0] != '{' && string(m.Metadata) != "null":
		return errors.New("metadata must be an object")
	}
	return nil
}

// readOutput returns a pawl.Result, also for a completion without a result, whose output is nil. An
// error says which part is no value that a run can keep, and where in it. A ResultRef becomes the
// value {"$ref": ...}: the engine keeps the reference and does not read what is behind it. For an
// artifact only the form of its reference is looked at; whether its blob is there, the engine
// checks when it commits the result.
func (m *Completion) readOutput() (any, error) {
	var out pawl.Result
	var err error
	switch {
	case m.ResultRef != "":
		out.Output = map[string]any{"$ref": m.ResultRef}
	case m.Result != nil:
		if out.Output, err = value.Decode(m.Result, value.Limits{}); err != nil {
			return nil, fmt.Errorf("result: %w", err)
		}
	}
	if out.Metadata, err = m.readMetadata(); err != nil {
		return nil, err
	}
	for _, a := range m.Artifacts {
		if _, err := blob.ParseRef(a.Blob.Value()); err != nil {
			return nil, fmt.Errorf("the artifact %q: %w: send the reference as Put gave it", a.Name, err)
		}
		out.Artifacts = append(out.Artifacts, pawl.Artifact{Name: a.Name, Blob: a.Blob})
	}
	return out, nil
}

// readMetadata returns what the message tells about the attempt, which checkFields has found to be an
// object; nil if nothing.
func (m *Completion) readMetadata() (map[string]any, error) {
	if m.Metadata == nil {
		return nil, nil
	}
	metadata, err := value.Decode(m.Metadata, value.Limits{})
	if err != nil {
		return nil, fmt.Errorf("metadata: %w", err)
	}
	out, _ := metadata.(map[string]any)
	return out, nil
}

// readCause returns the error that the message reports.
//
// The message stands for a pawl.TaskError, the one kind of error that crosses the protocol: an error
// of another type has become one in SetFailure, with the code that it has in the engine's process.
// Metadata that are no value must not hide the failure: as in the engine's process, the reason is kept
// instead.
func (m *Completion) readCause() (cause, err error) {
	if m.Error == nil {
		return nil, errors.New("status is \"failed\" and there is no error: send \"error\": {\"code\": ..., \"message\": ...}")
	}
	after := time.Duration(0)
	if text := m.Error.RetryAfter; text != "" {
		if after, err = time.ParseDuration(text); err != nil || after < 0 {
			return nil, fmt.Errorf("retryAfter is %q: send a duration such as \"30s\"", text)
		}
	}
	code := m.Error.Code
	if code == "" {
		code = workflow.CodeError
	}
	cause = pawl.TaskError{Code: code, Message: m.Error.Message, Retryable: m.Error.Retryable == nil || *m.Error.Retryable, RetryAfter: after}
	metadata, wrong := m.readMetadata()
	if wrong != nil {
		metadata = map[string]any{"invalid_metadata": wrong.Error()}
	}
	if metadata != nil {
		cause = pawl.WithMetadata(cause, metadata)
	}
	return cause, nil
}
