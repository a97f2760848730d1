package workflow

import "time"

type (
	// A NodeID names a node within its definition.
	NodeID string
	// A TransitionID names a transition within its definition.
	TransitionID string
)

// A Definition is a directed graph of nodes and transitions: the process model of WfMC, as data. The zero value of
// every optional field is its default. Two definitions with the same content have the same [Definition.Hash]. It is
// data: it may be parsed, built in Go, stored, compared and patched. Nothing is filled in or resolved here:
// see [Compile] for that. A run keeps the definition that it began with, whatever is published afterwards, until a
// patch changes it.
type Definition struct {
	Name        string                     // identity, with Version
	Version     int                        // positive; 0 means 1
	Mode        Mode                       // graph (default) or dag
	FailFast    *bool                      // dag only; nil means true
	Start       NodeID                     // the first node, in graph mode
	Input       InputSpec                  // what Start accepts
	State       StateSpec                  // the run's own data
	Output      OutputSpec                 // the run's result
	Timeout     time.Duration              // for the whole run; 0: no timeout
	Limits      Limits                     // lowers the engine's limits
	Signals     []string                   // names of signals that a run accepts, besides those that nodes wait for
	Groups      map[string]Synchronization // by sibling group: the settings shared by its synchronizing transitions; SiblingGroup is left out
	Nodes       []Node
	Transitions []Transition

	// settings and clashes are only there in a definition that was completed.
	places                              // where its fields were written, if it was parsed
	settings map[string]Synchronization // Groups, once they are spread over the transitions
	clashes  []clash
}

// An InputSpec says what input a run accepts. A start with any other input is refused, and makes no run.
type InputSpec struct {
	Schema any // JSON Schema 2020-12 as a value; nil accepts anything
}

// A StateSpec says how a run's state begins and what it may hold. A node whose write does not fit fails with
// schema_error, and none of its writes is kept. Requirements of the schema on the state as a whole need
// not hold before the run completes.
type StateSpec struct {
	Schema  any            // JSON Schema 2020-12: checks each written property, and the whole state at completion
	Initial map[string]any // the first value of state
}

// An OutputSpec says what a run returns. The mapping is evaluated when nothing is left to do in the run. If it fails,
// or its result does not fit the schema, the run fails.
type OutputSpec struct {
	Schema  any               // JSON Schema 2020-12, checked at completion
	Mapping map[string]string // field: expression; nil returns the output section as it stands
}

// Limits lowers limits of the engine for runs of one definition. Zero means the engine's default, see
// [DefaultLimits]. A definition cannot raise limits of the engine. A caller's value beyond a limit is
// refused; an expression, a value or a foreach beyond a limit fails its node, which a transition may catch; too many
// tokens fail the run.
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
	Snoozes          int    // how often one task may ask to be called again
	RunBytes         int64  // the run on the disk, in bytes: its file, and its part of the log
	SignalBytes      int    // the payloads of all kept signals, in bytes of JSON

	// Meta bounds, by name, the sums of numbers, such as a cost, in the metadata of the results of a run and of the runs below
	// it. Each bound is more than 0. No attempt begins that would exceed it: see Node.Budget.
	Meta map[string]float64
}

// A Node is a step. It has at most one kind: Task, Subworkflow, Approval, Wait or End. A node with none is a gateway,
// which completes at once with {}. Completing a node is atomic: the output mapping and the choice of transitions. If
// any part fails, nothing is written, and the node fails instead of completing. A lock is held from
// before the first attempt until the token leaves the node, through all retries, and by a subworkflow node for as
// long as its child runs.
type Node struct {
	ID          NodeID
	Task        string           // the task type: chooses the handler or worker
	TaskExpr    string           // instead of Task: expression that yields one of Tasks, evaluated when the node is entered
	Subworkflow *SubworkflowSpec // a child run
	Approval    *ApprovalSpec    // waits for people
	Wait        *WaitSpec        // a durable timer or an event
	End         *EndSpec         // ends the run at once
	Tasks       []string         // with TaskExpr: the task types that it may choose

	Input        map[string]string // field: expression; nil gives {}
	Output       map[string]string // target path: expression, e.g. "state.total": "result.n"
	OutputSchema any               // JSON Schema of the node's result
	Retry        *RetrySpec
	Timeout      time.Duration // for one attempt; for wait and approval, from entry
	Heartbeat    time.Duration // longest time without a heartbeat of a running task
	Priority     int           // order of its tasks; 0 first
	Lock         string        // held while a token is at the node
	Join         Join          // how it waits for its incoming transitions
	Cancels      []NodeID      // live tokens at these nodes end when this node completes; a token that waits for its siblings is at the node to which their join leads
	Unmatched    Unmatched     // what happens when no transition matches
	Needs        []NodeID      // dag: short for unconditional transitions from these nodes

	// Budget is how much one attempt may report of each sum that Limits.Meta bounds, by name. It is reserved when the attempt
	// is dispatched, so that concurrent attempts do not exceed the limit, and released when the attempt ends. An attempt without
	// a budget begins as long as the limit is not reached; one with budget 0 begins in any case. The budget of a subworkflow node
	// is also the limit of its child run; without one, the child's limit is what this run has left when the child begins.
	Budget map[string]float64

	places
}

// A Kind says what a node does. It follows from the fields of the node; the format has no field of this name.
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

var kinds = []Kind{KindGateway, KindTask, KindSubworkflow, KindApproval, KindWait, KindEnd}

// Kind returns the kind of n. For a node with several, which is invalid, it returns the first in the order of the
// fields. Kind looks at the fields each time, so that a definition in Go need not state the kind.
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

// TaskTypes returns the task types that n may use; none if n is not a task. To check that all of them have a
// handler, call it for each node.
func (n *Node) TaskTypes() []string {
	if n.Task != "" {
		return []string{n.Task}
	}
	return n.Tasks
}

// A SubworkflowSpec names the definition that a child run executes. The definition that a name means is settled when the
// root run starts, for all its descendants, also for a Version of 0: later publications do not change a
// tree of runs that has begun.
type SubworkflowSpec struct {
	Name     string
	NameExpr string   // instead of Name: expression that yields one of Names, evaluated when the node is entered
	Names    []string // with NameExpr: the names that it may choose
	Version  int      // 0: the latest published when the root run started
}

// An ApprovalSpec says how a node asks people. Each person has one vote. As soon as Quorum people have approved or
// RejectQuorum have rejected, the node completes, with the votes as its output: a rejection is a result like an
// approval, not a failure.
type ApprovalSpec struct {
	Message      string // the question: literal text
	MessageExpr  string // instead of Message: string expression, evaluated when the node is entered
	Quorum       int    // votes needed to approve; 0 means 1
	RejectQuorum int    // votes needed to reject; 0 means 1
	OnTimeout    ApprovalTimeout
}

// A WaitSpec says what a wait node waits for: exactly one of the fields For, Until, Event and Any. A timer survives
// restarts and fires once, however late. A kept signal is taken at once, the oldest first;
// a signal for which Match is false stays for others.
type WaitSpec struct {
	For   time.Duration // a durable timer, from entry; 0: no timer
	Until string        // expression: a timestamp; one in the past, or now, fires at once
	Event string        // name of a signal
	Match string        // with Event: expression over payload
	Any   []WaitSpec    // whichever comes first
}

// An EndSpec ends the run at once, completed or failed with a code, and cancels all live tokens. A run without
// such a node ends when it has nothing left to do.
type EndSpec struct {
	Fail        string // code; empty completes the run, unless CodeExpr is set
	CodeExpr    string // instead of Fail: string expression, the code
	Message     string // with Fail or CodeExpr
	MessageExpr string // instead of Message: string expression
}

// fails reports whether the run fails at the node.
func (s *EndSpec) fails() bool { return s.Fail != "" || s.CodeExpr != "" }

// A RetrySpec is a durable retry policy: exponential backoff, as in Temporal and gRPC. A retry is a further attempt
// of the same token, with the same input. The delay is a function of the run, the token and the attempt, so that a replay
// computes the same.
type RetrySpec struct {
	MaxAttempts        int           // including the first; 0 means 1
	InitialInterval    time.Duration // 0 means 1s
	BackoffCoefficient float64       // 0 means 2
	MaxInterval        time.Duration // 0: no bound
	Jitter             float64       // 0..1, the largest share of the delay that may be subtracted
	NonRetryable       []string      // codes that are never retried
	Exhausted          Exhausted     // what happens when no attempt is left
}

// A Transition is an edge from node to node, as in WfMC, XPDL and jPDL (not a transition of a Petri net). When its
// node ends, the transitions with a fitting outcome are tried by priority, lowest first. In the first tier in which
// a condition holds, all matches are taken, in definition order; later tiers are not evaluated. A condition
// that is not a bool, or reads a missing value, is an error and not false.
type Transition struct {
	ID              TransitionID // default FROM->TO, numbered if repeated
	From, To        NodeID
	Priority        int      // tier; lower first; the first tier with a match wins
	Condition       string   // expression; empty is true
	Outcome         On       // success (default), error or always
	Errors          []string // codes, with Outcome error or always; empty: any code
	SpawnCount      int      // makes this many branches; 0: none
	Foreach         *Foreach // makes a branch per element
	SiblingGroup    string   // names the group that these branches form
	MaxConcurrency  int      // branches of the group that run at once; 0 is no bound
	Open            bool     // the group takes further branches until it is closed
	Loop            *Loop    // bounds traversals
	Synchronization *Synchronization

	places
}

// A Foreach makes one branch per element of a list, as the list is at the fan-out. For an empty list the
// group has no branches, and its join decides at once.
type Foreach struct {
	Collection string // expression: a list
	As         string // further name of the element, besides item
}

// A Loop bounds how often a token's lineage takes a transition. At the bound the transition is skipped
// before its condition is evaluated, so that a later tier is the exit. The count includes the token and its
// ancestors; with 3, the body of a loop runs at most 4 times.
type Loop struct {
	MaxIterations int // at least 1
}

// A Synchronization makes a transition a fan-in: branches of a group meet there and continue as one token. A join fires
// once for each occurrence of its group and makes one token, in the branch of the token that fanned out. Only branches
// of that fan-out take part, not those of other groups of the same name.
type Synchronization struct {
	SiblingGroup string
	Strategy     Strategy
	Remaining    Remaining
	Tolerate     Tolerance     // zero: no failures with All, only the shortfall rule with Any and MOfN
	Timeout      time.Duration // from the first arrival; 0: no timeout
	OnTimeout    JoinTimeout
	OnShortfall  Shortfall
	Merge        *Merge // nil: no values are merged
	Errors       string // target path for tolerated failures
}

// A Merge says how the values of branches become one. Values are merged in the order of their branches,
// never of their arrival, so that each run with the same results has the same merged value.
type Merge struct {
	Source   string // expression in the branch's scope; default its result
	Target   string // path in the origin's scope; may append ("state.rounds[]"); "": the value is the result for the next node alone
	Strategy string // one of the strategies of package merge
	As       MergeAs
}
