package workflow

import (
	"fmt"
	"strings"
)

// A TokenStatus is a stage in the life of a token. The text form is part of the format of files and of the API. The
// statuses before Completed have consecutive numbers from 0, by which states count their tokens.
type TokenStatus uint8

// The statuses of a token. Completed and the ones after it are terminal.
const (
	Pending            TokenStatus = iota // made, not yet begun
	Dispatched                            // its task is with the executor
	Retrying                              // waits for its next attempt
	WaitingForSiblings                    // arrived at its group's join
	WaitingForJoin                        // arrived at a node's join
	WaitingForChild                       // its child run goes on
	WaitingForEvent
	WaitingForTimer
	WaitingForApproval
	WaitingForLock
	WaitingForOperator // parked: a dead letter is open
	WaitingForBudget   // others have set aside what its attempt may report
	Completed
	Failed
	TimedOut
	Cancelled
)

var tokenStatusNames = [...]string{
	"pending", "dispatched", "retrying", "waiting_for_siblings", "waiting_for_join",
	"waiting_for_subworkflow", "waiting_for_event", "waiting_for_timer", "waiting_for_approval",
	"waiting_for_lock", "waiting_for_operator", "waiting_for_budget", "completed", "failed", "timed_out", "cancelled",
}

// String returns the text form, e.g. waiting_for_siblings.
func (s TokenStatus) String() string { return tokenStatusNames[s] }

// Terminal reports whether a token in status s can no longer change. The work of a terminal token is over for good:
// a result that comes for it is stale.
func (s TokenStatus) Terminal() bool { return s >= Completed }

// MarshalText returns the text form.
func (s TokenStatus) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText sets s to the status of a text form. It fails for any other text, which may have been stored or sent by
// others.
func (s *TokenStatus) UnmarshalText(text []byte) error {
	for i, name := range tokenStatusNames {
		if name == string(text) {
			*s = TokenStatus(i)
			return nil
		}
	}
	return fmt.Errorf("unknown status of a thread: %q; there are %s", string(text), strings.Join(tokenStatusNames[:], ", "))
}

// A Phase is a stage in the life of a group. The join of a Gathering group is still undecided. Each other phase is its
// decision, which is made once.
type Phase uint8

// The phases of a group. Fired and the ones after it are final.
const (
	Gathering Phase = iota // branches run, the join has not fired
	Fired                  // the join fired and went on; what still runs are stragglers
	Broken                 // the group failed at its origin
	Abandoned              // nothing goes on: every branch ended by choice, or what encloses it was cancelled
)

var phaseNames = [...]string{"gathering", "fired", "failed", "abandoned"}

// String returns the text form: gathering, fired, failed or abandoned.
func (p Phase) String() string { return phaseNames[p] }

// MarshalText returns the text form.
func (p Phase) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText sets p to the phase of a text form. It fails for any other text, which may have been stored or sent by
// others.
func (p *Phase) UnmarshalText(text []byte) error {
	for i, name := range phaseNames {
		if name == string(text) {
			*p = Phase(i)
			return nil
		}
	}
	return fmt.Errorf("unknown group phase %q", string(text))
}
