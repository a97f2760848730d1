package decision

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawl-run/pawl/internal/pace"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// maxBlock is how many tokens are made at a time. A fan-out may make 100,000, and one
// allocation of that size would hold up others while it is cleared.
const maxBlock = 256

// CreateBranches makes a group and the first tokens of its branches, one
// per branch from Group.First on, placed by the group's spawns. Items holds
// the element of each branch if any of them has one.
//
// One decision makes them all, however many: with two spawns of 2 and 3 branches from token
// t7 on, the first transition has branches 0 and 1 with t7 and t8, the second 2 to 4 with t9
// to t11.
type CreateBranches struct {
	Group state.Group `json:"group"`
	Items []any       `json:"items,omitzero"`
}

// String implements fmt.Stringer.
func (d CreateBranches) String() string {
	g := d.Group
	var spawns []string
	for _, sp := range g.Spawns {
		spawns = append(spawns, fmt.Sprintf("%s*%d", sp.Transition, sp.Count))
	}
	l := newLine("create-branches", g.ID).addField("group", g.Name).addField("origin", g.Origin.String()).addScope(g.Scope)
	l.addField("spawns", strings.Join(spawns, ","))
	if g.Total > 0 {
		l.addField("tokens", fmt.Sprintf("%v..%v", g.First, g.First+workflow.TokenID(g.Total)-1))
	}
	if g.Max > 0 {
		l.addField("max", fmt.Sprint(g.Max))
	}
	if d.Items != nil {
		l.addJSON("items", d.Items)
	}
	return l.addFlag("open", g.Open).String()
}

// spawnsTooMany reports whether there would be more branches than a run may have tokens: no
// planner makes them, but a journal that somebody else has written may say so. It comes
// before anything is allocated, so that a damaged or hostile journal is refused and does not
// exhaust the memory.
func spawnsTooMany(spawns []state.Spawn) bool {
	left := workflow.DefaultLimits().Tokens
	for _, sp := range spawns {
		if sp.Count < 0 || sp.Count > left {
			return true
		}
		left -= sp.Count
	}
	return false
}

// evolveState makes all tokens of the group, in the order of its spawns. Tokens
// of one spawn share their loop counts. All are pending: a branch begins with
// StartBranches.
func (d CreateBranches) evolveState(s *state.State) {
	g := d.Group
	if g.ID != s.NextGroup || (g.Total > 0 && g.First != s.NextToken) {
		panic(fmt.Sprintf("decision: %v made out of order, want %v", g.ID, s.NextGroup))
	}
	// A group lies in an older one. Otherwise a walk to the enclosing groups might never end.
	if g.Scope.Group >= g.ID || spawnsTooMany(g.Spawns) {
		panic(fmt.Sprintf("decision: %v is in %v, or has more branches than any run", g.ID, g.Scope.Group))
	}
	tokens := make([]*state.Token, 0, g.Total)
	var block []state.Token // from which they are taken: large memory comes in pieces
	for _, sp := range g.Spawns {
		t := s.Graph.Transition(sp.Transition)
		counts := Traverse(s.Graph, g.Counts, t)
		for range sp.Count {
			i := len(tokens)
			if len(block) == 0 {
				block = make([]state.Token, max(1, min(g.Total-i, maxBlock)))
				pace.Pause()
			}
			token := &block[0] // which is zero: a literal would copy all of it
			token.ID, token.Node, token.Parent, token.Counts = g.First+workflow.TokenID(i), t.To, g.Origin, counts
			token.Scope, token.Caught = workflow.Scope{Group: g.ID, Branch: i}, g.Caught
			tokens, block = append(tokens, token), block[1:]
		}
	}
	s.PutBranches(&g, tokens, d.Items)
}

func (d CreateBranches) toldEvents(*state.State) []Event {
	data := map[string]any{"name": d.Group.Name, "total": int64(d.Group.Total)}
	if d.Group.Total > 0 {
		data["first"] = int64(d.Group.First) // token of branch 0; the others follow
	}
	return []Event{{Type: workflow.EventFanOutStarted, Token: d.Group.Origin, Node: d.Group.Node, Group: d.Group.ID, Data: data}}
}

func (CreateBranches) withdrawnTokens(*state.State) []workflow.TokenID { return nil }

// StartBranches lets the next Count branches of a group begin. How many begin is bounded by
// maxConcurrency, and the planner follows it with the beginnings of their first tokens. It is
// a decision of its own since branches begin later as well, whenever one is resolved.
type StartBranches struct {
	Group workflow.GroupID `json:"group"`
	Count int              `json:"count"`
}

// String implements fmt.Stringer.
func (d StartBranches) String() string {
	return newLine("start-branches", d.Group).addField("count", fmt.Sprint(d.Count)).String()
}

// evolveState counts the next branches as started. Branches that were resolved before they
// began are among them, and are no longer counted as unstarted.
func (d StartBranches) evolveState(s *state.State) {
	g := *s.Group(d.Group)
	for i := g.Started; g.Unstarted > 0 && i < g.Started+d.Count; i++ {
		if s.Branch(workflow.Scope{Group: g.ID, Branch: i}).Status != state.BranchRunning {
			g.Unstarted--
		}
	}
	g.Started += d.Count
	s.PutGroup(&g)
}

func (StartBranches) toldEvents(*state.State) []Event                 { return nil }
func (StartBranches) withdrawnTokens(*state.State) []workflow.TokenID { return nil }

// AddBranch adds a branch to a group. The branch comes last, whatever its transition: the
// index of a branch never changes.
//
// ID is that of the call: another one under it changes nothing.
type AddBranch struct {
	ID    string           `json:"id,omitzero"`
	Group workflow.GroupID `json:"group"`
	Token workflow.TokenID `json:"token"`
	Item  any              `json:"item,omitzero"`
}

// String implements fmt.Stringer.
func (d AddBranch) String() string {
	return newLine("add-branch", d.Group).addField("id", d.ID).addField("token", d.Token.String()).addJSON("item", d.Item).String()
}

// evolveState adds the branch to the last spawn if the group's first transition made
// that one, else as a spawn of its own, so that indices stay in order.
func (d AddBranch) evolveState(s *state.State) {
	g := *s.Group(d.Group)
	t := s.Graph.Transition(g.Spawns[0].Transition)
	last := len(g.Spawns) - 1
	g.Spawns = slices.Clone(g.Spawns)
	if g.Spawns[last].Transition == t.ID {
		g.Spawns[last].Count++
	} else {
		g.Spawns = append(g.Spawns, state.Spawn{Transition: t.ID, Count: 1})
	}
	g.Added = append(slices.Clone(g.Added), d.Token)
	g.Total++
	s.PutGroup(&g)
	if items := s.BranchItems(g.ID); items != nil || t.Foreach != nil {
		for items = slices.Clone(items); len(items) < g.Total-1; {
			items = append(items, nil)
		}
		s.PutItems(g.ID, append(items, d.Item))
	}
	s.PutToken(&state.Token{
		ID: d.Token, Node: t.To, Parent: g.Origin, Counts: Traverse(s.Graph, g.Counts, t),
		Scope: workflow.Scope{Group: g.ID, Branch: g.Total - 1}, Caught: g.Caught,
	})
	s.NoteCall(state.BranchIDs, d.ID)
}

func (d AddBranch) toldEvents(s *state.State) []Event {
	g := s.Group(d.Group)
	return []Event{{Type: workflow.EventBranchAdded, Token: d.Token, Node: g.Node, Group: g.ID, Data: map[string]any{"name": g.Name, "index": int64(g.Total)}}}
}

func (AddBranch) withdrawnTokens(*state.State) []workflow.TokenID { return nil }

// AwaitSiblings makes a token wait at the join of a group, as part of
// branch Scope, which it may enter from a group inside it. Completes says
// that its node completes with it, as in CompleteToken.
//
// Whether the branch has arrived by that is another decision, ArriveBranch: other tokens of
// the branch may still live. Source is the value that the token brings to the merge,
// evaluated as it takes the transition, because nobody keeps the result of a node that was
// left.
type AwaitSiblings struct {
	Token     workflow.TokenID      `json:"token"`
	Scope     workflow.Scope        `json:"scope"`
	Via       workflow.TransitionID `json:"via"`
	Source    any                   `json:"source,omitzero"`
	Completes bool                  `json:"completes,omitzero"`
	Output    any                   `json:"output,omitzero"`
	Metadata  map[string]any        `json:"metadata,omitzero"`
	Skipped   bool                  `json:"skipped,omitzero"` // as in CompleteToken
}

// String implements fmt.Stringer.
func (d AwaitSiblings) String() string {
	return newLine("await-siblings", d.Token).addScope(d.Scope).addField("via", string(d.Via)).addJSON("source", d.Source).String()
}

// evolveState moves the token into the branch that arrives, which may be outside the one that
// it was made in. The token has left its node: what it held there is dropped. Where the token
// comes from an inner group, it no longer counts there, which may resolve its inner branch.
func (d AwaitSiblings) evolveState(s *state.State) {
	t := *liveToken(s, d.Token)
	if d.Completes {
		noteEnd(s, &t, workflow.Completed, d.Output, nil)
	}
	if d.Skipped {
		t.Epoch = 0
	}
	t.Status, t.Scope, t.Via, t.Source = workflow.WaitingForSiblings, d.Scope, d.Via, d.Source
	leaveNode(&t)
	s.PutToken(&t)
}

func (d AwaitSiblings) toldEvents(s *state.State) []Event { return EventsOf(d.appendTold(nil, s)) }

// appendTold tells the branch with which the token arrives.
func (d AwaitSiblings) appendTold(told []Told, s *state.State) []Told {
	if d.Completes {
		told = appendCompleted(told, s, d.Token, d.Metadata)
	}
	waiting := tellOf(s, workflow.EventTokenWaiting, d.Token, siblingData{d.Via, d.Completes})
	waiting.event.Group, waiting.branch = d.Scope.Group, d.Scope.Branch
	return pace.Push(told, waiting)
}

// siblingData are those of a wait for siblings.
type siblingData struct {
	via       workflow.TransitionID
	completes bool
}

func (d siblingData) makeData(*Event) map[string]any {
	out := map[string]any{"for": "siblings", "via": string(d.via)}
	if d.completes {
		out["completes"] = true
	}
	return out
}

func (d siblingData) appendText(text []byte, e *Event, branch int) []byte {
	text = append(text, '{')
	if e.Group != 0 {
		text = append(appendField(text, "branch", int64(branch)), ',')
	}
	if d.completes {
		text = append(text, `"completes":true,`...)
	}
	text = append(text, `"for":"siblings",`...)
	return append(appendTextField(text, "via", string(d.via)), '}')
}

func (d AwaitSiblings) withdrawnTokens(s *state.State) []workflow.TokenID {
	return runningTokens(s, d.Token)
}

// ArriveBranch counts a branch as arrived. Due is set by the first arrival of a group whose
// join has a timeout. A branch arrives when all that lives in it waits at its join,
// stragglers of inner groups excepted. The time-out runs from the first arrival; if
// stragglers block the join, it is set by ArmGroup instead.
type ArriveBranch struct {
	Scope workflow.Scope `json:"scope"`
	Due   time.Time      `json:"due,omitzero"`
}

// String implements fmt.Stringer.
func (d ArriveBranch) String() string {
	return newLine("arrive-branch", d.Scope).addTime("due", d.Due).String()
}

func (d ArriveBranch) evolveState(s *state.State) {
	g := *s.Group(d.Scope.Group)
	g.Arrived++
	if !d.Due.IsZero() {
		g.Due = d.Due
	}
	s.PutGroup(&g) // first: an overlay has the group then, and need not copy it to count in it
	s.PutBranchStatus(d.Scope, state.BranchArrived, nil)
}

func (ArriveBranch) toldEvents(*state.State) []Event                 { return nil }
func (ArriveBranch) withdrawnTokens(*state.State) []workflow.TokenID { return nil }

// EndBranch counts a branch as ended by choice, and drops its data unless stragglers in it
// still see them. It never arrives then: a join with all waits for it no longer, and one with
// a quorum may lack it.
type EndBranch struct {
	Scope workflow.Scope `json:"scope"`
}

// String implements fmt.Stringer.
func (d EndBranch) String() string { return newLine("end-branch", d.Scope).String() }

func (d EndBranch) evolveState(s *state.State) {
	g := *s.Group(d.Scope.Group)
	g.Ended++
	g.Unstarted += countUnstarted(&g, d.Scope)
	s.PutBranchStatus(d.Scope, state.BranchEnded, nil)
	s.PutGroup(&g)
	forgetBranch(s, d.Scope)
}

func (EndBranch) toldEvents(*state.State) []Event                 { return nil }
func (EndBranch) withdrawnTokens(*state.State) []workflow.TokenID { return nil }

// FailBranch counts a branch as failed, cancels what lives in it and in what is nested in it,
// and drops its data. The group is decided after it, and may tolerate the failure. An error
// transition has been tried before: a branch fails only with what nothing in it has caught.
type FailBranch struct {
	Scope   workflow.Scope   `json:"scope"`
	Failure workflow.Failure `json:"failure"`
}

// String implements fmt.Stringer.
func (d FailBranch) String() string {
	return newLine("fail-branch", d.Scope).addFailure(&d.Failure).String()
}

func (d FailBranch) evolveState(s *state.State) {
	vacateBranch(s, d.Scope)
	g := *s.Group(d.Scope.Group)
	g.Failed++
	g.Unstarted += countUnstarted(&g, d.Scope)
	s.PutBranchStatus(d.Scope, state.BranchFailed, &d.Failure)
	s.PutGroup(&g)
}

func (FailBranch) toldEvents(*state.State) []Event { return nil }

func (d FailBranch) withdrawnTokens(s *state.State) []workflow.TokenID {
	return runningTokens(s, s.TokensInScope(d.Scope)...)
}

// DropBranch drops the data of a branch whose last straggler has ended. The branch, or its
// group, was decided before, when stragglers that lived in it still saw its data.
type DropBranch struct {
	Scope workflow.Scope `json:"scope"`
}

// String implements fmt.Stringer.
func (d DropBranch) String() string { return newLine("drop-branch", d.Scope).String() }

func (d DropBranch) evolveState(s *state.State)                    { s.DropScope(d.Scope) }
func (DropBranch) toldEvents(*state.State) []Event                 { return nil }
func (DropBranch) withdrawnTokens(*state.State) []workflow.TokenID { return nil }

// countUnstarted returns 1 if a branch is resolved before it has begun. With maxConcurrency a
// branch may be cancelled while it waits for its turn. Without this count it would be
// subtracted from those that run, and one branch more than allowed would begin.
func countUnstarted(g *state.Group, sc workflow.Scope) int {
	if sc.Branch >= g.Started {
		return 1
	}
	return 0
}

// vacateBranch cancels what lives in a branch and drops its data. Nothing is left that could
// see the data, so that they go at once.
func vacateBranch(s *state.State, sc workflow.Scope) {
	b := s.Branch(sc)
	cancelTokens(s, b.Tokens.All())
	closeGroups(s, b.Groups.All())
	s.DropScope(sc)
}

// forgetBranch drops the data of a branch if nothing lives in it that could see them. While
// stragglers run on, or a group in it may still continue, they stay; DropBranch comes later.
func forgetBranch(s *state.State, sc workflow.Scope) {
	if b := s.Branch(sc); b.Tokens.Len() == 0 && b.Groups.Len() == 0 {
		s.DropScope(sc)
	}
}
