package state

import (
	"iter"
	"slices"

	"github.com/pawl-run/pawl/workflow"
)

// A WaitKind says what several tokens or groups may wait for in line. Lines answer in constant time who is next,
// however many tokens a run has. They are rebuilt when a state is restored.
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
	LineBudget                      // tokens that wait for room below the limits of what the run may report
	LineSignal                      // kept signals of a name
	LineGather                      // groups of a name that gather, where stragglers block
	LineDrain                       // groups of a name that have fired and hold stragglers, likewise
)

// A WaitKey names a line: tokens, groups or signals in the order in which they began to wait. Tokens of different
// branches never meet at a node's join, so that each branch has its own line there.
type WaitKey struct {
	Kind  WaitKind
	Name  string         // of the event, lock, transition or group
	Scope workflow.Scope // of a join or a group
}

// A spot is one entry of a line. It becomes stale when the token, group or signal that it names leaves the line;
// readers skip stale spots. The order is the Order of a token; groups and signals have 0 and come in the order of
// their ids.
type spot struct{ order, id int64 }

// TokensInLine returns the tokens that wait in a line, first come first. Events, locks and joins serve those who came
// first. A token may be changed while the loop runs: it is yielded as it is then, or passed over if it no longer
// waits there.
func (s *State) TokensInLine(k WaitKey) iter.Seq[*Token] {
	return func(yield func(*Token) bool) {
		for p := range s.spotsOf(k) {
			if s.waitsInLine(k, p) && !yield(s.Token(workflow.TokenID(p.id))) {
				return
			}
		}
	}
}

// FirstInLine returns the first token of a line, nil if it is empty.
func (s *State) FirstInLine(k WaitKey) *Token {
	for t := range s.TokensInLine(k) {
		return t
	}
	return nil
}

// spotsOf yields the spots of a line, stale ones included: those of the base first, then those that overlays added.
// The tokens of an overlay have begun to wait later than all beneath, so that no sorting is needed.
func (s *State) spotsOf(k WaitKey) iter.Seq[spot] {
	return func(yield func(spot) bool) {
		for _, line := range s.lineParts(k) {
			for _, p := range line {
				if !yield(p) {
					return
				}
			}
		}
	}
}

// lineParts returns the parts of a line that the base and its overlays hold,
// that of the base first, without empty ones.
func (s *State) lineParts(k WaitKey) [][]spot {
	var out [][]spot
	for t := s; t != nil; t = t.base {
		if line := t.waiting[k]; len(line) > 0 {
			out = append(out, line)
		}
	}
	slices.Reverse(out)
	return out
}

// linesOf returns the lines in which a token waits. It goes by the token's status and the definition alone, so that
// it says of an old row in which lines that one has spots.
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
	case workflow.WaitingForBudget:
		return []WaitKey{{Kind: LineBudget}}
	case workflow.Pending:
		if t.Held {
			return []WaitKey{{Kind: LineHeld}}
		}
	default:
	}
	return nil
}

// NextPlace returns the place in line of a token that begins to wait now: higher than any before. Places are given by
// decisions, one after the other, and are stored with the tokens: the order survives a restart.
func (s *State) NextPlace() int64 {
	s.NextOrder++
	return s.NextOrder
}

// addToLine adds a spot at the end of a line. When a line has no room left it drops the spots that are no longer
// fresh, from a copy: a loop over the line may be under way. An overlay adds to a line of its own, and drops spots
// from that alone.
func (s *State) addToLine(k WaitKey, p spot, fresh func(spot) bool) {
	if s.waiting == nil {
		s.waiting = map[WaitKey][]spot{}
	}
	line := s.waiting[k]
	first := len(line) == 0
	// Spots in the middle of a line become stale without being dropped, as when tokens behind the first are
	// cancelled. Clearing when the room is used up bounds a long line by about twice the spots that are fresh. Then it gets
	// room for as many as it has: so many are added before it is looked at again, also if its length hovers.
	if n := len(line); n >= 32 && n == cap(line) {
		line = slices.DeleteFunc(slices.Clone(line), func(p spot) bool { return !fresh(p) })
		if len(line) > n/2 {
			line = slices.Grow(line, len(line))
		}
	}
	s.waiting[k] = append(line, p)
	if first {
		s.countJoinLine(k, +1)
	}
}

// waitsInLine reports whether a spot in a line of tokens is fresh: its token still waits there. A token that has left
// a line and come back has a higher place: its old spot does not count as well.
func (s *State) waitsInLine(k WaitKey, p spot) bool {
	t := s.Token(workflow.TokenID(p.id))
	return t != nil && t.Order == p.order && slices.Contains(s.linesOf(t), k)
}

// trimLine drops the stale spots at the head of a line, so that a reader finds the first token at once. An overlay
// does not change its base. With it the first spot of a line of tokens or signals, in a state without base, is always
// fresh, and such a line is gone when nothing waits in it.
func (s *State) trimLine(k WaitKey, fresh func(spot) bool) {
	line := s.waiting[k]
	if s.base != nil || len(line) == 0 {
		return
	}
	for len(line) > 0 && !fresh(line[0]) {
		line = line[1:]
	}
	if s.waiting[k] = line; len(line) == 0 {
		delete(s.waiting, k)
		s.countJoinLine(k, -1)
	}
}
