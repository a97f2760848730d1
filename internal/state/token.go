package state

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/pawl-run/pawl/internal/amount"
	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/idset"
	"github.com/pawl-run/pawl/workflow"
)

// Counts are the traversals of loop transitions in a token's lineage. They are
// shared between tokens and never modified.
type Counts map[workflow.TransitionID]int

// A Token is one thread of execution. Tokens are immutable: a change replaces
// the token in its State.
//
// The invariants, after every decision (recount.Invariants checks them):
//
//   - Ids are given from 1 without gaps, and a token is younger than its parent.
//   - A token whose status is terminal never changes again. It waits for nothing
//     and keeps nothing that only a live token needs: no Due, Beat, Order, Input,
//     Source, Holds, Held, Votes or Memory.
//   - Scope is the branch that the token is in, or the zero Scope outside any
//     group. A token that waits for siblings is in the branch that it arrived
//     with, which may be outside the one that it was made in.
//   - A token that waits at a join, of a group or of its node, has a Via.
//   - Held says that a pause keeps a pending token from beginning, so that no
//     other status has it.
//   - No two tokens hold the same lock.
//   - Attempt never decreases, and Base is at most Attempt.
type Token struct {
	// Node is where it is or was last; a token that waits for siblings has left it.
	ID     workflow.TokenID     `json:"id"`
	Node   workflow.NodeID      `json:"node"`
	Status workflow.TokenStatus `json:"status,omitzero"`
	Held   bool                 `json:"held,omitzero"`   // pending because the run is paused
	Parent workflow.TokenID     `json:"parent,omitzero"` // the token it grew from
	Scope  workflow.Scope       `json:"scope,omitzero"`
	Counts Counts               `json:"counts,omitzero"`

	// While it is at a node.
	Attempt int               `json:"attempt,omitzero"` // counts from 1
	Base    int               `json:"base,omitzero"`    // attempts that an operator's Retry has forgiven
	Epoch   Epoch             `json:"epoch,omitzero"`   // of the dispatch of this attempt
	Due     time.Time         `json:"due,omitzero"`     // its attempt times out, its retry or timer is due
	Beat    time.Time         `json:"beat,omitzero"`    // its next heartbeat is due
	Input   any               `json:"input,omitzero"`   // of its task, the same in every attempt
	Failure *workflow.Failure `json:"failure,omitzero"` // of its last attempt
	Caught  *workflow.Failure `json:"caught,omitzero"`  // the error whose transition it came by

	// While it waits for siblings, or at a node's join; Via also when it was
	// cancelled there.
	Via    workflow.TransitionID `json:"via,omitzero"`    // the transition that it took
	Source any                   `json:"source,omitzero"` // its merge source, evaluated at arrival

	Order int64  `json:"order,omitzero"` // its place among all that wait for something else than time
	Holds string `json:"holds,omitzero"` // the lock that it holds
	Votes []Vote `json:"votes,omitzero"` // of its approval, in the order of voting

	Memory *TaskMemory `json:"memory,omitzero"` // of its task; nil if there is nothing to remember
}

// A TaskMemory is what a token remembers of its task from attempt to attempt, and
// few tokens have. It is shared between tokens and never modified.
type TaskMemory struct {
	Patches int            `json:"patches,omitzero"` // of the definition, when the input was evaluated
	Kept    map[string]any `json:"kept,omitzero"`    // result, which the token came with, if its input may be evaluated anew
	Snoozes int            `json:"snoozes,omitzero"` // how often it has asked to be called again
	Earlier int            `json:"earlier,omitzero"` // how often before an operator's retry, which begins to count anew
	Message string         `json:"message,omitzero"` // of its approval, if that is an expression
	Chosen  string         `json:"chosen,omitzero"`  // the task type or subworkflow of its node, if an expression chooses
	Details any            `json:"details,omitzero"` // what an attempt has said last of how far it is
	Budget  amount.Sums    `json:"budget,omitzero"`  // what its attempt that runs has set aside
	Short   bool           `json:"short,omitzero"`   // the token waits for room below a limit of what the run may report, or was parked for want of it
}

// Remembered returns a copy of what t remembers, for a change to it. The maps in it are shared with t: a change
// replaces them.
func (t *Token) Remembered() TaskMemory {
	if t.Memory == nil {
		return TaskMemory{}
	}
	return *t.Memory
}

// Attempts returns how many attempts the task of t has made: a call that ended with a snooze does not count.
func (t *Token) Attempts() int { return t.Attempt - t.AllSnoozes() }

// AllSnoozes returns how often the task of t has asked to be called again, also before an operator's retry.
func (t *Token) AllSnoozes() int {
	if t.Memory == nil {
		return 0
	}
	return t.Memory.Snoozes + t.Memory.Earlier
}

// ChosenAt returns what the expression of the node of t has chosen; "" if it has none.
func (t *Token) ChosenAt(n *compiled.Node) string {
	if n.Choice == nil {
		return ""
	}
	return t.Remembered().Chosen
}

// TaskAt returns the type of the task of t, which has begun at n. A node may leave the choice of its task type to an
// expression. It is evaluated once, as the token begins, and remembered, so that every attempt goes to the same
// handler.
func (t *Token) TaskAt(n *compiled.Node) string { return cmp.Or(t.ChosenAt(n), n.Task) }

// SubworkflowAt returns which definition the child of t executes, which has begun at n.
func (t *Token) SubworkflowAt(n *compiled.Node) workflow.SubworkflowSpec {
	return Chosen(n.Subworkflow, t.ChosenAt(n))
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

// NodeOf returns the node at which a live token stands: one that waits for its siblings has completed its own, and
// stands at the node that their join leads to, as one that waits at the join of a node does.
func (s *State) NodeOf(t *Token) workflow.NodeID {
	if t.Status == workflow.WaitingForSiblings {
		if via := s.Graph.Transition(t.Via); via != nil {
			return via.To
		}
	}
	return t.Node
}

// Alarm returns when time alone changes t: the earlier of Due and Beat; zero if never. At that instant an attempt
// times out or misses its heartbeat, a back-off ends, or a timer is due; the status says which.
func (t *Token) Alarm() time.Time {
	if t.Beat.IsZero() || (!t.Due.IsZero() && t.Due.Before(t.Beat)) {
		return t.Due
	}
	return t.Beat
}

// A Spawn says how many consecutive branches of a group one transition made. In a group the spawns follow each other
// in the order of the branch indices.
type Spawn struct {
	Transition workflow.TransitionID `json:"transition"`
	Count      int                   `json:"count"`
}

// A Group is one occurrence of a fan-out: a name, the token that fanned out and
// this routing of it. Groups are immutable: a change replaces the group.
//
// The invariants, after every decision (recount.Invariants checks them):
//
//   - Branches have the indices 0..Total-1, each once. Branch i begins with
//     token TokenOf(i), whose parent is Origin and which is younger than Origin;
//     the counts of Spawns add up to Total.
//   - Started <= Total. Branches begin in the order of their indices; one that
//     was resolved before it began is passed over, and counted in Unstarted
//     until then.
//   - Arrived, Ended and Failed count the branches of that status, and so
//     Arrived + Ended + Failed <= Total.
//   - Between two messages at most Max branches run, if there is a Max.
//   - Phase leaves Gathering once and then stays: a join fires at most once.
//   - Only a group that gathers has a Due, and a failed one holds no live token.
//     A group that fired or was abandoned may hold stragglers.
//   - Live, Inner and Bytes are counted from the tokens and groups within; they
//     are rebuilt when a state is loaded.
//   - A group is Open until CloseGroup makes it Closed, never both. While a group
//     gathers and is Open, the run is not over.
type Group struct {
	ID     workflow.GroupID `json:"id"`
	Name   string           `json:"name,omitzero"` // "" is anonymous, never joined
	Origin workflow.TokenID `json:"origin"`
	Node   workflow.NodeID  `json:"node"`            // where the origin stood
	Scope  workflow.Scope   `json:"scope,omitzero"`  // of the origin
	Counts Counts           `json:"counts,omitzero"` // of the origin

	First  workflow.TokenID  `json:"first,omitzero"` // token of branch 0; the others follow
	Total  int               `json:"total,omitzero"` // branches made so far
	Spawns []Spawn           `json:"spawns,omitzero"`
	Max    int               `json:"max,omitzero"` // branches that run at once; 0 is no bound
	Open   bool              `json:"open,omitzero"`
	Closed bool              `json:"closed,omitzero"` // by CloseGroup: it takes no branches, and its join fires as soon as it may
	Result any               `json:"result,omitzero"` // of the origin, kept for branches that begin later
	Caught *workflow.Failure `json:"caught,omitzero"` // likewise, the error whose transition made the branches

	Phase   workflow.Phase `json:"phase,omitzero"`
	Started int            `json:"started,omitzero"` // branches 0..Started-1 have begun
	Arrived int            `json:"arrived,omitzero"`
	Ended   int            `json:"ended,omitzero"`
	Failed  int            `json:"failed,omitzero"`

	Due time.Time `json:"due,omitzero"` // its join times out

	Added     []workflow.TokenID `json:"added,omitzero"`     // tokens of the last branches, which were added later
	Unstarted int                `json:"unstarted,omitzero"` // branches from Started on that are resolved

	*GroupCounts `json:"-"` // from PutGroup on
}

// GroupCounts are what is counted of a group, and is no fact of it. They change with every token that comes into the group
// or leaves it, and the row of the group, which is ten times as large, does not: all rows of a group in one state have
// the same counts. An overlay has its own.
type GroupCounts struct {
	Live  int // live tokens in it and nested in it
	Inner int // groups within it, at any depth, that gather
	Bytes int // of JSON that wait in the branches that have arrived
}

// TokenOf returns the first token of branch i; 0 if there is no such branch. The tokens made at the fan-out are
// consecutive, those of branches that were added later are not, since others were made in between.
func (g *Group) TokenOf(i int) workflow.TokenID {
	if i < 0 || i >= g.Total {
		return 0
	}
	if n := g.Total - len(g.Added); i >= n {
		return g.Added[i-n]
	}
	return g.First + workflow.TokenID(i)
}

// UnresolvedBranches returns how many branches of g have not arrived, ended or failed. A join that waits for all
// branches decides when there are none, unless the group is open.
func (g *Group) UnresolvedBranches() int { return g.Total - g.Arrived - g.Ended - g.Failed }

// RunningBranches returns how many branches of g have begun and are not resolved. The resolved branches that have not
// begun are not among the started ones, and are therefore added again: with 5 branches, where 2 have begun and one of
// the other 3 was cancelled, it is 2 - 1 + 1 = 2.
func (g *Group) RunningBranches() int {
	return g.Started - g.Arrived - g.Ended - g.Failed + g.Unstarted
}

// isListedInBranch reports whether the branch in which g began lists it: it
// gathers, or something in it may still change.
func (g *Group) isListedInBranch() bool { return g.Busy() || g.Phase == workflow.Gathering }

// Busy reports whether something in g may go on: a token lives in it or nested
// in it, or a group in it gathers, if only to be decided.
func (g *Group) Busy() bool { return g.Live > 0 || g.Inner > 0 }

// SpawnOf returns the transition that made branch i and i's place among the branches of that transition. The
// expressions of a branch see its element by it. A transition may have more than one spawn, since AddBranch uses the
// first transition: of the spawns a*2, b*1, a*1, branch 3 has place 2 of a. Without such a branch it returns "" and
// -1.
func (g *Group) SpawnOf(i int) (workflow.TransitionID, int) {
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

// A BranchStatus says how a branch of a group stands with its join. Its text form is part of the format of a run's
// file; the number is not stored.
type BranchStatus uint8

// The statuses of a branch. With BranchArrived and the ones after it, the branch is resolved.
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
//
// The invariants, after every decision (recount.Invariants checks them):
//
//   - Status leaves BranchRunning once and then stays. Failure is set with
//     BranchFailed, and only then.
//   - Tokens and Groups are sorted and have no id twice.
//   - While the group has not fired, Waiting <= Live. A running branch arrives
//     when they are equal and above 0 and no group gathers in it.
//   - A failed branch holds no live token: failing it cancelled them.
//   - Live leaves out the tokens of groups that have fired inside the branch:
//     they are stragglers, and the branch does not wait for them. Groups still
//     lists those groups, so that the stragglers can be found.
type Branch struct {
	Status  BranchStatus
	Failure *workflow.Failure // why it failed

	// In a state the rows of branches are replaced as a whole, like tokens.
	Live    int                         // live tokens in it and nested in it, stragglers of fired groups excepted
	Waiting int                         // of these, tokens that wait at its group's join
	Tokens  idset.Set[workflow.TokenID] // live tokens directly in it
	Groups  idset.Set[workflow.GroupID] // groups that began in it and still gather or hold live tokens
}

// inLists reports whether a token is in the lists of all runs: it waits for
// people or for an operator.
func inLists(t *Token) bool {
	return t != nil && (t.Status == workflow.WaitingForApproval || t.Status == workflow.WaitingForOperator)
}

// markListingDirty remembers a token whose place in the lists of all runs changes. The lists of approvals and dead
// letters are kept outside the run, so that they are answered without loading every run. Only the state itself
// collects: an overlay may never be committed.
func (s *State) markListingDirty(old, t *Token) {
	if s.base != nil || !inLists(old) && !inLists(t) {
		return
	}
	if s.listings == nil {
		s.listings = map[workflow.TokenID]bool{}
	}
	s.listings[t.ID] = true
}

// TakeListings returns the tokens that since the last call have begun or ceased
// to wait for people or for an operator, or that changed meanwhile, sorted.
func (s *State) TakeListings() []workflow.TokenID {
	if len(s.listings) == 0 {
		return nil // as in most turns
	}
	out := slices.Sorted(maps.Keys(s.listings))
	s.listings = nil
	return out
}

// An Epoch names one life of an engine: a random number drawn when its
// directory is opened. Keys carry it, so that no answer of a lost timeline fits.
type Epoch uint64

// String returns sixteen hexadecimal digits.
func (e Epoch) String() string { return fmt.Sprintf("%016x", uint64(e)) }
