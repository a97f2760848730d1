package simulator

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/workflow"
)

var (
	seeds  = flag.String("sim.seed", "", "the seed to play, or FIRST-LAST; without it those of the level")
	twice  = flag.Int("sim.twice", 5, "every how many seeds one is played twice")
	yields = flag.Int("sim.yield", 60, "how often at most a goroutine steps back at a failpoint when a seed is played again")
	shards = flag.Int("sim.shards", 2, "processes that play side by side, if there is more than one seed")
	shard  = flag.String("sim.shard", "", "I/N FILE: play the seeds of shard I of N and write the tally to FILE")
)

// run plays a world in a bubble of its own.
func (p play) run(t *testing.T, dir string) (w *world, err error) {
	folder := filepath.Join(dir, fmt.Sprint("seed", p.seed))
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	synctest.Test(t, func(*testing.T) {
		w = newWorld(p, folder)
		err = w.live()
	})
	w.tally.Seeds, w.tally.Steps = 1, w.steps
	return w, err
}

// sample is how many seeds are enough for everything to happen but a crash at some sites.
const sample = 80

// seedRange returns the first seed to play, and how many there are.
func seedRange(flag string) (first uint64, n int, err error) {
	if flag == "" {
		return 0, harness.Figure(4, sample, 100_000), nil
	}
	from, to, many := strings.Cut(flag, "-")
	if !many {
		to = from
	}
	first, err = strconv.ParseUint(from, 10, 64)
	last, wrong := strconv.ParseUint(to, 10, 64)
	if err = errors.Join(err, wrong); err == nil && last < first {
		err = fmt.Errorf("the last seed of %s is before the first", flag)
	}
	return first, int(last-first) + 1, err
}

// Seeds are chosen one at a time or as a range.
func TestSeedRange(t *testing.T) {
	for flag, want := range map[string][2]int{"77": {77, 1}, "0": {0, 1}, "1000-1399": {1000, 400}} {
		first, n, err := seedRange(flag)
		require.NoError(t, err, flag)
		require.Equal(t, want, [2]int{int(first), n}, flag)
	}
	for _, flag := range []string{"7-6", "x", "-3", "1-"} {
		_, _, err := seedRange(flag)
		require.Error(t, err, flag)
	}
}

// TestSimulator plays seeds. Some are played twice, and must come to the same trace.
// Failpoints are those of a process, so that seeds that are played side by side are
// played in processes of their own.
func TestSimulator(t *testing.T) {
	first, n, err := seedRange(*seeds)
	require.NoError(t, err, "-sim.seed")
	start, total := time.Now(), newTally()
	switch {
	case *shard != "":
		i, of, file := 0, 1, ""
		_, err := fmt.Sscanf(*shard, "%d/%d %s", &i, &of, &file)
		require.NoError(t, err)
		playAll(t, first, n, i, of, total)
		data, err := json.Marshal(total)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(file, data, 0o600))
		return
	case n == 1:
		playAll(t, first, 1, 0, 1, total)
	default:
		playApart(t, first, n, total)
	}
	t.Logf("%v\n%v", time.Since(start).Round(time.Millisecond), total)
	if n >= sample && *seeds == "" && !t.Failed() { // others may lack what is rare
		total.complete(t)
	}
}

// playAll plays one seed in so many, from the i-th on.
func playAll(t *testing.T, first uint64, n, i, of int, total *tally) {
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	dir := harness.Workspace(t)
	for ; i < n; i += of {
		p := play{seed: first + uint64(i)}
		fmt.Fprintln(os.Stderr, "seed", p.seed) // shown if it ends the process
		p.verbose = i%*twice < of
		w, err := p.run(t, dir)
		total.add(w.tally)
		if err == nil && p.verbose {
			err = p.repeats(t, dir, w)
		}
		if err != nil {
			t.Errorf("seed %d: %v\n%s", p.seed, err, p.shrunk(t, dir))
			return
		}
	}
}

// playApart plays seeds in several processes.
func playApart(t *testing.T, first uint64, n int, total *tally) {
	dir := t.TempDir()
	var group sync.WaitGroup
	for i := range *shards {
		file := filepath.Join(dir, fmt.Sprint(i))
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestSimulator$", "-test.timeout=6h",
			fmt.Sprintf("-sim.shard=%d/%d %s", i, *shards, file), fmt.Sprintf("-sim.seed=%d-%d", first, first+uint64(n)-1), fmt.Sprint("-sim.twice=", *twice), fmt.Sprint("-sim.yield=", *yields))
		group.Go(func() {
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Errorf("shard %d: %v\n%s", i, err, report(string(out)))
			}
		})
	}
	group.Wait()
	for i := range *shards {
		part := newTally()
		data, err := os.ReadFile(filepath.Join(dir, fmt.Sprint(i)))
		if err == nil {
			err = json.Unmarshal(data, part)
		}
		if err != nil {
			t.Errorf("shard %d: %v", i, err)
			continue
		}
		total.add(part)
	}
}

// report returns what a process has said, without the seeds before the last.
func report(out string) string {
	var b strings.Builder
	seed := ""
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, "seed ") {
			seed = line
			continue
		}
		b.WriteString(line)
	}
	return seed + b.String()
}

// repeats plays a seed again, with goroutines that step back now and then so that
// others go first, and compares the traces.
func (p play) repeats(t *testing.T, dir string, w *world) error {
	p.yields = *yields
	again, err := p.run(t, dir)
	if err != nil {
		return fmt.Errorf("played again: %w", err)
	}
	for i, line := range w.lines {
		if i >= len(again.lines) || again.lines[i] != line {
			return fmt.Errorf("the same seed has come to\n%s\nand to\n%s", line, append(again.lines, "nothing")[i])
		}
	}
	if again.trace.Sum64() == w.trace.Sum64() {
		return nil
	}
	return errors.New("the same seed has come to two traces")
}

// TestScheduler plays lives that would tell which goroutine was first: in that of
// 1190 a task begins, and the process crashes there, while the actor that has sent it
// answers who started its run; in the others a caller waits likewise.
func TestScheduler(t *testing.T) {
	dir := harness.Workspace(t)
	seeds, again := []uint64{1190, 1060, 1123, 1131, 1143}, 3
	if harness.CurrentLevel() == harness.Quick {
		seeds, again = seeds[:1], 1
	}
	for _, seed := range seeds {
		p := play{seed: seed, verbose: true}
		w, err := p.run(t, dir)
		require.NoError(t, err)
		for range again {
			require.NoError(t, p.repeats(t, dir, w), "seed %d", seed)
		}
	}
}

// manySeeds are enough for a crash at every site.
const manySeeds = 10_000

// complete fails if something never happened: what a generator does not reach is
// not tested.
func (t *tally) complete(tb *testing.T) {
	for kind := range drawers {
		if t.Accepted[kind] == 0 && kind != "forge" {
			tb.Errorf("no act of the kind %q was accepted", kind)
		}
		if t.Refused[kind] == 0 && (kind == "forge" || kind == "duplicate" || kind == "patch" || kind == "vote") {
			tb.Errorf("no act of the kind %q was refused", kind)
		}
	}
	for _, name := range []string{"busy", "gone", "permanent", "panic", "goexit", "garbage", "pending", "deaf", "later", "done"} {
		if t.Answers[name] == 0 {
			tb.Errorf("no task was answered by %q", name)
		}
	}
	for _, status := range []workflow.RunStatus{workflow.RunCompleted, workflow.RunFailed, workflow.RunTimedOut, workflow.RunCancelled} {
		if t.Outcomes[status.String()] == 0 {
			tb.Errorf("no run has ended as %v", status)
		}
	}
	for _, site := range sites {
		if t.Seeds >= manySeeds && t.Sites[site] == 0 {
			tb.Errorf("no crash at %s", site)
		}
	}
	if t.Foretold == 0 || t.Unchanged == 0 {
		tb.Errorf("%d records and %d answers were told by simulations", t.Foretold, t.Unchanged)
	}
	if t.Crashes == 0 || t.Children == 0 || t.Lost == 0 || t.Clocks == 0 {
		tb.Errorf("%d crashes, %d child runs, %d calls without an answer, the clock set %d times", t.Crashes, t.Children, t.Lost, t.Clocks)
	}
}
