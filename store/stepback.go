package store

import (
	"runtime"
	"time"

	"github.com/pawl-run/pawl/internal/testhook"
)

// A stepBack decides when the committer lets other goroutines come first.
//
// A batch answers several runs at once, and each of them has its next commit soon. Were the committer to go on at once, it
// would find the first of these, and commit it alone; behind the goroutines that can run now it finds most of them. The last
// batch tells whether runs commit side by side: a lone caller is never held up.
type stepBack struct {
	last    int // requests of the last batch
	crowded int // for how many more batches it leaves out to step back
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
	if s.crowded > 0 {
		s.crowded--
		return
	}
	if s.last <= 1 {
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
