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
	// Read returns the value and its revision, which is 0 if there is none yet.
	Read(ctx context.Context) (value []byte, revision uint64, err error)
	// Write changes the value if its revision is still that, and returns the new one. It fails with ErrChanged
	// if it is not. After any other error nobody knows.
	Write(ctx context.Context, value []byte, revision uint64) (changed uint64, err error)
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
}

// renew looks at the cell, and writes into it if the lease is this node's, or nobody's. It returns who has the lease.
//
// Somebody else's claim is left alone until this node itself has seen it unchanged for the Term that the claim names, so a node that
// was just started waits that long even if the owner died an hour ago. If the cell cannot be read the last known owner is returned
// with the error: an owner goes on, since the log and not the lease decides whose commits count.
func (l *lease) renew(ctx context.Context) (Owner, error) {
	if err := l.look(ctx); err != nil {
		return l.seen.Owner, err
	}
	// The term in the claim counts, not this node's own: nodes may be configured differently.
	mine := l.seen.Node == l.self.Node
	if !mine && l.seen.Node != "" && time.Since(l.since) < time.Duration(l.seen.Term)*time.Millisecond {
		return l.seen.Owner, nil
	}
	return l.write(ctx, l.self)
}

// release lets the others have the lease, if it is this node's.
//
// It writes a claim of nobody, which others take at their next look, in place of letting them wait for the term. It looks first, so
// that a node that has lost the lease meanwhile does not take it from the new owner.
func (l *lease) release(ctx context.Context) error {
	if err := l.look(ctx); err != nil || l.seen.Node != l.self.Node {
		return err
	}
	_, err := l.write(ctx, Owner{})
	return err
}

// look reads the cell.
//
// since moves only if the revision does: that is how the age of a claim is measured. Revision 0 is read anew each time, which makes the
// claim that of nobody.
func (l *lease) look(ctx context.Context) error {
	value, revision, err := l.cell.Read(ctx)
	if err != nil {
		return fmt.Errorf("read the lease: %w", err)
	}
	if revision == l.revision && revision != 0 {
		return nil
	}
	seen := claim{}
	if revision != 0 {
		if err := json.Unmarshal(value, &seen); err != nil {
			return fmt.Errorf("the lease is not one: %w", err)
		}
	}
	l.seen, l.revision, l.since = seen, revision, time.Now()
	return nil
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
	revision, err := l.cell.Write(ctx, value, l.revision)
	if errors.Is(err, ErrChanged) { // somebody else was faster
		err = l.look(ctx)
		return l.seen.Owner, err
	}
	if err != nil {
		return l.seen.Owner, fmt.Errorf("write the lease: %w", err)
	}
	l.seen, l.revision, l.since = next, revision, time.Now()
	return to, nil
}
