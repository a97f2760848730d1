package state

import (
	"slices"
	"time"

	"github.com/pawl-run/pawl/internal/amount"
	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/idset"
	"github.com/pawl-run/pawl/internal/pace"
	"github.com/pawl-run/pawl/workflow"
)

// Facts are the parts of a run's state that are not rows: one of each per run.
type Facts struct {
	Run       workflow.RunID     `json:"run"`
	Status    workflow.RunStatus `json:"status"`
	Input     map[string]any     `json:"input,omitzero"`
	StartedAt time.Time          `json:"startedAt,omitzero"`
	EndedAt   time.Time          `json:"endedAt,omitzero"`
	Due       time.Time          `json:"due,omitzero"`     // the run times out
	Output    map[string]any     `json:"output,omitzero"`  // of a completed run
	Failure   *workflow.Failure  `json:"failure,omitzero"` // of any other end, or why it is suspended

	Parent       *workflow.Parent   `json:"parent,omitzero"`       // of a child run
	Pins         Pins               `json:"pins,omitzero"`         // the definitions of subworkflows
	Tenant       string             `json:"tenant,omitzero"`       // on whose behalf it runs; "" without
	Labels       map[string]string  `json:"labels,omitzero"`       // nil without
	ForkedFrom   workflow.ForkPoint `json:"forkedFrom,omitzero"`   // zero of a run that was started
	ScheduledAt  time.Time          `json:"scheduledAt,omitzero"`  // the instant of the schedule that started it; zero of any other run
	Trace        *Trace             `json:"trace,omitzero"`        // nil without
	ParentPauses bool               `json:"parentPauses,omitzero"` // paused by the parent run
	Deferred     *workflow.Failure  `json:"deferred,omitzero"`     // dag without failFast: why the run will fail

	NextOrder  int64    `json:"nextOrder,omitzero"` // place in line of the next token that begins to wait
	NextSignal SignalID `json:"nextSignal,omitzero"`

	Reported   Reported            `json:"reported,omitzero"`   // numbers in the metadata of its results
	OwnLimits  amount.Sums         `json:"ownLimits,omitzero"`  // of what it may report, by its start or an operator, in place of those of the definition
	Artifacts  []workflow.Artifact `json:"artifacts,omitzero"`  // staged so far, in order
	Patches    int                 `json:"patches,omitzero"`    // how often its definition was patched
	Definition string              `json:"definition,omitzero"` // hash of the definition since the last patch; "" without patches

	NextToken workflow.TokenID `json:"nextToken"`
	NextGroup workflow.GroupID `json:"nextGroup"`
	Events    int64            `json:"events"` // written so far
}

// State is everything a planner sees of a run: its facts, tokens, groups and
// data. One goroutine owns it. Values that its methods return are shared and
// must not be modified; the Put and Set methods replace them.
//
// An overlay is a State that lies over another one: it reads through to it,
// keeps its own changes, and leaves the other as it is. It is valid as long as
// the other does not change.
//
// The invariants, beside those that are written above Token, Group and Branch (recount.Invariants and recount.Check
// check them):
//
//   - Tokens are conserved: 1..NextToken-1 are all there, each either live or
//     ended, and likewise the groups 1..NextGroup-1.
//   - Everything that is counted agrees with the tokens and groups: live, census,
//     held, open, and the counters of every group and branch.
//   - A token has an alarm exactly when it has a Due or a Beat, a group when it
//     has a Due.
//   - Once Status is final nothing lives, and Status, Output and Failure stay.
//   - Between two messages, a run that is running has a live token or an open
//     group: a run in which nothing can happen any more has ended.
type State struct {
	Facts
	Graph *compiled.Graph // the run's definition, compiled; shared by all its runs
	Epoch Epoch           // of the engine that plans now; not part of the run's state
	Rules int             // the version of the planner as which it plans; 0: the newest; likewise

	// base and tokens to signals are looked up through the overlays: what an overlay does not hold itself, it finds
	// in base.
	base     *State
	spare    *State // the memory of an overlay that was discarded
	tokens   table[workflow.TokenID, Token]
	groups   table[workflow.GroupID, Group]
	branches branchRows
	items    map[workflow.GroupID][]any
	scopes   map[workflow.Scope]*layer
	// live, like statusCounts, held, open, reserved, kept and keptBytes below, is copied into an overlay when that begins, and
	// counted on from there.
	live     int
	liveAt   map[workflow.NodeID]int // live tokens per node, if the definition asks
	movedAt  map[workflow.NodeID]int // of them, those that wait for their siblings: less where they were, more where they stand
	agenda   agenda
	changes  changes
	listings map[workflow.TokenID]bool // tokens whose place in the lists of all runs has changed

	// Completed is the first terminal status, so the array has a place for each live one.
	statusCounts [workflow.Completed]int // live tokens by status
	held         int                     // of the pending ones, those that a pause holds
	open         int                     // groups that gather and are open
	reserved     amount.Sums             // by the attempts that run
	root         *Branch                 // tokens and groups outside any group, if the definition asks
	waiting      map[WaitKey][]spot
	joins        joinCounts                  // what the joins of nodes still wait for; not in overlays
	holders      map[string]workflow.TokenID // by lock; 0 is free
	freed        []string                    // locks that became free; overlays only
	moved        []workflow.Scope            // branches in which tokens or groups have changed; overlays only, for joins: synchronize
	signals      table[SignalID, KeptSignal]
	known        map[string]bool // ids of signals
	counted      int64           // sequence of the last record whose report is in Reported
	kept         int             // signals that nobody has taken
	keptBytes    int             // of their payloads
	steps        map[workflow.NodeID]*Step
}

// NewState returns the state of a run before its first message.
func NewState(run workflow.RunID, g *compiled.Graph) *State {
	return &State{Graph: g, Facts: Facts{Run: run, NextToken: 1, NextGroup: 1, NextSignal: 1}}
}

// Overlay returns a State over s, on which a planner makes its decisions one by one, so that each sees the ones
// before it, while s stays as it is committed. If the message is refused, or reaches a limit, the overlay is thrown
// away and nothing of it is left. It costs the same however large s is: tables and maps begin empty and are filled as
// rows change. An overlay may itself be the base of another; a planner uses that for what it may have to take back,
// such as the output mapping of a node that then fails.
//
// An overlay collects no Changes, listings or joinCounts. The actor applies the decisions once more to s itself, and
// there they are counted.
func (s *State) Overlay() *State {
	o := s.spare
	if s.spare = nil; o == nil {
		o = &State{}
	}
	tokens, groups, branches, scopes := o.tokens.own, o.groups.own, o.branches.own, o.scopes
	*o = State{
		Facts: s.Facts, Graph: s.Graph, Epoch: s.Epoch, Rules: s.Rules, base: s,
		tokens: s.tokens.newOverlay(), groups: s.groups.newOverlay(), live: s.live,
		statusCounts: s.statusCounts, held: s.held, open: s.open, reserved: s.reserved, signals: s.signals.newOverlay(), kept: s.kept, keptBytes: s.keptBytes,
	}
	o.tokens.own, o.groups.own, o.branches.own, o.scopes = tokens, groups, branches, scopes
	return o
}

// Discard ends an overlay, which nobody may use any more; what its methods have returned stays good. Its memory is that
// of the next one over the same state, or, by TakeSpare and GiveSpare, over another: most messages change few rows, and
// to allocate the maps for them costs more than to fill them. An overlay that is not discarded is garbage like any
// other value.
func (s *State) Discard() {
	base := s.base
	tokens, groups, branches, scopes := s.tokens.own, s.groups.own, s.branches.own, s.scopes
	*s = State{}
	s.tokens.own, s.groups.own, s.branches.own, s.scopes = emptied(tokens), emptied(groups), emptied(branches), emptied(scopes)
	if base != nil {
		base.spare = s
	}
}

// TakeSpare returns what Discard has kept, nil if nothing: a run that waits needs no memory for messages.
func (s *State) TakeSpare() *State {
	o := s.spare
	s.spare = nil
	return o
}

// GiveSpare gives a state what another's TakeSpare has returned.
func (s *State) GiveSpare(o *State) { s.spare = o }

// emptied returns a map without its entries; nil in place of one that was large, whose memory few would need.
func emptied[K comparable, V any](m map[K]V) map[K]V {
	if len(m) > 64 {
		return nil
	}
	clear(m)
	return m
}

// Token returns the token with the given id, or nil.
func (s *State) Token(id workflow.TokenID) *Token { return s.tokens.getRow(id) }

// Group returns the group with the given id, or nil.
func (s *State) Group(id workflow.GroupID) *Group { return s.groups.getRow(id) }

// LiveCount returns the number of tokens that are not terminal.
func (s *State) LiveCount() int { return s.live }

// LiveCountAt returns the number of live tokens at a node, where one that waits for its siblings counts at the node that it has left. It
// counts only for definitions whose expressions use the variable active. Others skip the count, since it would add a map entry to every move
// of every token.
func (s *State) LiveCountAt(n workflow.NodeID) int {
	for t := s; t != nil; t = t.base {
		if c, ok := t.liveAt[n]; ok {
			return c
		}
	}
	return 0
}

// StandingCountAt returns the number of live tokens that stand at a node, as NodeOf says, for definitions whose expressions use active.
func (s *State) StandingCountAt(n workflow.NodeID) int { return s.LiveCountAt(n) + s.movedCountAt(n) }

func (s *State) movedCountAt(n workflow.NodeID) int {
	for t := s; t != nil; t = t.base {
		if c, ok := t.movedAt[n]; ok {
			return c
		}
	}
	return 0
}

// BranchItems returns the elements that a group's foreach transitions fanned out over, by branch; nil if it has none.
// They are kept with the group, not computed again from the collection: a foreach iterates over the elements as they
// were when it fanned out, whatever is written to the collection afterwards.
func (s *State) BranchItems(id workflow.GroupID) []any {
	for t := s; t != nil; t = t.base {
		if xs, ok := t.items[id]; ok {
			return xs
		}
	}
	return nil
}

// Branch returns branch sc.Branch of group sc.Group, and for group 0 what is outside any group. A branch in which
// nothing has happened yet has no row: it is known from its group alone, so that a fan-out over 100,000 elements
// makes tokens but no rows of branches. A branch that does not exist is zero.
func (s *State) Branch(sc workflow.Scope) Branch {
	if sc.Group == 0 {
		return s.rootBranch()
	}
	if b := s.branchRow(sc); b != nil {
		return *b
	}
	g := s.Group(sc.Group)
	if g == nil || sc.Branch < 0 || sc.Branch >= g.Total {
		return Branch{}
	}
	// Nothing has happened to it yet: it is its first token.
	id := g.TokenOf(sc.Branch)
	if t := s.Token(id); t == nil || !t.Live() || t.Scope != sc {
		return Branch{}
	}
	return Branch{Live: 1, Tokens: idset.Set[workflow.TokenID]{}.Put(id, true)}
}

// PutToken replaces a token, or adds the next one. All decisions that change a token end here, so that the counters
// and indexes cannot differ from the tokens. A new token must have the id NextToken, and its group must be there
// before it.
func (s *State) PutToken(t *Token) {
	old := s.tokens.getRow(t.ID)
	if old == nil {
		s.NextToken = t.ID + 1
	}
	// The bytes that it brings to a join are counted by the status of its branch, which a change of the token does
	// not touch: they may be taken off before the row is replaced and added after.
	s.countBytes(old, -1)
	s.tokens.putRow(t.ID, t)
	s.countBytes(t, +1)
	// The alarm that the old token had, if any, is stale from now on; the agenda finds that out by itself.
	s.scheduleItem(Item{At: t.Alarm(), Token: t.ID})
	s.indexToken(old, t)
	if old != nil {
		s.markMoved(old.Scope)
	}
	s.markMoved(t.Scope)
	s.markListingDirty(old, t)
	s.moveStanding(old, t)
	s.moveToJoin(old, -1)
	s.moveToJoin(t, +1)
	s.moveBudget(old, t)
	// Most changes are of status only, at the same node in the same branch. They alter no counter but that of those
	// who wait, and must not cost a walk through all enclosing groups.
	wasLive := old != nil && old.Live()
	if wasLive && t.Live() && old.Scope == t.Scope && old.Node == t.Node {
		s.countWaiting(t.Scope, siblingWait(t)-siblingWait(old))
		return
	}
	if wasLive {
		s.countToken(old, -1)
	}
	if t.Live() {
		s.countToken(t, +1)
	}
}

// PutBranches adds g with its branches' first tokens, which the group's spawns place, and the elements that they were
// made for. It is the bulk form of PutGroup and PutToken, and g is the state's from then on. The tokens are pending,
// have no alarm and wait in no line, so that none of the indexes knows them yet, and the counters of the enclosing
// groups are raised once for all of them. The tokens must follow each other from NextToken on.
func (s *State) PutBranches(g *Group, tokens []*Token, items []any) {
	s.PutGroup(g)
	if items != nil {
		s.putItems(g.ID, items)
		s.changes.addItems(s, g.ID)
	}
	for i, t := range tokens {
		pace.Each(i)
		s.tokens.putRow(t.ID, t)
		s.countAtNode(t.Node, +1)
		s.countStanding(t.Node, +1)
	}
	if len(tokens) == 0 {
		return
	}
	s.NextToken = tokens[len(tokens)-1].ID + 1
	s.live += len(tokens)
	s.statusCounts[workflow.Pending] += len(tokens)
	// The number of the branch is not read: only the group and what encloses it count here.
	s.countInGroups(workflow.Scope{Group: g.ID}, len(tokens))
}

// PutItems replaces the elements of a group's branches. AddBranch does that when it adds the element of a branch that
// an operator has added: items is a new slice, one longer.
func (s *State) PutItems(id workflow.GroupID, items []any) {
	s.putItems(id, items)
	s.changes.addItems(s, id)
}

func (s *State) putItems(id workflow.GroupID, items []any) {
	if s.items == nil {
		s.items = map[workflow.GroupID][]any{}
	}
	s.items[id] = items
}

// PutBranchStatus resolves a branch. The counters Arrived, Ended and Failed of the group are not raised here: the
// decision puts the group as well.
func (s *State) PutBranchStatus(sc workflow.Scope, status BranchStatus, f *workflow.Failure) {
	b := s.Branch(sc)
	b.Status, b.Failure = status, f
	s.putBranch(sc, b)
	// The tokens of the branch began to wait before it arrived, and were not counted then. PutToken counts those that
	// change later.
	if status == BranchArrived {
		for id := range b.Tokens.All() {
			s.countBytes(s.Token(id), +1)
		}
	}
	s.changes.addBranch(s, sc)
}

// TokensInScope returns the live tokens of branch sc and of everything nested in it, stragglers included, sorted.
// These are the tokens that go when the branch fails, and among which the cancels of a node look. Stragglers belong
// to them although they no longer count as live in the branch: they still run in its scope. The zero scope is the
// whole run.
func (s *State) TokensInScope(sc workflow.Scope) []workflow.TokenID {
	if sc.Group == 0 && !s.Graph.TracksRoot {
		return s.LiveTokens()
	}
	b := s.Branch(sc)
	out := b.Tokens.AppendTo(nil)
	for id := range b.Groups.All() {
		out = append(out, s.GroupTokens(id)...)
	}
	slices.Sort(out)
	return out
}

// GroupTokens returns the live tokens of every branch of a group and of what is nested in them, sorted. FireGroup,
// with remaining: cancel, and FailGroup tell their executors to stop.
func (s *State) GroupTokens(id workflow.GroupID) []workflow.TokenID {
	g := s.Group(id)
	if g == nil {
		return nil
	}
	var out []workflow.TokenID
	for i := range g.Total {
		out = append(out, s.TokensInScope(workflow.Scope{Group: id, Branch: i})...)
	}
	slices.Sort(out)
	return out
}

// LiveTokens returns every live token, sorted. It costs time in proportion to all tokens ever made. It is for what is
// rare: the end of a run, a patch, a fork.
func (s *State) LiveTokens() []workflow.TokenID {
	out := make([]workflow.TokenID, 0, s.live)
	for id := workflow.TokenID(1); id < s.NextToken; id++ {
		if t := s.Token(id); t != nil && t.Live() {
			out = append(out, id)
		}
	}
	return out
}

// AddArtifacts adds to the artifacts of the run. They are staged by the results of tasks: an outcome lists them only
// when the run has ended.
func (s *State) AddArtifacts(as []workflow.Artifact) {
	if s.base != nil {
		s.Artifacts = slices.Clip(s.Artifacts) // the base may have room that is its own
	}
	s.Artifacts = append(s.Artifacts, as...)
}

// A Revision is a definition that a patch made. The first revision is the definition that the run began with. The
// file of a run keeps all of them, so that a record is understood with the definition that it was planned with.
type Revision struct {
	Number   int // from 2
	Graph    *compiled.Graph
	Document any // the definition as a value
}

// Revision returns the number of the definition that the run has: 1, and one
// more for every patch.
func (s *State) Revision() int { return s.Patches + 1 }

// PutRevision replaces the definition of a run, and counts and finds anew what depends on it. On an overlay it must
// be the first change. It costs time in proportion to the run. Which lines a token waits in, which counters are kept
// at all, whether stragglers of a group block: that follows from the definition. So the rows are restored with the
// new one. The base of an overlay is left alone: the overlay gets a base of its own.
func (s *State) PutRevision(r Revision) {
	rows := s
	for rows.base != nil {
		rows = rows.base
	}
	fresh := Restore(r.Graph, rows.AllRows())
	fresh.Facts, fresh.Epoch, fresh.Rules = s.Facts, s.Epoch, s.Rules
	fresh.Patches, fresh.Definition = r.Number-1, r.Graph.Hash
	if s.base != nil {
		*s = *fresh.Overlay()
		return
	}
	// The restored state takes all of its rows for stored. The store lacks the rows that it lacked before, and the
	// revision.
	fresh.tokens.dirty, fresh.groups.dirty, fresh.signals.dirty = s.tokens.dirty, s.groups.dirty, s.signals.dirty
	fresh.changes, fresh.listings = s.changes, s.listings
	for _, id := range fresh.LiveTokens() {
		fresh.markListingDirty(nil, fresh.Token(id)) // what the lists say of it may change
	}
	fresh.changes.revisions = append(fresh.changes.revisions, &r)
	*s = *fresh
}
