package workflow

import (
	"fmt"
	"slices"

	"github.com/pawl-run/pawl/merge"
)

// Each enumeration of the format has one list of its values. The parser, the texts of problems and the random definitions
// of the tests read this list; tests compare the JSON Schema and docs/definition.md with it. Problems name the values in
// the order of the list.

// enumerations are the lists of values of the types that have one.
var enumerations = []any{
	modes, outcomes, remainings, joinTimeouts, shortfalls, approvalTimeouts, exhaustedValues, unmatchedValues, strategies, mergeForms, joins, kinds,
}

// Values returns the values of an enumeration of the format, in the order of the documentation. For Strategy and Join it
// returns only values without a number, and for Join not JoinNone.
func Values[T Mode | On | Remaining | JoinTimeout | Shortfall | ApprovalTimeout | Exhausted | Unmatched | Strategy | MergeAs | Join | Kind]() []T {
	for _, list := range enumerations {
		if values, ok := list.([]T); ok {
			return slices.Clone(values)
		}
	}
	panic(fmt.Sprintf("workflow: %T has no list", *new(T)))
}

// A Mode says how a definition is scheduled. In a dag, a node begins once enough of its incoming transitions are
// resolved, and data flow through the variable nodes; a dag has no fan-outs, loops or joins of groups.
type Mode string

// The modes of a definition.
const (
	ModeGraph Mode = "graph" // tokens walk transitions
	ModeDAG   Mode = "dag"   // every node at most once, by in-degree
)

var modes = []Mode{ModeGraph, ModeDAG}

// On says after which outcome of its node a transition is taken. A failure that no transition catches fails the branch or,
// outside any group, the run.
type On string

// The outcomes of a transition. The empty value is OnSuccess.
const (
	OnSuccess On = "success"
	OnError   On = "error"
	OnAlways  On = "always"
)

var outcomes = []On{OnSuccess, OnError, OnAlways}

// Remaining says what becomes of branches that still run when their join fires. With cancel they end, and so do their
// tasks and child runs. With ignore they run on, and the run is not complete before they have ended, but nothing that
// they do changes the join. Block is like ignore, but the next join of this group in the same branch also waits until
// they have ended, and only then does its timeout begin.
type Remaining string

// The fates of stragglers. The empty value is RemainingCancel.
const (
	RemainingCancel Remaining = "cancel"
	RemainingIgnore Remaining = "ignore"
	RemainingBlock  Remaining = "block"
)

var remainings = []Remaining{RemainingCancel, RemainingIgnore, RemainingBlock}

// A JoinTimeout says what happens when a join has waited too long. With fail, the group fails with join_timeout at
// the node that fanned out, where a transition may catch it. Otherwise the join fires with the branches that have
// arrived.
type JoinTimeout string

// The policies of a join timeout. The empty value is TimeoutFail.
const (
	TimeoutFail    JoinTimeout = "fail"
	TimeoutProceed JoinTimeout = "proceed_with_available"
)

var joinTimeouts = []JoinTimeout{TimeoutFail, TimeoutProceed}

// A Shortfall says what happens when a quorum can no longer be met. A quorum is lost when too many branches have
// failed or ended elsewhere: with fail, the group fails with join_shortfall; with proceed, the join fires with what
// arrived.
type Shortfall string

// The policies of a shortfall. The empty value is ShortfallFail.
const (
	ShortfallFail    Shortfall = "fail"
	ShortfallProceed Shortfall = "proceed"
)

var shortfalls = []Shortfall{ShortfallFail, ShortfallProceed}

// An ApprovalTimeout says what an approval becomes when nobody has decided. With fail the node fails with
// approval_timeout; the others are decisions, whose output names the timeout as their cause.
type ApprovalTimeout string

// The outcomes of an approval's timeout. The empty value is ApprovalFail.
const (
	ApprovalFail    ApprovalTimeout = "fail"
	ApprovalApprove ApprovalTimeout = "approve"
	ApprovalReject  ApprovalTimeout = "reject"
)

var approvalTimeouts = []ApprovalTimeout{ApprovalFail, ApprovalApprove, ApprovalReject}

// Exhausted says what happens to a task whose attempts are used up. A parked task is a token that lives: the run goes
// on around it and does not end. An expression or a schema that fails is not parked.
type Exhausted string

// The outcomes of an exhausted task. The empty value is ExhaustedFail.
const (
	ExhaustedFail Exhausted = "fail"
	ExhaustedPark Exhausted = "park" // wait for an operator, as a dead letter
)

var exhaustedValues = []Exhausted{ExhaustedFail, ExhaustedPark}

// An InFlight says what a fork does with the tasks and child runs that were unfinished in its original. The original
// still has them, so the fork must not take their results for its own.
type InFlight string

// The choices for unfinished tasks. The empty value is InFlightAgain.
const (
	InFlightAgain InFlight = ""     // tasks are sent again, under keys of the fork, and child runs start anew
	InFlightPark  InFlight = "park" // they wait for an operator, as dead letters
)

// A RetryInput says with which input an operator's retry calls a task. All attempts that the retry policy makes have
// the same input.
type RetryInput string

// The inputs of a retry. The empty value is InputIfPatched.
const (
	InputIfPatched RetryInput = ""      // evaluated anew for a dead letter whose definition was patched since; otherwise as it was
	InputAgain     RetryInput = "again" // evaluated anew, with the data that the run has now
	InputKept      RetryInput = "kept"  // as it was
)

// Unmatched says what happens when no transition of a completed node matches. With end the token ends by choice,
// which may complete the run. With fail the node has failed with the code unmatched.
type Unmatched string

// The outcomes of an unmatched token. The empty value is UnmatchedEnd; Check warns where that may happen unnoticed.
const (
	UnmatchedEnd  Unmatched = "end"
	UnmatchedFail Unmatched = "fail"
)

var unmatchedValues = []Unmatched{UnmatchedEnd, UnmatchedFail}

// A Strategy says how many branches of a group a join waits for: an AND-join, a discriminator or an m-out-of-n join
// (WCP-3, 9, 30). The zero Strategy is All. It can be compared with ==. Any and MOfN(1) mean the same, but are not
// equal: each keeps the form in which it is written.
type Strategy struct {
	some bool // a quorum rather than all
	any  bool // written as any
	n    int
}

// The strategies without a number.
var (
	All = Strategy{}
	Any = Strategy{some: true, any: true, n: 1}
)

var strategies = []Strategy{All, Any}

// MOfN returns the strategy that waits for n branches; n must be at least 1.
func MOfN(n int) Strategy { return Strategy{some: true, n: n} }

// isAll reports whether s waits for every branch.
func (s Strategy) isAll() bool { return !s.some }

// Quorum returns how many branches s waits for, 0 for all of them. A quorum counts branches that have arrived, not
// tokens.
func (s Strategy) Quorum() int { return s.n }

// String returns the text form: all, any or mOfN(2).
func (s Strategy) String() string {
	switch {
	case !s.some:
		return "all"
	case s.any:
		return "any"
	}
	return fmt.Sprintf("mOfN(%d)", s.n)
}

// A Tolerance says how many branches of a group may fail before the group does. It can be compared with ==. The zero
// Tolerance leaves that to the strategy: All then tolerates no failure, and a quorum any number, until it can no longer
// be met.
type Tolerance struct {
	kind     toleranceKind
	failures int
	ratio    float64
}

type toleranceKind uint8

const (
	toleranceNone toleranceKind = iota
	toleranceCount
	toleranceRatio
)

// TolerateFailures returns the Tolerance of at most n failed branches, from 0.
func TolerateFailures(n int) Tolerance { return Tolerance{kind: toleranceCount, failures: n} }

// TolerateRatio returns the Tolerance of at most a share of the branches made so far, in 0..1. An open group may get
// further branches, which make the same number of failures a smaller share.
func TolerateRatio(share float64) Tolerance { return Tolerance{kind: toleranceRatio, ratio: share} }

// Exceeded reports whether more of total branches have failed than t tolerates. The zero Tolerance is never exceeded.
// total is at least failed. A share that is met exactly is tolerated.
func (t Tolerance) Exceeded(failed, total int) bool {
	switch t.kind {
	case toleranceCount:
		return failed > t.failures
	case toleranceRatio:
		return float64(failed)/float64(total) > t.ratio
	default:
		return false
	}
}

// MergeAs says how a merged value is kept.
type MergeAs string

// How a merged value is kept. The empty value is MergeAsValue.
const (
	MergeAsValue MergeAs = "value" // in the data of the run, at most 16 MiB of JSON
	MergeAsBlob  MergeAs = "blob"  // a reference to a blob of newline-delimited JSON, a line for each element of the list
)

var mergeForms = []MergeAs{MergeAsValue, MergeAsBlob}

var mergeStrategies = textsOf(merge.All())

// textsOf returns the texts of values.
func textsOf[T ~string](values []T) []string {
	texts := make([]string, len(values))
	for i, v := range values {
		texts[i] = string(v)
	}
	return texts
}

// A Join says how a node waits for its incoming transitions. The zero Join of a graph-mode node does not wait. It can
// be compared with ==. The join of a group is a Synchronization, on a transition, and counts branches; a Join is on a
// node and counts the tokens that came by each transition.
type Join struct {
	kind joinKind
	n    int
}

type joinKind uint8

const (
	joinNone joinKind = iota
	joinAll
	joinSynchronize
	joinAny
	joinMOfN
)

// The joins without a number.
var (
	JoinNone        = Join{}
	JoinAll         = Join{kind: joinAll}
	JoinSynchronize = Join{kind: joinSynchronize}
	JoinAny         = Join{kind: joinAny}
)

// A dag has JoinAll and JoinAny, a graph JoinAll and JoinSynchronize.
var joins = []Join{JoinAll, JoinAny, JoinSynchronize}

// JoinMOfN returns the dag join that runs its node after n live transitions. Later live transitions are absorbed: a
// node of a dag runs once.
func JoinMOfN(n int) Join { return Join{kind: joinMOfN, n: n} }

// Quorum returns the number of JoinMOfN, 1 for JoinAny and 0 for the others. In a dag, 0 means all transitions; a graph
// does not use the quorum.
func (j Join) Quorum() int {
	switch j.kind {
	case joinAny:
		return 1
	case joinMOfN:
		return j.n
	case joinNone, joinAll, joinSynchronize:
	}
	return 0
}

// String returns the text form: "", all, synchronize, any or mOfN(2).
func (j Join) String() string {
	if j.kind == joinMOfN {
		return fmt.Sprintf("mOfN(%d)", j.n)
	}
	return [...]string{"", "all", "synchronize", "any"}[j.kind]
}
