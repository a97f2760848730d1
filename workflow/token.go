package workflow

import (
	"fmt"
	"strconv"
	"time"
)

// A TokenID identifies a token within its run. Ids are dense from 1 and
// allocated by the planner in creation order.
type TokenID int64

// String returns the text form, t7.
func (id TokenID) String() string { return "t" + strconv.FormatInt(int64(id), 10) }

// A GroupID identifies one occurrence of a fan-out within its run: dense from
// 1, in creation order. 0 is the run itself, outside any group.
type GroupID int64

// String returns the text form, g2.
func (id GroupID) String() string { return "g" + strconv.FormatInt(int64(id), 10) }

// An Epoch names one life of an engine: a random number drawn when its
// directory is opened. Keys carry it, so that no answer of a lost timeline fits.
type Epoch uint64

// String returns sixteen hexadecimal digits.
func (e Epoch) String() string { return fmt.Sprintf("%016x", uint64(e)) }

// A TokenStatus is a stage in the life of a token.
type TokenStatus uint8

// The statuses of a token. Those from Completed on are terminal.
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
	Completed
	Failed
	TimedOut
	Cancelled
)

var tokenStatusNames = [...]string{
	"pending", "dispatched", "retrying", "waiting_for_siblings", "waiting_for_join",
	"waiting_for_subworkflow", "waiting_for_event", "waiting_for_timer", "waiting_for_approval",
	"waiting_for_lock", "waiting_for_operator", "completed", "failed", "timed_out", "cancelled",
}

// String returns the text form, e.g. waiting_for_siblings.
func (s TokenStatus) String() string { return tokenStatusNames[s] }

// Terminal reports whether a token in status s can no longer change.
func (s TokenStatus) Terminal() bool { return s >= Completed }

// ParseTokenStatus is the inverse of String.
func ParseTokenStatus(text string) (TokenStatus, error) {
	for i, name := range tokenStatusNames {
		if name == text {
			return TokenStatus(i), nil
		}
	}
	return 0, fmt.Errorf("unknown token status %q", text)
}

// A Scope names one branch of one group: where data is visible and what a
// token belongs to. The zero Scope is the run itself.
type Scope struct {
	Group  GroupID `json:"group,omitzero"`
	Branch int     `json:"branch,omitzero"` // counts from 0
}

// String returns the text form: root, or g2:5.
func (s Scope) String() string {
	if s.Group == 0 {
		return "root"
	}
	return s.Group.String() + ":" + strconv.Itoa(s.Branch)
}

// Counts are the traversals of loop transitions in a token's lineage. They are
// shared between tokens and never modified.
type Counts map[TransitionID]int

// A Token is one thread of execution. Tokens are immutable: a change replaces
// the token in its State.
type Token struct {
	ID     TokenID     `json:"id"`
	Node   NodeID      `json:"node"`
	Status TokenStatus `json:"status,omitzero"`
	Parent TokenID     `json:"parent,omitzero"` // the token it grew from
	Scope  Scope       `json:"scope,omitzero"`
	Counts Counts      `json:"counts,omitzero"`

	// While it is at a node.
	Attempt int       `json:"attempt,omitzero"` // counts from 1
	Base    int       `json:"base,omitzero"`    // attempts that an operator's Retry has forgiven
	Epoch   Epoch     `json:"epoch,omitzero"`   // of the dispatch of this attempt
	Due     time.Time `json:"due,omitzero"`     // its attempt times out, its retry or timer is due
	Beat    time.Time `json:"beat,omitzero"`    // its next heartbeat is due
	Input   any       `json:"input,omitzero"`   // of its task, the same in every attempt
	Failure *Failure  `json:"failure,omitzero"` // of its last attempt
	Caught  *Failure  `json:"caught,omitzero"`  // the error whose transition it came by

	// While it waits for siblings, or at a node's join; Via also when it was
	// cancelled there.
	Via    TransitionID `json:"via,omitzero"`    // the transition that it took
	Source any          `json:"source,omitzero"` // its merge source, evaluated at arrival

	Order int64  `json:"order,omitzero"` // its place among all that wait for something else than time
	Holds string `json:"holds,omitzero"` // the lock that it holds
	Held  bool   `json:"held,omitzero"`  // pending because the run is paused
	Votes []Vote `json:"votes,omitzero"` // of its approval, in the order of voting
}

// A Vote is what one person has said to an approval.
type Vote struct {
	By       string    `json:"by"`
	Approved bool      `json:"approved"`
	Comment  string    `json:"comment,omitzero"`
	Data     any       `json:"data,omitzero"`
	At       time.Time `json:"at"`
}

// Live reports whether t can still change.
func (t *Token) Live() bool { return !t.Status.Terminal() }

// Alarm returns when time alone changes t: the earlier of Due and Beat; zero if
// never.
func (t *Token) Alarm() time.Time {
	if t.Beat.IsZero() || (!t.Due.IsZero() && t.Due.Before(t.Beat)) {
		return t.Due
	}
	return t.Beat
}

// A Phase is a stage in the life of a group.
type Phase uint8

// The phases of a group. Those from Fired on are final.
const (
	Gathering Phase = iota // branches run, the join has not fired
	Fired                  // the join fired and went on; what still runs are stragglers
	Broken                 // the group failed at its origin
	Abandoned              // nothing goes on: every branch ended by choice, or what encloses it was cancelled
)

var phaseNames = [...]string{"gathering", "fired", "failed", "abandoned"}

// String returns the text form: gathering, fired, failed or abandoned.
func (p Phase) String() string { return phaseNames[p] }

// ParsePhase is the inverse of String.
func ParsePhase(text string) (Phase, error) {
	for i, name := range phaseNames {
		if name == text {
			return Phase(i), nil
		}
	}
	return 0, fmt.Errorf("unknown group phase %q", text)
}

// A Spawn says how many consecutive branches of a group one transition made.
type Spawn struct {
	Transition TransitionID `json:"transition"`
	Count      int          `json:"count"`
}

// A Group is one occurrence of a fan-out: a name, the token that fanned out and
// this routing of it. Groups are immutable: a change replaces the group.
type Group struct {
	ID     GroupID `json:"id"`
	Name   string  `json:"name,omitzero"` // "" is anonymous, never joined
	Origin TokenID `json:"origin"`
	Node   NodeID  `json:"node"`            // where the origin stood
	Scope  Scope   `json:"scope,omitzero"`  // of the origin
	Counts Counts  `json:"counts,omitzero"` // of the origin

	First  TokenID  `json:"first,omitzero"` // token of branch 0; the others follow
	Total  int      `json:"total,omitzero"` // branches made so far
	Spawns []Spawn  `json:"spawns,omitzero"`
	Max    int      `json:"max,omitzero"` // branches that run at once; 0 is no bound
	Open   bool     `json:"open,omitzero"`
	Closed bool     `json:"closed,omitzero"` // by CloseGroup: it takes no branches, and its join fires as soon as it may
	Result any      `json:"result,omitzero"` // of the origin, kept for branches that begin later
	Caught *Failure `json:"caught,omitzero"` // likewise, the error whose transition made the branches

	Phase   Phase `json:"phase,omitzero"`
	Live    int   `json:"-"`                // live tokens in it and nested in it; counted, not a fact
	Inner   int   `json:"-"`                // groups within it, at any depth, that gather; counted
	Started int   `json:"started,omitzero"` // branches 0..Started-1 have begun
	Arrived int   `json:"arrived,omitzero"`
	Ended   int   `json:"ended,omitzero"`
	Failed  int   `json:"failed,omitzero"`

	Due time.Time `json:"due,omitzero"` // its join times out

	Added     []TokenID `json:"added,omitzero"`     // tokens of the last branches, which were added later
	Unstarted int       `json:"unstarted,omitzero"` // branches from Started on that are resolved
}

// TokenOf returns the first token of branch i; 0 if there is no such branch.
func (g *Group) TokenOf(i int) TokenID {
	if i < 0 || i >= g.Total {
		return 0
	}
	if n := g.Total - len(g.Added); i >= n {
		return g.Added[i-n]
	}
	return g.First + TokenID(i)
}

// Unresolved returns how many branches of g have not arrived, ended or failed.
func (g *Group) Unresolved() int { return g.Total - g.Arrived - g.Ended - g.Failed }

// Running returns how many branches of g have begun and are not resolved.
func (g *Group) Running() int { return g.Started - g.Arrived - g.Ended - g.Failed + g.Unstarted }

// present reports whether the branch in which g began still has to do with it.
func (g *Group) present() bool { return g.Busy() || g.Phase == Gathering }

// Busy reports whether something in g may go on: a token lives in it or nested
// in it, or a group in it gathers, if only to be decided.
func (g *Group) Busy() bool { return g.Live > 0 || g.Inner > 0 }

// SpawnOf returns the transition that made branch i and i's place among the
// branches of that transition.
func (g *Group) SpawnOf(i int) (TransitionID, int) {
	for at, s := range g.Spawns {
		if i < s.Count {
			for _, before := range g.Spawns[:at] {
				if before.Transition == s.Transition {
					i += before.Count
				}
			}
			return s.Transition, i
		}
		i -= s.Count
	}
	return "", -1
}

// A BranchStatus says how a branch of a group stands with its join.
type BranchStatus uint8

// The statuses of a branch. Those from BranchArrived on are resolved.
const (
	BranchRunning BranchStatus = iota
	BranchArrived
	BranchEnded  // its last token ended elsewhere, by choice
	BranchFailed // an error in it was not handled
)

var branchStatusNames = [...]string{"running", "arrived", "ended", "failed"}

// String returns the text form: running, arrived, ended or failed.
func (s BranchStatus) String() string { return branchStatusNames[s] }

// ParseBranchStatus is the inverse of String.
func ParseBranchStatus(text string) (BranchStatus, error) {
	for i, name := range branchStatusNames {
		if name == text {
			return BranchStatus(i), nil
		}
	}
	return 0, fmt.Errorf("unknown branch status %q", text)
}

// A Branch is everything that grew from one sibling of a group. Only Status and
// Failure are facts; the rest is counted from the tokens.
type Branch struct {
	Status  BranchStatus
	Failure *Failure // why it failed

	Live    int       // live tokens in it and nested in it, stragglers of fired groups excepted
	Waiting int       // of these, tokens that wait at its group's join
	Tokens  []TokenID // live tokens directly in it, sorted
	Groups  []GroupID // groups that began in it and still gather or hold live tokens, sorted
}
