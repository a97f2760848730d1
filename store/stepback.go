package store

import (
	"runtime"
	"time"

	"github.com/pawl-run/pawl/internal/testhook"
)

// A stepBack decides when the committer lets other goroutines come first.
//
// A commit answers several runs at once, and each of them has its next commit soon: but a goroutine that goes on at once
// finds the first of these, and commits it alone. Behind those that can run now it finds most of them. Where it is
// the last batch that tells how many run side by side, a lone caller pays nothing.
type stepBack struct {
	last    int // requests of the last batch
	crowded int // batches before which it does not step back any more
}

// While other goroutines compute and never step back themselves, Go gives each of them 10 ms at a time, and the committer
// would wait for all of them once more for each batch.
const (
	stepsBack   = 2                     // at most, the second if the first one brought somebody
	maxStepBack = 15 * time.Millisecond // that took longer: the processors are crowded
	crowdedFor  = 64                    // batches
)

// letOthersCome steps back, behind all goroutines that can run now, if the last batch had several requests.
func (s *stepBack) letOthersCome(queue <-chan *commitRequest, hook *testhook.Hook) {
	if s.last <= 1 {
		return
	}
	if s.crowded > 0 {
		s.crowded--
		return
	}
	begin := time.Now()
	for range stepsBack {
		n := len(queue)
		runtime.Gosched()
		if hook.Hit("commit.back"); len(queue) == n {
			break
		}
	}
	if time.Since(begin) > maxStepBack {
		s.crowded = crowdedFor
	}
}
