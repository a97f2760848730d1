package damagetest

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/testing/harness"
)

var seed = flag.Uint64("damage.seed", 1, "of what is drawn")

func TestMain(m *testing.M) { harness.Main(m, childDir, child) }

// seedOfDay returns the seed of what is drawn: at the gate another one each day.
func seedOfDay(t *testing.T) uint64 {
	if harness.CurrentLevel() != harness.Gate {
		return *seed
	}
	seeds := make([]uint64, 1000)
	for i := range seeds {
		seeds[i] = *seed + uint64(i)
	}
	return harness.SampleOfDay(t, len(seeds), seeds)[0]
}

// A tally counts what came of the trials of a test.
type tally struct {
	mu     sync.Mutex
	counts map[string]int
	broken []string
}

// count adds one under a name.
func (y *tally) count(name string) {
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.counts == nil {
		y.counts = map[string]int{}
	}
	y.counts[name]++
}

// violate notes a violation.
func (y *tally) violate(format string, args ...any) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.broken = append(y.broken, fmt.Sprintf(format, args...))
}

// report prints one line, and fails the test for violations, and for what was
// never hit.
func (y *tally) report(t *testing.T, trials int, must ...string) {
	t.Logf("%d trials: %v, %d violations", trials, y.counts, len(y.broken))
	for i, b := range y.broken {
		if i == 10 {
			t.Errorf("and %d more", len(y.broken)-i)
			break
		}
		t.Error(b)
	}
	for _, name := range must {
		require.Positive(t, y.counts[name], "never: %s", name)
	}
}

// trials does n trials, some at a time. Each draws from a generator of its own
// and works in an empty directory of its own.
func trials(t *testing.T, n int, do func(i int, rng *rand.Rand, dir string)) {
	trialsFrom(t, *seed, n, do)
}

// trialsFrom is trials with another seed.
func trialsFrom(t *testing.T, seed uint64, n int, do func(i int, rng *rand.Rand, dir string)) {
	base := harness.Workspace(t)
	var next atomic.Int64
	var group sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= n || t.Failed() {
					return
				}
				dir := filepath.Join(base, fmt.Sprint(i))
				do(i, rand.New(rand.NewPCG(seed, uint64(i))), dir)
				if err := os.RemoveAll(dir); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
}
