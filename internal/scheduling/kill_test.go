package scheduling_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/testing/harness"
)

var seed = flag.Uint64("kill.seed", uint64(time.Now().Unix()/(24*60*60)), "of the kills; other ones each day")

// A boundary is a failpoint that a life meets, and up to which of its hits it is killed there.
type boundary struct {
	point string
	hits  int
}

// boundaries are those of a firing: what comes before, in and after the commit that begins a run and decides its instant, of what
// decides one without a run, and of what a schedule that goes on begins with.
var boundaries = []boundary{
	{"schedule.due", 12}, {"schedule.start", 12}, {"schedule.started", 12}, {"schedule.keep", 12}, {"schedule.kept", 12},
	{"schedule.skip", 4}, {"schedule.ended", 8}, {"schedule.cancelled", 2}, {"schedule.release", 2}, {"schedule.backfill", 3},
	{"schedule.apply", 1}, {"schedule.applied", 1}, {"schedule.load", 8}, {"schedule.paused", 2}, {"schedule.resumed", 2},
	{"schedule.delete", 1}, {"schedule.deleted", 1}, {"commit.begin", 25}, {"commit.inside", 25}, {"commit.done", 25},
	{"redo.append", 25}, {"redo.appended", 25}, {"release.begin", 15}, {"task.begin", 10}, {"end.tell", 6}, {"recover.begin", 1}, {"close.begin", 1},
}

// While schedules fire every second of a quick clock, processes are killed at the boundaries of their firings, the lives of a directory
// one after the other: 60 times at the level gate, and 1,000 times at the level release, and at each boundary at least once. Every instant
// that has come then has one run, or one reason why it has none, as events and journals tell; no firing is lost, none doubled. Quick runs
// of six days kill once at each boundary.
func TestKills(t *testing.T) {
	if harness.Raced {
		t.Skip("a process that is killed does not tell what the race detector has found")
	}
	cases := harness.Today(t, 6, boundaries)
	wanted := harness.Figure(1, 60, 1_000)
	s := &kills{t: t, dir: harness.Workspace(t), at: cases, by: map[string]int{}}
	var group sync.WaitGroup
	trials := make(chan int)
	for range harness.Figure(1, 3, 3) {
		group.Go(func() {
			for n := range trials {
				s.runTrial(n)
			}
		})
	}
	for n := 0; (s.count() < wanted || s.lacksKill()) && n < (5+2*wanted/len(cases))*s.parts(); n++ {
		trials <- n
		if harness.CurrentLevel() == harness.Quick && n+1 == s.parts() {
			break
		}
	}
	close(trials)
	group.Wait()
	t.Logf("-kill.seed=%d: %d kills in %d lives: %v", *seed, s.count(), s.lives, s.by)
	require.GreaterOrEqual(t, s.count(), wanted)
	for _, b := range cases {
		require.True(t, s.by[b.point] > 0 || harness.CurrentLevel() == harness.Quick, "no process was killed at %s", b.point)
	}
}

type kills struct {
	t     *testing.T
	dir   string
	at    []boundary
	mu    sync.Mutex // guards
	by    map[string]int
	lives int
}

func (s *kills) count() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range s.by {
		n += k
	}
	return n
}

// lacksKill reports whether no process was killed at some boundary yet.
func (s *kills) lacksKill() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.at, func(b boundary) bool { return s.by[b.point] == 0 })
}

// killedEach is how many lives of a directory are killed. It is judged after the last of them, and after one more that comes to its end:
// events and the ledger have all lives before, so that a fault of any of them is found then. To load a long history takes most of a life.
const killedEach = 9

// runTrial lets lives of a directory be killed, each at another boundary, and the last one come to its end. The engine keeps the last
// thousand events of a schedule, and these lives make less.
func (s *kills) runTrial(n int) {
	dir := filepath.Join(s.dir, fmt.Sprint("trial", n))
	if err := os.Mkdir(dir, 0o700); err != nil {
		s.t.Error(err)
		return
	}
	r := rand.New(rand.NewPCG(*seed, uint64(n)))
	number := 0
	order := rand.New(rand.NewPCG(*seed, uint64(n/s.parts()))).Perm(len(s.at))
	part := slices.Collect(slices.Chunk(order, killedEach))[n%s.parts()]
	for k, i := range part {
		b := s.at[i]
		for hit := 1 + r.IntN(b.hits); ; hit = (hit + 1) / 2 { // a late hit need not come
			killed := s.live(dir, number, fmt.Sprintf("%s=%s:%d", harness.KillVariable, b.point, hit), k == len(part)-1)
			if s.t.Failed() {
				return
			}
			if number++; killed || hit == 1 {
				s.note(b.point, killed)
				break
			}
		}
	}
	s.live(dir, number, harness.KillVariable+"=", true)
	if err := os.RemoveAll(dir); err != nil {
		s.t.Error(err)
	}
}

func (s *kills) note(point string, killed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if killed {
		s.by[point]++
	}
}

// parts returns how many directories have all boundaries together.
func (s *kills) parts() int { return (len(s.at) + killedEach - 1) / killedEach }

// live has a process live on the directory, and judges what it leaves if that is wanted, or it has come to its end. It reports whether it
// was killed.
func (s *kills) live(dir string, number int, env string, judged bool) bool {
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	c := exec.CommandContext(ctx, os.Args[0])
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGQUIT) } // it says where it is stuck
	c.WaitDelay = patience
	c.Env = harness.Environment(childDir+"="+dir, childNumber+"="+strconv.Itoa(number), env)
	var says bytes.Buffer
	c.Stderr = &says
	err := c.Run()
	killed := harness.Killed(err)
	s.mu.Lock()
	s.lives++
	s.mu.Unlock()
	if err != nil && !killed {
		s.t.Errorf("%s: life %d, %s: %v after %v of processor: %.50000s", dir, number, env, err, c.ProcessState.UserTime(), says.String())
		return false
	}
	if killed && !judged {
		return true
	}
	wrong, err := judgeDirectory(ctx, dir, number, !killed)
	for _, text := range wrong {
		s.t.Errorf("%s: after life %d, %s: %s", dir, number, env, text)
	}
	if err != nil {
		s.t.Errorf("%s: after life %d, %s: %v", dir, number, env, err)
	}
	return killed
}
