package workflow

import (
	"fmt"
	"strings"
	"time"

	"github.com/pawl-run/pawl/internal/value"
)

// A RunID identifies a run within its engine: 1 to 255 bytes of UTF-8 without control characters. An id given by a
// caller contains no slash; a child's id is PARENT/TOKEN.ATTEMPT. A caller that repeats a start with the same id,
// definition and input has started one run.
type RunID string

// A Run names one execution: an id and the definition, which is given as Definition or Graph, or is
// published and named by Workflow. A definition of a few nodes costs little in any form. A Definition of a thousand nodes
// is encoded as JSON at each start, in some 9 ms, to find out whether the engine knows it: compile it once,
// and pass its Graph.
type Run struct {
	ID         RunID
	Definition *Definition // inline, within the bounds of the engine's options; or
	Graph      *Graph      // inline, as Compile returned it, with any bounds; or
	Workflow   string      // the name of a published definition
	Version    int         // with Workflow; 0 is the latest, or the version of the run if it exists already

	// Tenant is the customer or team for which the run is performed, at most 255 bytes of UTF-8; ""
	// is no tenant. Child runs inherit it. Tenants take turns, however much work each has, and
	// the options of an engine limit what one may have at once.
	Tenant string

	// Labels say what the run is about, in the caller's words, such as customer: "7": Runs
	// and Watch find runs by them. They do not change. There are at most 16, with keys
	// of 1 to 64 bytes of UTF-8 and values of at most 256. Child runs have
	// none: find them by their parent. A Codec leaves labels in clear: put no secrets in them.
	Labels map[string]string

	// MetaLimits bound the sums that the results of the run and of its descendants report, by name, as Limits.Meta of
	// its definition does: numbers from 0 to 2^53, of at most 32 names. If both bound a name, the lower number counts;
	// pawl.Raise raises it.
	MetaLimits map[string]float64
}

// A ForkPoint says from where a run was forked: from another run, as it was after one of its records. It is zero for
// a run that was started. A fork has copies of the records of that run up to this one, under its own id.
type ForkPoint struct {
	Run    RunID `json:"run"`
	Record int64 `json:"record"` // from 1
}

// A ForkResult is the result of an unfinished task in a fork, which does not send the task again.
type ForkResult struct {
	Token  TokenID `json:"token,omitzero"` // the token of the task, or
	Node   NodeID  `json:"node,omitzero"`  // the node, if one task is unfinished there
	Output any     `json:"output,omitzero"`
}

// A Parent says which run and token have started a child run. It is stored with the child, and identifies it: a run with
// the id of a child but another parent is not that child.
type Parent struct {
	Run     RunID   `json:"run"`
	Token   TokenID `json:"token"`
	Attempt int     `json:"attempt"`
	Root    RunID   `json:"root"`  // the first of its ancestors
	Depth   int     `json:"depth"` // depth of the child: 1 below a root
}

// A RunStatus is a stage in the life of a run. The text form is part of the format of files and of the API, and the
// number is in pawl.db: append a new status at the end.
type RunStatus uint8

// The statuses of a run. RunCompleted and the ones after it are final.
const (
	RunCreated RunStatus = iota // no message yet
	RunRunning
	RunPaused    // dispatches are held back
	RunSuspended // an internal fault: nothing is done until Resume
	RunCompleted
	RunFailed
	RunTimedOut
	RunCancelled
)

var runStatusNames = [...]string{"created", "running", "paused", "suspended", "completed", "failed", "timed_out", "cancelled"}

// String returns the text form, e.g. timed_out.
func (s RunStatus) String() string { return runStatusNames[s] }

// Final reports whether a run in status s has ended. An ended run never continues: Fork makes a run under another id
// that does.
func (s RunStatus) Final() bool { return s >= RunCompleted }

// MarshalText returns the text form.
func (s RunStatus) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText sets s to the status of a text form. It fails for any other text, which may have been stored or sent by
// others.
func (s *RunStatus) UnmarshalText(text []byte) error {
	for i, name := range runStatusNames {
		if name == string(text) {
			*s = RunStatus(i)
			return nil
		}
	}
	return fmt.Errorf("unknown run status %q: there are %s", string(text), strings.Join(runStatusNames[:], ", "))
}

// An Outcome is how a run ended, or its status so far.
type Outcome struct {
	Run       RunID          `json:"run"`
	Status    RunStatus      `json:"status"`
	Output    map[string]any `json:"output,omitzero"`  // output of a completed run
	Failure   *Failure       `json:"failure,omitzero"` // why it did not complete, or is suspended; for a run that continues, an incident: CodeJoinUnmet
	StartedAt time.Time      `json:"startedAt,omitzero"`
	EndedAt   time.Time      `json:"endedAt,omitzero"`   // zero while it runs
	Artifacts []Artifact     `json:"artifacts,omitzero"` // artifacts of an ended run, in the order of staging
}

// Err returns nil for a completed run and its Failure, as an error, for any
// other.
func (o Outcome) Err() error {
	if o.Status == RunCompleted {
		return nil
	}
	f := o.Failure
	if f == nil {
		f = &Failure{Code: o.Status.String(), Message: "the run has not completed"}
	}
	return &RunError{Run: o.Run, Status: o.Status, Failure: *f}
}

// Bind decodes the output of a completed run into v, as encoding/json would. For any
// other run it returns the error of Err.
func (o Outcome) Bind(v any) error { return o.bindOutput(v, false) }

// BindStrict is Bind, but fails if the output has a field that v lacks.
func (o Outcome) BindStrict(v any) error { return o.bindOutput(v, true) }

// bindOutput is Bind, strict or not. An output that does not fit v is an error of the caller's, and the run stays
// completed.
func (o Outcome) bindOutput(v any, strict bool) error {
	if err := o.Err(); err != nil {
		return err
	}
	if err := value.Bind(o.Output, v, strict); err != nil {
		return fmt.Errorf("bind the output of run %q: %w", string(o.Run), err)
	}
	return nil
}

// A RunError is the error of a run that did not complete.
type RunError struct {
	Run     RunID
	Status  RunStatus
	Failure Failure
}

// Error says which run ended how, and why.
func (e *RunError) Error() string {
	return fmt.Sprintf("run %q %s: %v", string(e.Run), e.Status, &e.Failure)
}

// Unwrap returns the failure.
func (e *RunError) Unwrap() error { return &e.Failure }
