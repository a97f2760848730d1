package tracing_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/internal/testing/spantest"
	"github.com/pawl-run/pawl/workflow"
)

// The variables of the environment of a life: the directory, and where it is killed.
const (
	lifeDir   = "PAWL_TRACES_LIFE"
	lifePoint = "PAWL_TRACES_POINT"
	lifeHit   = "PAWL_TRACES_HIT"
)

func TestMain(m *testing.M) {
	dir := os.Getenv(lifeDir)
	if dir == "" {
		os.Exit(m.Run())
	}
	if err := live(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// lives is what a life brings to its end: a fan-out with retries, a timer and a child run.
const lives = `
name: lives
start: split
nodes:
  - {id: split}
  - {id: work, task: work, retry: {maxAttempts: 3, initialInterval: 1ms}}
  - {id: pause, wait: {for: 5ms}}
  - {id: below, subworkflow: {name: small}}
transitions:
  - {from: split, to: work, siblingGroup: g, spawnCount: 3}
  - {from: work, to: pause, synchronization: {siblingGroup: g}}
  - {from: pause, to: below}
`

// live is one life of a process: it starts the run, or goes on with it, until its end, or until it kills itself at a failpoint.
func live(dir string) error {
	to, err := os.OpenFile(filepath.Join(dir, "spans"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	hook, left := &testhook.Hook{}, atomic.Int64{}
	n, _ := strconv.Atoi(os.Getenv(lifeHit))
	left.Store(int64(n))
	hook.OnHit(func(point string) {
		if point == os.Getenv(lifePoint) && left.Add(-1) == 0 {
			if self, err := os.FindProcess(os.Getpid()); err == nil {
				_ = self.Kill()
			}
			select {} // until it has died
		}
	})
	ctx := testhook.With(context.Background(), hook)
	e, err := pawl.Open(ctx, filepath.Join(dir, "data"), pawl.Options{
		Durability: pawl.ProcessCrash, TracerProvider: &spantest.Provider{To: to},
		Executor: pawl.Handlers{"work": func(_ context.Context, t pawl.Task) (any, error) {
			if t.Attempt == 1 {
				return nil, errors.New("once more")
			}
			return nil, nil
		}},
	})
	if err != nil {
		return err
	}
	var defs [2]*workflow.Definition
	for i, text := range []string{lives, small} {
		if defs[i], err = workflow.ParseYAML([]byte(text)); err != nil {
			return err
		}
	}
	if _, err = e.Publish(ctx, defs[1]); err != nil {
		return err
	}
	if _, err = e.Run(ctx, workflow.Run{ID: "r", Definition: defs[0]}, nil); err != nil {
		return err
	}
	return e.Close(ctx)
}

// A process that is killed at any point leaves no span without its parent, and the lives of a directory make none twice, however
// often it is killed: but for the start, which the caller asks for in each life, and which is there once if its run is.
func TestKillsMakeNothingTwice(t *testing.T) {
	harness.InTurn(t, 4)
	if harness.Raced {
		t.Skip("a process that is killed does not tell what the race detector has found")
	}
	points := harness.Today(t, 3, []string{
		"start.ask", "start.answer", "commit.begin", "commit.done", "release.begin", "release.dispatch", "release.child", "release.end",
		"task.begin", "task.result", "task.delivered", "recover.wake",
	})
	hits := harness.Figure([]int{2}, []int{1, 2, 4}, []int{1, 2, 3, 4, 6, 8, 10})
	type place struct {
		point string
		hit   int
	}
	var places []place
	for i, point := range points {
		for k := range hits {
			places = append(places, place{point, hits[(i+k)%len(hits)]})
		}
	}
	// At the gate one hit of each point: one in 3, as the gate has this test on every second day.
	places = harness.SampleOfDay(t, harness.Figure(1, 3, 1), places)
	killed, told := 0, 0
	for _, p := range places {
		dir := t.TempDir()
		for life := 0; ; life++ {
			require.Less(t, life, 5)
			c := exec.Command(os.Args[0])
			c.Env = append(os.Environ(), lifeDir+"="+dir)
			if life < 2 { // killed twice, at points of different lives
				c.Env = append(c.Env, lifePoint+"="+p.point, lifeHit+"="+strconv.Itoa(max(p.hit-life, 1)))
			}
			out, err := c.CombinedOutput()
			if err == nil {
				break
			}
			require.Equal(t, -1, c.ProcessState.ExitCode(), "%s", out)
			killed++
		}
		text, err := os.ReadFile(filepath.Join(dir, "spans"))
		require.NoError(t, err)
		told += checkLives(t, fmt.Sprintf("%s at %d", p.point, p.hit), spantest.ReadLines(t, string(text)))
	}
	require.GreaterOrEqual(t, killed, len(points))
	require.Greater(t, told, len(points), "a kill loses only what was not sent yet")
	t.Logf("%d kills", killed)
}

// checkLives checks the spans of all lives, and returns how many there are beside those of starts.
func checkLives(t *testing.T, where string, spans []spantest.Span) int {
	t.Helper()
	spantest.RequireWhole(t, spans)
	seen, parents := map[string]bool{}, map[string]bool{}
	for i := range spans {
		s := &spans[i]
		if strings.HasPrefix(s.Name, "start ") {
			continue
		}
		parents[s.Parent] = true
		what := fmt.Sprint(s.Name, s.Attributes["pawl.run.id"], s.Attributes["pawl.token.id"], s.Attributes["pawl.attempt"])
		require.False(t, seen[what], "%s: %s twice", where, what)
		seen[what] = true
	}
	require.LessOrEqual(t, len(parents), 1, where) // none if the kills took all of them
	return len(seen)
}
