package harness

import (
	"runtime"
	"sync/atomic"
)

// CountTurns returns how often another goroutine had its turn on the only processor
// while f was under way.
func CountTurns(f func()) int64 {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var n atomic.Int64
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				n.Add(1)
				runtime.Gosched()
			}
		}
	}()
	f()
	got := n.Load()
	close(stop)
	<-stopped
	return got
}
