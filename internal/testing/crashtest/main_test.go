package crashtest

import (
	"context"
	"encoding/json"
	"flag"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/internal/testing/harness"
)

// The environment that makes the test binary a child.
const (
	childWork  = "PAWL_CRASHTEST_WORK"  // name of the work
	childDir   = "PAWL_CRASHTEST_DIR"   // of the trial
	childLife  = "PAWL_CRASHTEST_LIFE"  // number of the life, from 1
	childCount = "PAWL_CRASHTEST_COUNT" // file for the hits of each failpoint, instead of a kill
)

// patience is how long a life may take before it counts as stuck.
const patience = 4 * time.Minute

var (
	seed = flag.Uint64("crash.seed", 1, "of the chains of kills")
	only = flag.String("crash.work", "", "the only work to do")
	disk = flag.Bool("crash.disk", false, "work in the temporary directory, not in memory")
)

// seedOfDay returns the seed of the chains of kills: at the gate another one each day.
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

// workspace returns an empty directory for engine directories.
func workspace(t *testing.T) string {
	if *disk {
		return t.TempDir()
	}
	return harness.Workspace(t)
}

func TestMain(m *testing.M) { harness.Main(m, childWork, child) }

func child(name string) error {
	w := workNamed(name)
	number, err := strconv.Atoi(os.Getenv(childLife))
	if err != nil {
		return err
	}
	hits := counter{hits: map[string]int{}}
	counts := os.Getenv(childCount)
	at := hits.hit
	if counts == "" {
		if at, err = harness.Killer(); err != nil {
			return err
		}
	}
	hook := &testhook.Hook{}
	hook.OnHit(func(point string) {
		meanwhile(point)
		at(point)
	})
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := live(ctx, hook, os.Getenv(childDir), w, number); err != nil || counts == "" {
		return err
	}
	return hits.save(counts)
}

// A counter counts hits of failpoints.
type counter struct {
	mu   sync.Mutex
	hits map[string]int
}

func (c *counter) hit(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hits[name]++
}

func (c *counter) save(path string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	text, err := json.Marshal(c.hits)
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o600)
}

func loadCounts(path string) (map[string]int, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	out := map[string]int{}
	err = json.Unmarshal(text, &out)
	return out, err
}

// environment returns the variables of a child.
func environment(dir string, w work, number int, more string) []string {
	return harness.Environment(childDir+"="+dir, childWork+"="+w.name, childLife+"="+strconv.Itoa(number), more)
}
