package simulator

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

var (
	seeds = flag.Int("sim.seeds", 0, "how many seeds to play; 0 is the gate sample")
	first = flag.Uint64("sim.seed", 0, "the only seed to play, or the first of sim.seeds")
)

// workspace is where worlds keep their files: in memory, if that can be.
func workspace(t *testing.T) string {
	const memory = "/dev/shm"
	info, err := os.Stat(memory)
	if err != nil || !info.IsDir() {
		return t.TempDir()
	}
	dir, err := os.MkdirTemp(memory, "pawl-simulator-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// run plays a world in a bubble of its own.
func (p play) run(t *testing.T, dir string) (w *world, err error) {
	folder := filepath.Join(dir, fmt.Sprint("seed", p.seed))
	if err := os.MkdirAll(filepath.Join(folder), 0o700); err != nil {
		t.Fatal(err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	synctest.Test(t, func(*testing.T) {
		w = newWorld(p, folder)
		err = w.live()
	})
	w.tally.seeds, w.tally.steps = 1, w.steps
	return w, err
}

func TestSimulator(t *testing.T) {
	dir, total := workspace(t), newTally()
	n := *seeds
	if n == 0 {
		n = 60
		if testing.Short() {
			n = 10
		}
		if *first != 0 {
			n = 1
		}
	}
	start := time.Now()
	failed := 0
	for i := range n {
		p := play{seed: *first + uint64(i), verbose: *first != 0 && n == 1}
		w, err := p.run(t, dir)
		total.add(w.tally)
		if err != nil {
			t.Errorf("seed %d: %v", p.seed, err)
			for _, l := range w.lines {
				t.Log(l)
			}
			if failed++; failed == 10 {
				break
			}
		}
	}
	t.Logf("%v\n%v", time.Since(start), total)
}
