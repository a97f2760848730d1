package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// A Cell keeps one small value that several processes see, and that nobody changes who does not know what it is: a key of a
// store with compare-and-set.
// The lease needs no more of it than that two writes at the same revision cannot both count: a node whose write is refused has lost
// the race, and looks again. A write whose outcome is unknown is no harm either, since the next Read shows who has the lease.
type Cell interface {
	// Read returns what the cell holds.
	Read(ctx context.Context) (Value, error)
	// Write changes the value if its revision is still that, and returns the new one. It fails with ErrChanged
	// if it is not. After any other error nobody knows.
	Write(ctx context.Context, value []byte, revision uint64) (changed uint64, err error)
}

// A Value is what a [Cell] holds.
type Value struct {
	Data     []byte
	Revision uint64    // 0 before the first
	Written  time.Time // when, by the clock of the servers; zero where they do not say
}

// ErrChanged says that somebody else has changed a [Cell].
var ErrChanged = errors.New("the cell has another revision")

// An Owner is a node as the others know it.
type Owner struct {
	Node    string `json:"node"`              // its name; "": nobody
	Address string `json:"address,omitempty"` // where its API is; "" if nobody else calls it
}

// A claim is what stands in the cell.
//
// Nobody compares clocks of two machines: Term is a length, which each node measures by its own clock from when it first saw the
// revision. An owner that stops to renew leaves the claim as it is; it is void when another node has seen it unchanged for Term.
type claim struct {
	Owner
	Term  int64 `json:"termMillis"` // for how long it holds after it was written
	Count int64 `json:"count"`      // rises with each renewal, so that each is another value
}

// A lease is what one node sees of the cell, and writes there. One goroutine has it.
//
// That is the loop of the node (keepLease), or the goroutine by which openEngine renews while the loop waits for it: never both at
// once. seen, revision and since always change together, by look or write; revision 0 says that nobody has ever written.
type lease struct {
	cell Cell
	self Owner
	term time.Duration

	seen     claim
	revision uint64
	since    time.Time // when this node saw that revision first, by its own clock

	looked          time.Time     // when the last look began
	earliest, until time.Time     // between which instants, by this node's clock, the revision was written; earliest is zero if nobody knows
	clock           time.Duration // how far that clock is ahead of the servers'; see Status
}

// maxClock is how far the clock of a node may be from that of the servers without a word. The time for an answer counts as well.
const maxClock = time.Minute

// renewTerm looks at the cell, and writes into it if the lease is this node's, or nobody's. It returns who has the lease; held says that
// it is this node's, and was written just now.
//
// Somebody else's claim is left alone until this node itself has seen it unchanged for the Term that the claim names, so a node that
// was just started waits that long even if the owner died an hour ago. If the cell cannot be read the last known owner is returned
// with the error: an owner goes on, since the log and not the lease decides whose commits count.
//
// A node that is behind waits for another term, in which one that is not takes the lease. A claim of its own, which is of a former life, it
// takes back, after a moment in which it may turn out not to be behind. A lease that nobody ever had is taken at once: there is nothing yet.
//
// A node that is open, which has the engine or is about to, only renews a claim of its own: after any other one, also after one that was given
// back since, its engine may not know what was acknowledged.
func (l *lease) renewTerm(ctx context.Context, behind, open bool) (owner Owner, held bool, err error) {
	if err := l.look(ctx); err != nil {
		return l.seen.Owner, false, err
	}
	// The term in the claim counts, not this node's own: nodes may be configured differently.
	mine, term := l.seen.Node == l.self.Node, time.Duration(l.seen.Term)*time.Millisecond
	if mine || l.seen.Node == "" {
		term = 0
	}
	if open && !mine {
		return l.seen.Owner, false, nil
	}
	if behind && l.revision != 0 {
		if mine && time.Since(l.since) >= min(l.term/3, lookPause) {
			owner, err = l.write(ctx, Owner{})
			return owner, false, err
		}
		term += l.term
	}
	if time.Since(l.since) < term {
		return l.seen.Owner, false, nil
	}
	owner, err = l.write(ctx, l.self)
	return owner, err == nil && owner.Node == l.self.Node, err
}

// giveUpTerm lets the others have the lease, if it is this node's, and returns who has it then. After an error nobody knows.
//
// It writes a claim of nobody, which others take at their next look, in place of letting them wait for the term. It looks first, so
// that a node that has lost the lease meanwhile does not take it from the new owner.
func (l *lease) giveUpTerm(ctx context.Context) (Owner, error) {
	if err := l.look(ctx); err != nil || l.seen.Node != l.self.Node {
		return l.seen.Owner, err
	}
	return l.write(ctx, Owner{})
}

// look reads the cell.
//
// since moves only if the revision does: that is how the age of a claim is measured. Revision 0 is read anew each time, which makes the
// claim that of nobody.
func (l *lease) look(ctx context.Context) error {
	began := time.Now()
	v, err := l.cell.Read(ctx)
	if err != nil {
		return fmt.Errorf("read the lease: %w", err)
	}
	before := l.looked
	l.looked = began
	if v.Revision == l.revision && v.Revision != 0 {
		l.compareClock(v.Written)
		return nil
	}
	seen := claim{}
	if v.Revision != 0 {
		if err := json.Unmarshal(v.Data, &seen); err != nil {
			return fmt.Errorf("the lease is not one: %w", err)
		}
	}
	l.seen, l.revision, l.since = seen, v.Revision, time.Now()
	l.earliest, l.until = before, l.since
	l.compareClock(v.Written)
	return nil
}

// compareClock notes how far the clock of this node is from the one that has stamped the revision. A stop of the process, or a
// look that takes long, makes the bounds wide, and never a clock wrong that is right.
func (l *lease) compareClock(written time.Time) {
	if written.IsZero() {
		return
	}
	l.clock = 0
	if ahead := l.earliest.Sub(written); !l.earliest.IsZero() && ahead >= maxClock {
		l.clock = ahead
	}
	if late := written.Sub(l.until); late >= maxClock {
		l.clock = -late
	}
}

// write gives the lease to somebody, unless it has changed since it was looked at.
//
// It returns who has the lease afterwards: to, or whoever was faster. After an error that is not ErrChanged nobody knows whether the
// claim counts, and what was seen before stays; the next look finds out.
func (l *lease) write(ctx context.Context, to Owner) (Owner, error) {
	// Count makes the value another one even if owner and term are the same as before.
	next := claim{Owner: to, Term: l.term.Milliseconds(), Count: l.seen.Count + 1}
	value, err := json.Marshal(next)
	if err != nil {
		return l.seen.Owner, err
	}
	began := time.Now()
	revision, err := l.cell.Write(ctx, value, l.revision)
	if errors.Is(err, ErrChanged) { // somebody else was faster
		err = l.look(ctx)
		return l.seen.Owner, err
	}
	if err != nil {
		return l.seen.Owner, fmt.Errorf("write the lease: %w", err)
	}
	l.seen, l.revision, l.since = next, revision, time.Now()
	l.earliest, l.until = began, l.since
	return to, nil
}
