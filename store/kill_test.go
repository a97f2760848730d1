package store

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/internal/testing/harness"
)

// isChild reports whether this is a child process of a test, which then has done
// what it was started for.
func isChild() bool {
	if path := os.Getenv("PAWL_STORE_OPEN"); path != "" {
		openInChild(path)
		return true
	}
	if path := os.Getenv("PAWL_STORE_COMMIT"); path != "" {
		commitInChild(path)
		return true
	}
	if path := os.Getenv("PAWL_STORE_MIGRATE"); path != "" {
		migrateInChild(path)
		return true
	}
	if path := os.Getenv("PAWL_STORE_PURGE"); path != "" {
		purgeInChild(path)
		return true
	}
	return false
}

// commitInChild commits for ever, files now and then, and says what is done.
// The regions of the redo log take turns, every few commits.
func commitInChild(path string) {
	hook := &testhook.Hook{}
	hook.SetRedoBytes(2000)
	d, err := Open(path, Options{Hook: hook})
	check(err)
	var o *owner
	if _, err := d.Head("r1"); err == nil {
		r, s, events, err := d.Load("r1")
		check(err)
		o = &owner{run: r, state: s, events: events}
	} else {
		g, err := fanGraph()
		check(err)
		o = &owner{run: d.New(Head{Run: "r1"}, g), state: state.NewState("r1", g)}
		check(o.try(state.Start{}, startRun(nil), createToken(1, "start"), dispatch(1)))
	}
	for {
		n := o.run.Head().Seq
		check(o.try(state.Heartbeat{Token: 1}, decision.AppendData{Path: []string{"state", "list"}, Value: n}))
		fmt.Println(o.run.Head().Seq)
		if n%7 == 0 {
			o.run.Flush(o.state.TakeChanges(), o.events, check)
			o.events = nil
		}
	}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// TestKill kills a process in the middle of its commits, again and again.
func TestKill(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	var rounds []int
	for round := range harness.Figure(3, 12, 12) {
		rounds = append(rounds, round)
	}
	for _, round := range harness.SampleOfDay(t, harness.Figure(1, 2, 1), rounds) {
		acked := kill(t, path, 20+9*round)
		d, err := Open(path, Options{})
		require.NoError(t, err)
		o := load(t, d, "r1")
		seq := o.run.Head().Seq
		require.GreaterOrEqual(t, seq, acked)
		require.LessOrEqual(t, seq, acked+1)
		require.Len(t, o.state.Section("state")["list"], int(seq)-1)
		require.Len(t, all(t, d.History("r1")), int(seq))
		require.NoError(t, d.Close())
	}
}

// kill starts a process that commits, kills it after some commits, and returns
// the last sequence that it said was done.
func kill(t *testing.T, path string, commits int) (acked int64) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "PAWL_STORE_COMMIT="+path)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	cmd.Stderr = os.Stderr
	require.NoError(t, cmd.Start())
	lines := bufio.NewScanner(out)
	for n := 0; lines.Scan(); n++ {
		acked, err = strconv.ParseInt(lines.Text(), 10, 64)
		require.NoError(t, err)
		if n == commits {
			require.NoError(t, cmd.Process.Kill())
		}
	}
	require.Error(t, cmd.Wait(), "it was killed")
	return acked
}
