package workflow

import (
	"cmp"
	"time"
)

type (
	// A NodeID names a node within its definition.
	NodeID string
	// A TransitionID names a transition within its definition.
	TransitionID string
)

// A Definition is a directed graph of nodes and transitions: the process model
// of WfMC, as data. The zero value of every optional field is its default. Two
// definitions with the same content have the same [Definition.Hash].
type Definition struct {
	Name        string                     // identity, with Version
	Version     int                        // positive; 0 means 1
	Mode        Mode                       // graph (default) or dag
	FailFast    *bool                      // dag only; nil means true
	Start       NodeID                     // the first node, in graph mode
	Input       InputSpec                  // what Start accepts
	State       StateSpec                  // the run's own data
	Output      OutputSpec                 // the run's result
	Timeout     time.Duration              // of the whole run; 0 is none
	Limits      Limits                     // lowers the engine's limits
	Signals     []string                   // further names of signals that are taken, beside those that nodes wait for
	Groups      map[string]Synchronization // by sibling group: what its synchronizing transitions have in common; SiblingGroup is left out
	Nodes       []Node
	Transitions []Transition

	places   places                     // where its fields were written, if it was parsed
	settings map[string]Synchronization // Groups, once they are spread over the transitions
	clashes  []clash
}

// An InputSpec says what input a run accepts.
type InputSpec struct {
	Schema any // JSON Schema 2020-12 as a value; nil accepts anything
}

// A StateSpec says how a run's state begins and what it may hold.
type StateSpec struct {
	Schema  any            // JSON Schema 2020-12: checked per written property, and whole at completion
	Initial map[string]any // the first value of state
}

// An OutputSpec says what a run returns.
type OutputSpec struct {
	Schema  any               // JSON Schema 2020-12, checked at completion
	Mapping map[string]string // field: expression; nil returns the output section as it stands
}

// Limits lowers bounds of the engine for runs of one definition. Zero means
// the engine's default, see [DefaultLimits].
type Limits struct {
	Foreach          int    // elements of one foreach
	LiveTokens       int    // tokens alive at once
	Tokens           int    // tokens ever made
	Loop             int    // traversals of one loop transition
	CELCost          uint64 // cost units of one evaluation
	PayloadBytes     int    // one input, result or payload, bytes of JSON
	JSONDepth        int    // nesting of a value
	SubworkflowDepth int    // children of children
	Descendants      int    // runs below one root
	Snoozes          int    // times that one task asks to be called again
	RunBytes         int64  // the run on the disk, in bytes: its file, and what of it the log holds
	SignalBytes      int    // the payloads of all kept signals, in bytes of JSON
}

// A Node is a step. It has at most one kind: Task, Subworkflow, Approval, Wait
// or End. A node with none is a gateway, which completes at once with {}.
type Node struct {
	ID          NodeID
	Task        string           // the task type: chooses the handler or worker
	TaskExpr    string           // in place of Task: expression of one of Tasks, evaluated as the node is entered
	Subworkflow *SubworkflowSpec // a child run
	Approval    *ApprovalSpec    // waits for people
	Wait        *WaitSpec        // a durable timer or an event
	End         *EndSpec         // ends the run at once
	Tasks       []string         // with TaskExpr: the task types that it may choose

	Input        map[string]string // field: expression; nil gives {}
	Output       map[string]string // target path: expression, e.g. "state.total": "result.n"
	OutputSchema any               // JSON Schema of the node's result
	Retry        *RetrySpec
	Timeout      time.Duration // of one attempt; for wait and approval from entry
	Heartbeat    time.Duration // longest silence of a running task
	Priority     int           // of its tasks; 0 first
	Lock         string        // held while a token is at the node
	Join         Join          // over incoming transitions
	Cancels      []NodeID      // live tokens at these nodes end when this one completes
	Unmatched    Unmatched     // what happens when no transition matches
	Needs        []NodeID      // dag: short for unconditional transitions from these

	places places
}

// A Kind says what a node does.
type Kind string

// The kinds of node.
const (
	KindGateway     Kind = "gateway"
	KindTask        Kind = "task"
	KindSubworkflow Kind = "subworkflow"
	KindApproval    Kind = "approval"
	KindWait        Kind = "wait"
	KindEnd         Kind = "end"
)

// Kind returns the kind of n. Of a node with several, which is invalid, it
// returns the first in the order of the fields.
func (n *Node) Kind() Kind {
	switch {
	case n.Task != "" || n.TaskExpr != "":
		return KindTask
	case n.Subworkflow != nil:
		return KindSubworkflow
	case n.Approval != nil:
		return KindApproval
	case n.Wait != nil:
		return KindWait
	case n.End != nil:
		return KindEnd
	}
	return KindGateway
}

// TaskTypes returns the task types that n may have performed; none if it is no task.
func (n *Node) TaskTypes() []string {
	if n.Task != "" {
		return []string{n.Task}
	}
	return n.Tasks
}

// Choices returns the task types or the names of subworkflows among which an expression of n
// chooses; none if n names one itself.
func (n *Node) Choices() []string {
	if n.Subworkflow != nil {
		return n.Subworkflow.Names
	}
	return n.Tasks
}

// choiceSource returns the expression that chooses a task type or a subworkflow; "" if none
// does.
func (n *Node) choiceSource() string {
	if n.Subworkflow != nil {
		return n.Subworkflow.NameExpr
	}
	return n.TaskExpr
}

// A SubworkflowSpec names the definition that a child run executes.
type SubworkflowSpec struct {
	Name     string
	NameExpr string   // in place of Name: expression of one of Names, evaluated as the node is entered
	Names    []string // with NameExpr: the names that it may choose
	Version  int      // 0: the latest published when the root run started
}

// Chosen returns the definition of a literal name, which the expression of s has chosen; that
// of s itself, if it has none.
func (s *SubworkflowSpec) Chosen(name string) SubworkflowSpec {
	return SubworkflowSpec{Name: cmp.Or(name, s.Name), Version: s.Version}
}

// Choices returns the definitions that s may name, by their literal names.
func (s *SubworkflowSpec) Choices() []SubworkflowSpec {
	if s.Name != "" {
		return []SubworkflowSpec{s.Chosen("")}
	}
	out := make([]SubworkflowSpec, len(s.Names))
	for i, name := range s.Names {
		out[i] = s.Chosen(name)
	}
	return out
}

// An ApprovalSpec says whose consent a node waits for.
type ApprovalSpec struct {
	Message      string // what they are asked: literal text
	MessageExpr  string // in place of Message: expression of a text, evaluated as the node is entered
	Quorum       int    // approvals that approve; 0 means 1
	RejectQuorum int    // rejections that reject; 0 means 1
	OnTimeout    ApprovalTimeout
}

// A WaitSpec says what a wait node waits for: exactly one of the fields For,
// Until, Event and Any.
type WaitSpec struct {
	For   time.Duration // a durable timer, from entry; 0 is none
	Until string        // expression: a timestamp; one in the past, or now, is at once
	Event string        // name of a signal
	Match string        // with Event: expression over payload
	Any   []WaitSpec    // whichever comes first
}

// An EndSpec ends the run at once and cancels what is left: as completed, or as
// failed with a code.
type EndSpec struct {
	Fail    string // code; empty completes the run
	Message string // with Fail
}

// A RetrySpec is a durable retry policy: exponential backoff, as in Temporal
// and gRPC.
type RetrySpec struct {
	MaxAttempts        int           // with the first; 0 means 1
	InitialInterval    time.Duration // 0 means 1s
	BackoffCoefficient float64       // 0 means 2
	MaxInterval        time.Duration // 0 is no bound
	Jitter             float64       // 0..1, share of the delay that is drawn
	NonRetryable       []string      // codes that are never retried
	Exhausted          Exhausted     // what happens when no attempt is left
}

// A Transition is an edge from node to node, as in WfMC, XPDL and jPDL (not a
// transition of a Petri net).
type Transition struct {
	ID              TransitionID // default FROM->TO, numbered if repeated
	From, To        NodeID
	Priority        int      // tier; lower first; the first tier with a match wins
	Condition       string   // expression; empty is true
	Outcome         On       // success (default), error or always
	Errors          []string // codes, with Outcome error or always; none fits any
	SpawnCount      int      // makes this many branches; 0 is none
	Foreach         *Foreach // makes a branch per element
	SiblingGroup    string   // names the group that these branches form
	MaxConcurrency  int      // branches of the group that run at once; 0 is no bound
	Open            bool     // the group takes further branches until it is closed
	Loop            *Loop    // bounds traversals
	Synchronization *Synchronization

	places places
}

// A Foreach makes one branch per element of a list.
type Foreach struct {
	Collection string // expression: a list
	As         string // further name of the element, besides item
}

// A Loop bounds how often a token's lineage takes a transition.
type Loop struct {
	MaxIterations int // at least 1
}

// A Synchronization makes a transition a fan-in: branches of a group meet
// there and go on as one token.
type Synchronization struct {
	SiblingGroup string
	Strategy     Strategy
	Remaining    Remaining
	Tolerate     Tolerance     // zero: no failures with All, the shortfall rule alone with Any and MOfN
	Timeout      time.Duration // from the first arrival; 0 is none
	OnTimeout    JoinTimeout
	OnShortfall  Shortfall
	Merge        *Merge // nil: nothing crosses
	Errors       string // target path for tolerated failures
}

// A Merge says how the values of branches become one.
type Merge struct {
	Source   string // expression in the branch's scope; default its result
	Target   string // path in the origin's scope; may append ("state.rounds[]")
	Strategy string // one of the strategies of package merge
	As       MergeAs
}
