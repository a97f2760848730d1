package state

import (
	"iter"
	"slices"

	"github.com/pawl-run/pawl/workflow"
)

// A WaitKind says what several tokens or groups may wait for in line.
type WaitKind uint8

// The kinds of line.
const (
	LineEvent       WaitKind = iota // tokens that wait for an event of a name
	LineLock                        // tokens that wait for a lock of a name
	LineJoin                        // tokens that wait at a node's join, by the transition that they took
	LineSynchronize                 // tokens that wait at a node with join: synchronize, in whatever branch
	LineHeld                        // tokens that a pause holds back
	LineApproval                    // tokens whose approval is open
	LineParked                      // tokens that wait for an operator
	LineSignal                      // kept signals of a name
	LineGather                      // groups of a name that gather, where stragglers block
	LineDrain                       // groups of a name that have fired and hold stragglers, likewise
)

// A WaitKey names a line: tokens, groups or signals in the order in which they
// began to wait.
type WaitKey struct {
	Kind  WaitKind
	Name  string         // of the event, lock, transition or group
	Scope workflow.Scope // of a join or a group
}

// A spot is one entry of a line. It is stale once what it names has left; who
// reads the line looks.
type spot struct{ order, id int64 }

// Line returns the tokens that wait in a line, first come first.
func (s *State) Line(k WaitKey) iter.Seq[*Token] {
	return func(yield func(*Token) bool) {
		for p := range s.line(k) {
			if s.waitsIn(k, p) && !yield(s.Token(workflow.TokenID(p.id))) {
				return
			}
		}
	}
}

// First returns the first token of a line, nil if it is empty.
func (s *State) First(k WaitKey) *Token {
	for t := range s.Line(k) {
		return t
	}
	return nil
}

// line yields the places of a line, of the base first: what overlays add comes
// later.
func (s *State) line(k WaitKey) iter.Seq[spot] {
	return func(yield func(spot) bool) {
		for _, line := range s.layers(k) {
			for _, p := range line {
				if !yield(p) {
					return
				}
			}
		}
	}
}

// layers returns the parts of a line that are not empty, of the base first.
func (s *State) layers(k WaitKey) [][]spot {
	var out [][]spot
	for t := s; t != nil; t = t.base {
		if line := t.waiting[k]; len(line) > 0 {
			out = append(out, line)
		}
	}
	slices.Reverse(out)
	return out
}

// linesOf returns the lines in which a token waits.
func (s *State) linesOf(t *Token) []WaitKey {
	switch t.Status {
	case workflow.WaitingForEvent:
		var out []WaitKey
		for _, name := range s.Graph.Node(t.Node).Events() {
			out = append(out, WaitKey{Kind: LineEvent, Name: name})
		}
		return out
	case workflow.WaitingForLock:
		return []WaitKey{{Kind: LineLock, Name: s.Graph.Node(t.Node).Lock}}
	case workflow.WaitingForJoin:
		k := WaitKey{Kind: LineJoin, Name: string(t.Via), Scope: t.Scope}
		if n := s.Graph.Node(t.Node); n.Join == workflow.JoinSynchronize {
			return []WaitKey{k, {Kind: LineSynchronize, Name: string(t.Node)}}
		}
		return []WaitKey{k}
	case workflow.WaitingForApproval:
		return []WaitKey{{Kind: LineApproval}}
	case workflow.WaitingForOperator:
		return []WaitKey{{Kind: LineParked}}
	case workflow.Pending:
		if t.Held {
			return []WaitKey{{Kind: LineHeld}}
		}
	default:
	}
	return nil
}

// NextPlace returns the order of what begins to wait now.
func (s *State) NextPlace() int64 {
	s.NextOrder++
	return s.NextOrder
}

// enter puts something at the end of a line.
func (s *State) enter(k WaitKey, p spot, fresh func(spot) bool) {
	if s.waiting == nil {
		s.waiting = map[WaitKey][]spot{}
	}
	line := s.waiting[k]
	if n := len(line); s.base == nil && n >= 32 && n&(n-1) == 0 { // at every doubling
		line = slices.DeleteFunc(line, func(p spot) bool { return !fresh(p) })
	}
	s.waiting[k] = append(line, p)
}

// sort keeps what is counted and found of tokens: who waits in which line, how
// many there are by status, and who holds which lock.
func (s *State) sort(old, t *Token) {
	if old != nil && old.Live() {
		s.census[old.Status]--
		s.held -= one(old.Held)
	}
	if t.Live() {
		s.census[t.Status]++
		s.held += one(t.Held)
	}
	if old != nil && old.Holds != "" && old.Holds != t.Holds {
		s.hold(old.Holds, 0)
		if s.base != nil {
			s.freed = append(s.freed, old.Holds)
		}
	}
	if t.Holds != "" {
		s.hold(t.Holds, t.ID)
	}
	if t.Order == 0 && (old == nil || old.Order == 0) || old != nil && old.Order == t.Order && old.Status == t.Status {
		return
	}
	if old != nil && old.Order > 0 {
		for _, k := range s.linesOf(old) {
			s.shorten(k, func(p spot) bool { return s.waitsIn(k, p) })
		}
	}
	if t.Order == 0 {
		return
	}
	for _, k := range s.linesOf(t) {
		s.enter(k, spot{t.Order, int64(t.ID)}, func(p spot) bool { return s.waitsIn(k, p) })
	}
}

// waitsIn reports whether a place of a line of tokens is not stale.
func (s *State) waitsIn(k WaitKey, p spot) bool {
	t := s.Token(workflow.TokenID(p.id))
	return t != nil && t.Order == p.order && slices.Contains(s.linesOf(t), k)
}

// shorten drops the stale places at the head of a line, so that who looks for
// the first finds it at once. Overlays leave their base as it is.
func (s *State) shorten(k WaitKey, fresh func(spot) bool) {
	line := s.waiting[k]
	if s.base != nil || len(line) == 0 {
		return
	}
	for len(line) > 0 && !fresh(line[0]) {
		line = line[1:]
	}
	if s.waiting[k] = line; len(line) == 0 {
		delete(s.waiting, k)
	}
}

func one(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (s *State) hold(lock string, by workflow.TokenID) {
	if s.holders == nil {
		s.holders = map[string]workflow.TokenID{}
	}
	s.holders[lock] = by
}

// Holder returns the token that holds a lock, 0 if it is free.
func (s *State) Holder(lock string) workflow.TokenID {
	for t := s; t != nil; t = t.base {
		if id, ok := t.holders[lock]; ok {
			return id
		}
	}
	return 0
}

// TakeFreed returns the locks that became free in an overlay since the last
// call, in order.
func (s *State) TakeFreed() []string {
	out := s.freed
	s.freed = nil
	return out
}

// Census returns how many live tokens have a status.
func (s *State) Census(status workflow.TokenStatus) int {
	if int(status) >= len(s.census) {
		return 0
	}
	return s.census[status]
}

// Held returns how many pending tokens a pause holds back.
func (s *State) Held() int { return s.held }

// OpenGroups returns how many groups gather and are open: while there is one,
// the run is not over.
func (s *State) OpenGroups() int { return s.open }

// sortGroup keeps what is counted and found of groups.
func (s *State) sortGroup(old, g *Group) {
	was := old != nil && old.Open && old.Phase == workflow.Gathering
	s.open += one(g.Open && g.Phase == workflow.Gathering) - one(was)
	if !s.blocks(g) {
		return
	}
	if old == nil {
		k := WaitKey{LineGather, g.Name, g.Scope}
		s.enter(k, spot{id: int64(g.ID)}, func(p spot) bool { return s.Group(workflow.GroupID(p.id)).Phase == workflow.Gathering })
	}
	if old != nil && old.Phase != workflow.Fired {
		s.drains(g)
	}
}

// blocks reports whether stragglers of g block the next occurrence.
func (s *State) blocks(g *Group) bool {
	spec := s.Graph.Groups[g.Name]
	return g.Name != "" && spec != nil && spec.Sync != nil && spec.Sync.Remaining == workflow.RemainingBlock
}

// drains puts a group in line if it has fired and holds stragglers. One without
// never gets any.
func (s *State) drains(g *Group) {
	if g.Phase == workflow.Fired && g.Busy() && s.blocks(g) {
		k := WaitKey{LineDrain, g.Name, g.Scope}
		s.enter(k, spot{id: int64(g.ID)}, func(p spot) bool { return s.Group(workflow.GroupID(p.id)).Busy() })
	}
}

// Gathering returns the groups of a name, begun in a scope, that gather, oldest
// first. It knows only groups whose stragglers block.
func (s *State) Gathering(name string, sc workflow.Scope) []workflow.GroupID {
	var out []workflow.GroupID
	for p := range s.line(WaitKey{LineGather, name, sc}) {
		if g := s.Group(workflow.GroupID(p.id)); g.Phase == workflow.Gathering {
			out = append(out, g.ID)
		}
	}
	return out
}

// Draining reports whether a group of a name, begun in a scope, has fired and
// still holds stragglers. It knows only groups whose stragglers block.
func (s *State) Draining(name string, sc workflow.Scope) bool {
	for p := range s.line(WaitKey{LineDrain, name, sc}) {
		if s.Group(workflow.GroupID(p.id)).Busy() {
			return true
		}
	}
	return false
}

// rootBranch returns what is outside any group, if the definition asks for it.
func (s *State) rootBranch() Branch {
	for t := s; t != nil; t = t.base {
		if t.root != nil {
			return *t.root
		}
	}
	return Branch{}
}

func (s *State) rootToken(id workflow.TokenID, in bool) {
	if s.Graph.TracksRoot {
		b := s.rootBranch()
		b.Tokens = withID(b.Tokens, id, in)
		s.root = &b
	}
}

func (s *State) rootGroup(id workflow.GroupID, in bool) {
	if s.Graph.TracksRoot {
		b := s.rootBranch()
		b.Groups = withID(b.Groups, id, in)
		s.root = &b
	}
}
