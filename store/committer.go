package store

import (
	"errors"
	"sync/atomic"

	"github.com/pawl-run/pawl/internal/sqlite"
)

// Bounds of the group commit. The requests that one transaction takes are a batch.
const (
	maxQueue = 1024    // requests that wait; more callers block
	maxBatch = 512     // requests in one transaction
	maxBytes = 1 << 20 // after which a transaction takes no further request
)

// A committer is the goroutine that commits for all runs. Who commits alone does so in
// a goroutine of its own: two hand-overs would take as long as the commit.
type committer struct {
	queue   chan *commitRequest
	quit    chan struct{} // closed by stop
	done    chan struct{} // closed when the goroutine has ended
	waiting atomic.Int64  // requests handed to the goroutine that are in no transaction yet
	single  int           // transactions of one request since the last one of more; guarded by Dir.mu
}

// alone is after how many transactions of one request each the next caller commits by
// itself. Where several runs commit at the same time, the goroutine lets more of them come
// together than callers would that find nobody before them.
const alone = 16

func (c *committer) startLoop(d *Dir) {
	c.queue = make(chan *commitRequest, maxQueue)
	c.quit = make(chan struct{})
	c.done = make(chan struct{})
	go c.commitLoop(d) // until stop
}

// stopLoop commits what is queued and ends the goroutine.
func (c *committer) stopLoop() {
	close(c.quit)
	<-c.done
}

// commitLoop commits one batch of requests after the other, until the committer is stopped and its queue is empty.
func (c *committer) commitLoop(d *Dir) {
	defer close(c.done)
	batch := make([]*commitRequest, 0, maxBatch)
	for {
		batch = batch[:0]
		select {
		case r := <-c.queue:
			batch = append(batch, r)
		case <-c.quit:
			if len(c.queue) == 0 {
				return
			}
		}
		d.commitAndAnswer(batch)
	}
}

// gatherBatch adds the requests that wait.
func (c *committer) gatherBatch(batch []*commitRequest) []*commitRequest {
	bytes := 0
	for _, r := range batch {
		bytes += r.bytes
	}
	for len(batch) < maxBatch && bytes < maxBytes {
		select {
		case r := <-c.queue:
			batch = append(batch, r)
			bytes += r.bytes
		default:
			return batch
		}
	}
	return batch
}

// submitRequest commits a request and returns when it is durable, or has failed.
func (d *Dir) submitRequest(r *commitRequest) error {
	c := &d.committer
	if c.waiting.Load() == 0 && d.mu.TryLock() {
		if d.dead == nil && c.single >= alone && !d.needsCheckpoint() && !c.isStopped() {
			return d.commitAlone(r)
		}
		d.mu.Unlock()
	}
	c.waiting.Add(1)
	select {
	case c.queue <- r:
	case <-c.done:
		c.waiting.Add(-1)
		return ErrClosed
	}
	select {
	case err := <-r.answer:
		return err
	case <-c.done:
	}
	select {
	case err := <-r.answer:
		return err
	default:
		return ErrClosed // it came too late to be taken
	}
}

func (c *committer) isStopped() bool {
	select {
	case <-c.quit:
		return true
	default:
		return false
	}
}

// commitAlone commits a request in the goroutine of its caller, and unlocks. It leaves a
// checkpoint to the committer, which makes it when its next caller has the answer.
func (d *Dir) commitAlone(r *commitRequest) error {
	defer d.mu.Unlock()
	ended := false
	defer func() {
		if !ended { // somebody may recover from the panic, with a transaction under way
			_ = d.failForGood(errors.New("a commit panicked"))
		}
	}()
	d.commitBatch([]*commitRequest{r})
	d.countFrames()
	ended = true
	return r.err
}

// updateIndex commits the statements of one caller.
func (d *Dir) updateIndex(apply func(*sqlite.Conn) error) error { return d.updateIndexLarge(0, apply) }

// updateLocally commits statements of one caller that a copy of the directory which follows
// it does without.
func (d *Dir) updateLocally(apply func(*sqlite.Conn) error) error {
	return d.submitRequest(&commitRequest{apply: apply, local: true, answer: make(chan error, 1)})
}

// updateIndexLarge commits statements that write many bytes.
func (d *Dir) updateIndexLarge(bytes int, apply func(*sqlite.Conn) error) error {
	return d.submitRequest(&commitRequest{apply: apply, bytes: bytes, answer: make(chan error, 1)})
}

// commitAndAnswer commits a batch, with the requests that wait behind it, and answers it.
func (d *Dir) commitAndAnswer(batch []*commitRequest) {
	d.mu.Lock()
	defer d.mu.Unlock()
	batch = d.committer.gatherBatch(batch)
	d.committer.waiting.Add(-int64(len(batch)))
	if d.committer.single++; len(batch) > 1 {
		d.committer.single = 0
	}
	d.commitBatch(batch)
	for _, r := range batch {
		r.answer <- r.err
	}
	if d.dead == nil {
		d.startCheckpoint()
	}
}

// IsCommitting reports whether a transaction or a checkpoint is under way.
func (d *Dir) IsCommitting() bool {
	if d.mu.TryLock() {
		d.mu.Unlock()
		return false
	}
	return true
}
