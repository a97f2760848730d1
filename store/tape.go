package store

import "sync"

// maxTapes bounds the bytes of transactions that wait for whoever follows the directory. A
// follower that is further behind makes a new base instead: it never holds
// commits up.
const maxTapes = 64 << 20

// tapes are the transactions that were committed since a follower began, and that it has
// not taken yet: for each, the statements that the copy needs as well. Changes of files
// are not among them: each copy brings its files up to date by itself.
//
// It is a queue between the committer, which adds and never waits, and one follower, which takes.
// Transactions are counted from the beginning of the life: waiting are those with the last
// numbers, without a gap, so that a follower can say which one an entry begins with.
type tapes struct {
	mu      sync.Mutex
	on      bool
	closed  bool          // nobody may begin any more
	ended   chan struct{} // closed by endKeeping
	lost    bool          // some were dropped, because there were too many
	last    int64         // number of the last transaction that was added
	waiting [][]byte      // the last ones, in order
	bytes   int           // of those
}

// beginKeeping has transactions kept from now on. It fails with ErrFollowed and ErrClosed.
//
// It is called between two commits, so that a base which is begun afterwards has every
// transaction that is not kept.
func (t *tapes) beginKeeping() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.closed:
		return ErrClosed
	case t.on:
		return ErrFollowed
	}
	t.on, t.lost, t.waiting, t.bytes, t.ended = true, false, nil, 0, make(chan struct{})
	t.last++ // no transaction has this number, so this follower cannot continue the copy of an earlier one
	return nil
}

// endKeeping is the inverse of beginKeeping.
func (t *tapes) endKeeping() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.on, t.waiting, t.bytes = false, nil, 0
	close(t.ended)
}

// waitForEnd lets nobody begin from now on, and waits until whoever has begun has ended.
func (t *tapes) waitForEnd() {
	t.mu.Lock()
	t.closed = true
	on, ended := t.on, t.ended
	t.mu.Unlock()
	if on {
		<-ended
	}
}

// countWaiting returns how many transactions wait.
func (t *tapes) countWaiting() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.waiting)
}

func (t *tapes) isOn() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.on
}

// addTransaction adds a transaction that is committed now.
//
// When there are too many all are dropped, and those that follow, until the follower has noticed:
// a copy with a gap is of no use, and a new base makes the gap good.
func (t *tapes) addTransaction(tape []byte) {
	if len(tape) == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.on {
		return
	}
	t.last++
	if t.bytes += len(tape); t.lost || t.bytes > maxTapes {
		t.lost, t.waiting, t.bytes = true, nil, 0
	} else {
		t.waiting = append(t.waiting, tape)
	}
}

// lastNumber returns the number of the last transaction.
func (t *tapes) lastNumber() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.last
}

// takeSome returns the transactions that wait, as many as make an entry, and the number of the
// first. lost says that some before them were dropped.
//
// At least one is taken, whatever its size. Taken once, they are the follower's, which keeps an
// entry until the log has it.
func (t *tapes) takeSome() (first int64, some [][]byte, lost bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	first = t.last - int64(len(t.waiting)) + 1
	n, bytes := 0, 0
	for n < len(t.waiting) && (n == 0 || bytes+len(t.waiting[n]) <= maxEntry) {
		bytes += len(t.waiting[n])
		n++
	}
	some, t.waiting = t.waiting[:n:n], t.waiting[n:]
	t.bytes -= bytes
	lost, t.lost = t.lost, false
	return first, some, lost
}
