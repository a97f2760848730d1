package diagram

import "github.com/pawl-run/pawl/workflow"

// A Standing is what people want to know of a token, from the most to the least pressing.
//
// It is coarser than the status of a token: all the reasons to wait are one. Code compares standings by <, so their order counts; and
// tables such as standingWords are by it.
type Standing int

// The standings.
const (
	Failed Standing = iota
	Parked
	Retrying
	Running
	Waiting
	Done
	Cancelled
	Standings // how many there are, and the standing of what has no token yet
)

// Words and shapes come before colours.
var (
	standingWords   = [...]string{"failed", "parked", "retrying", "running", "waiting", "done", "cancelled", "none"}
	standingSymbols = [Standings]string{"✗", "■", "↻", "▶", "◌", "✓", "−"}
)

// Reading is the order in which counts are read: done first, as it mostly is the most.
var Reading = [Standings]Standing{Done, Failed, Parked, Retrying, Running, Waiting, Cancelled}

// String returns the word for a standing, which is its class in style sheets as well.
func (s Standing) String() string { return standingWords[s] }

// StandingOf returns the standing of a token with a status.
//
// A status that it does not name waits for something: time, an event, people, a child, a lock, a join, or its turn.
func StandingOf(s workflow.TokenStatus) Standing {
	switch s {
	case workflow.Failed, workflow.TimedOut:
		return Failed
	case workflow.WaitingForOperator:
		return Parked
	case workflow.Retrying:
		return Retrying
	case workflow.Dispatched:
		return Running
	case workflow.Completed, workflow.WaitingForSiblings: // which has done its part, and has arrived
		return Done
	case workflow.Cancelled:
		return Cancelled
	default:
		return Waiting
	}
}

// A Tally counts the tokens that are or were at a node by their standing.
//
// It is an array, so that a copy is a copy and the zero value counts nothing.
type Tally [Standings]int

// TallyOf counts tokens by standing, given how many tokens have each status.
func TallyOf(tokens map[workflow.TokenStatus]int) (t Tally) {
	for status, n := range tokens {
		t[StandingOf(status)] += n
	}
	return t
}
