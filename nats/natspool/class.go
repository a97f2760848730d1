package natspool

import (
	"context"
	"strconv"
	"sync"
)

// A class is what the priorities of tasks are to a work queue: 0 comes first, then 1, then those above.
//
// JetStream has no priorities within a consumer, and so each class has one of its own, and workers ask
// the earlier ones first. Within a class the order is that of the stream.
type class int

const classes = 3 // how many there are

// classOf returns the class of a priority: 0 and below are class 0, 1 is class 1, and everything above
// is class 2.
func classOf(priority int) class { return class(min(max(priority, 0), classes-1)) }

// A classQueue is a type's tasks of one class, which have a consumer of their own. A type with a bound has
// only the first one, for all of its tasks: the bound is a consumer's.
type classQueue struct {
	taskType string
	class    class
}

// consumer returns the name of the consumer: that of the type for the first class.
func (q classQueue) consumer() string {
	if q.class == 0 {
		return consumerOf(q.taskType)
	}
	return consumerOf(q.taskType) + "-" + strconv.Itoa(int(q.class))
}

// A classGate keeps the pullers of a worker from asking for a task while those of an earlier class may
// find one.
// The zero value is open for all. changed is nil when nobody has waited since it was closed last.
type classGate struct {
	mu      sync.Mutex
	busy    [classes]int  // pullers that may find one
	changed chan struct{} // closed when there are fewer of them
}

// await waits until no puller of an earlier class may find a task, or ctx is done.
//
// It reads the counts and the channel under one lock, so that no change between the two is missed;
// after each change it counts again.
func (g *classGate) await(ctx context.Context, c class) bool {
	for {
		g.mu.Lock()
		earlier := 0
		for _, n := range g.busy[:c] {
			earlier += n
		}
		if g.changed == nil {
			g.changed = make(chan struct{})
		}
		changed := g.changed
		g.mu.Unlock()
		if earlier == 0 {
			return ctx.Err() == nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

// move notes that there is one busy puller more of a class, or one fewer.
//
// Only fewer busy pullers can let somebody go on, so only then the channel is closed.
func (g *classGate) move(c class, by int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.busy[c] += by; by < 0 && g.changed != nil {
		close(g.changed)
		g.changed = nil
	}
}
