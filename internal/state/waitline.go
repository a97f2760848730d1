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

// A spot is one entry of a line. It becomes stale when the token, group or
// signal that it names leaves the line; readers skip stale spots.
type spot struct{ order, id int64 }

// TokensInLine returns the tokens that wait in a line, first come first.
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

// spotsOf yields the spots of a line, stale ones included: those of the base
// first, then those that overlays added.
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

// NextPlace returns the place in line of a token that begins to wait now: higher than any before.
func (s *State) NextPlace() int64 {
	s.NextOrder++
	return s.NextOrder
}

// addToLine adds a spot at the end of a line. At every doubling of the line it
// drops the spots that are no longer fresh.
func (s *State) addToLine(k WaitKey, p spot, fresh func(spot) bool) {
	if s.waiting == nil {
		s.waiting = map[WaitKey][]spot{}
	}
	line := s.waiting[k]
	if n := len(line); s.base == nil && n >= 32 && n&(n-1) == 0 { // at every doubling
		line = slices.DeleteFunc(line, func(p spot) bool { return !fresh(p) })
	}
	s.waiting[k] = append(line, p)
	if len(line) == 0 {
		s.countJoinLine(k, +1)
	}
}

// waitsInLine reports whether a spot in a line of tokens is fresh: its token still
// waits there.
func (s *State) waitsInLine(k WaitKey, p spot) bool {
	t := s.Token(workflow.TokenID(p.id))
	return t != nil && t.Order == p.order && slices.Contains(s.linesOf(t), k)
}

// trimLine drops the stale spots at the head of a line, so that a reader finds
// the first token at once. An overlay does not change its base.
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
