package workflow

import (
	"fmt"

	"github.com/pawl-run/pawl/internal/value"
)

// A Failure is an error as data: what a task reported, or what the engine found. Definitions catch failures and tell
// them apart by Code; Message is for people.
type Failure struct {
	Code      string  `json:"code"`
	Message   string  `json:"message,omitzero"`
	By        string  `json:"by,omitzero"`        // who has cancelled the run, or the child, if known
	Permanent bool    `json:"permanent,omitzero"` // never retried
	Attempts  int     `json:"attempts,omitzero"`  // attempts made when it was raised
	Node      NodeID  `json:"node,omitzero"`      // the node that raised it
	Token     TokenID `json:"token,omitzero"`     // the token that raised it

	// Cause is the caught failure that led a run, by an error transition, to the end node at which it failed:
	// nil if there was none. It has a cause itself only if it came from a child run.
	Cause *Failure `json:"cause,omitzero"`
}

// Error returns code, who cancelled, place and message in one line.
func (f *Failure) Error() string {
	where := ""
	if f.By != "" {
		where = fmt.Sprintf(" by %q", f.By)
	}
	if f.Node != "" {
		where += fmt.Sprintf(" at node %q", string(f.Node))
	}
	if f.Node != "" && f.Token != 0 {
		where += fmt.Sprintf(" (%v)", f.Token)
	}
	text := f.Code + where
	if f.Message != "" {
		text += ": " + f.Message
	}
	if f.Cause != nil {
		text += ", because " + f.Cause.Error()
	}
	return text
}

// Short returns the code and a summary of the cause: "not_fulfilled, because ship failed: no_address".
func (f *Failure) Short() string {
	if f.Cause == nil {
		return f.Code
	}
	if f.Cause.Node == "" {
		return f.Code + ", because of " + f.Cause.Short()
	}
	return f.Code + ", because " + string(f.Cause.Node) + " failed: " + f.Cause.Short()
}

// The codes that the engine itself raises. Tasks may use any other.
const (
	CodeError            = "error"             // a handler's plain error
	CodeTimeout          = "timeout"           // an attempt, or a child, took too long
	CodeHeartbeatTimeout = "heartbeat_timeout" // a task was silent too long
	CodePanic            = "panic"             // a handler panicked
	CodeUnknownTask      = "unknown_task"      // no handler for the task type
	CodeExpression       = "expression_error"  // an expression of the definition failed
	CodeSchema           = "schema_error"      // a value does not fit its schema
	CodeLimit            = "limit_exceeded"    // a bound of the engine or the definition
	CodeUnmatched        = "unmatched"         // no transition matched
	CodeJoinShortfall    = "join_shortfall"    // a quorum can no longer be met
	CodeJoinTimeout      = "join_timeout"      // a join waited too long
	CodeJoinUnmet        = "join_unmet"        // the join: all of a node can no longer be met, in a run that continues
	CodeMerge            = "merge_error"       // branch values do not merge
	CodeDeadlock         = "deadlock"          // only joins that can never fire are left
	CodeResultTooLarge   = "result_too_large"  // a result above the payload limit
	CodeInvalidResult    = "invalid_result"    // a result that is not JSON
	CodeCancelled        = "cancelled"         // the run, or a child, was cancelled
	CodeApprovalTimeout  = "approval_timeout"  // nobody decided in time
	CodeIDConflict       = "id_conflict"       // the id of a child belongs to another run
	CodeBlobMissing      = "blob_missing"      // a blob that is referred to is gone
	CodeBlobDamaged      = "blob_damaged"      // the content of a blob does not fit its hash
	CodeForked           = "forked"            // a task was unfinished when its run was forked, and is not sent again
	CodeStalled          = "stalled"           // no progress, and nothing to wait for
	CodeInternal         = "internal_error"    // a broken invariant of the engine
)

// A LimitError reports a bound that a caller's message exceeds. Nothing changed: a message beyond a limit is refused
// before it is taken.
type LimitError struct {
	Limit string // its name, such as one of Limits
	Max   int64
	Got   int64  // 0 if it was not counted to the end
	What  string // the argument that exceeds it, such as "the input of run \"r\""; "" if the call has only one
}

// Error names the argument, the limit and its value, and says what to do about a
// value that is too large.
func (e *LimitError) Error() string {
	text := fmt.Sprintf("limit %s exceeded: at most %d", e.Limit, e.Max)
	if e.Got != 0 {
		text = fmt.Sprintf("limit %s exceeded: %d, at most %d", e.Limit, e.Got, e.Max)
	}
	if e.What != "" {
		text = e.What + ": " + text
	}
	// There is a way for values of any size.
	if e.Limit == value.LimitBytes {
		text += " bytes: use a blob for what is large (Engine.PutBlob)"
	}
	return text
}

// A SignalError refuses a signal with a name that no node of the run's definition
// waits for, and that Definition.Signals does not declare. Nothing changed.
type SignalError struct {
	Run   RunID
	Name  string
	Known []string // the known names, sorted

	// Workflow and Version name the run's definition: another version may have the signal.
	Workflow string
	Version  int
}

// Error names the run, the known names, and what to do.
func (e *SignalError) Error() string {
	text := fmt.Sprintf("run %q has no signal %q", string(e.Run), e.Name)
	// The first that is nearly the same: most wrong names are slips.
	for _, name := range e.Known {
		if value.NearlyEqual(e.Name, name) {
			text += fmt.Sprintf(" (did you mean %q?)", name)
			break
		}
	}
	of := "its definition"
	if e.Workflow != "" {
		of = fmt.Sprintf("its definition, %s version %d,", e.Workflow, e.Version)
	}
	if len(e.Known) == 0 {
		return text + ": no node of " + of + " waits for any: declare it in signals, or send it as early if a patch will add a node"
	}
	known := fmt.Sprintf("%q", e.Known[:min(len(e.Known), maxListed)])
	return text + ": " + of + " has " + known + ": declare it in signals, or send it as early if a patch will add a node"
}

// An InputError reports an input that is not a JSON value that a run can hold, or that does
// not fit the definition's schema.
type InputError struct {
	Path    string // RFC 6901 pointer into the input; "" is all of it
	Message string
	Schema  bool // the schema of the definition refuses it

	// More are further places where the schema refuses the input of a run without a parent, at most nine. Beyond counts the rest.
	// For an input that is costly to check, only the first place is reported.
	More   []SchemaError
	Beyond int
}

// Error names each place and what is wrong there.
func (e *InputError) Error() string {
	text := fmt.Sprintf("input: at %q: %s", e.Path, e.Message)
	switch {
	case e.Path == "":
		text = "input: " + e.Message
	case e.Schema:
		text = fmt.Sprintf("input does not fit the schema: at %q: %s", e.Path, e.Message)
	}
	for i := range e.More {
		text += "; " + e.More[i].Error()
	}
	if e.Beyond > 0 {
		text += fmt.Sprintf("; and %d more", e.Beyond)
	}
	return text
}

// A PatchError says why a patch is refused. Nothing changed.
type PatchError struct {
	Op      int    // index of the operation; -1 if the result of all is refused
	Path    string // path in the document that it changes; "" is all of it
	Message string // what is wrong
}

// Error names the operation, the place and what is wrong there.
func (e *PatchError) Error() string {
	where := "patch refused: "
	if e.Op >= 0 {
		where += fmt.Sprintf("operation %d: ", e.Op)
	}
	if e.Path != "" {
		where += e.Path + ": "
	}
	return where + e.Message
}

// A SchemaError reports a value that does not fit its schema.
type SchemaError struct {
	Path    string // RFC 6901 pointer into the value
	Message string
}

// Error names the place and what is wrong there.
func (e *SchemaError) Error() string { return fmt.Sprintf("at %q: %s", e.Path, e.Message) }
