package pace

import (
	"crypto/sha256"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// turns returns how often another goroutine had its turn on the only processor
// while f was under way.
func turns(f func()) int64 {
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

func TestOthersHaveTheirTurns(t *testing.T) {
	data := make([]byte, 20*64<<10+1)
	for name, f := range map[string]func(){
		"spend": func() {
			var p Pacer
			for range 2000 {
				p.Spend(10)
			}
		},
		"each": func() {
			for i := range 20 * 512 {
				Each(i)
			}
		},
		"few": func() {
			for i := range 20 * 8 {
				Few(i)
			}
		},
		"at": func() {
			for sum := uint64(4); sum < 20*1021*4+4; sum += 4 {
				At(sum)
			}
		},
		"hash": func() { require.Equal(t, sha256.Sum256(data), Sum256(data)) },
		"pause": func() {
			for range 20 {
				Pause()
			}
		},
	} {
		require.GreaterOrEqual(t, turns(f), int64(15), name)
	}
	require.Equal(t, sha256.Sum256(nil), Sum256(nil))
}
