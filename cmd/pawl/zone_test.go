package main

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/internal/testing/harness/replays"
	"github.com/pawl-run/pawl/workflow"
)

// elsewhere is the variable that sets the zone of a process of tests five hours ahead of UTC.
const elsewhere = "PAWL_ELSEWHERE"

// Every verb tells instants in the zone of the machine, and with --utc in UTC. The zone is that of a process, so
// that it is a process of its own.
func TestInstantsAreInTheZone(t *testing.T) {
	if os.Getenv(elsewhere) == "" {
		c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
		c.Env = append(os.Environ(), elsewhere+"=1")
		out, err := c.CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Contains(t, string(out), "PASS")
		return
	}
	hook := &testhook.Hook{}
	hook.OnNow(func() time.Time { return time.Date(2030, 1, 1, 11, 0, 0, 0, time.UTC) })
	ctx, dir := testhook.With(t.Context(), hook), replays.Dir(t)
	engine, err := pawl.Open(ctx, dir, pawl.Options{Durability: pawl.ProcessCrash})
	require.NoError(t, err)
	d, err := workflow.ParseYAML([]byte("name: ask\nstart: a\nnodes: [{id: a, approval: {}, timeout: 30m}]"))
	require.NoError(t, err)
	require.NoError(t, engine.Start(ctx, workflow.Run{ID: "ask-1", Definition: d}, nil))
	require.NoError(t, engine.Close(ctx))
	asOf := "files, as of "
	for line, want := range map[string]string{ // what is written of an instant, in UTC
		"why ask-1":       "until 2030-01-01 11:30:00.000",
		"step ask-1 --at": "next alarm 2030-01-01 11:30:00.000",
		"show ask-1":      "until 11:30:00",
		"threads ask-1":   " 11:30:00",
		"inbox":           " 11:30:00",
		"journal ask-1":   "2030-01-01 11:00:00.000",
		"events ask-1":    " 11:00:00.000",
		"revisions ask-1": asOf + "11:01:00",
		"ls":              asOf + "11:01:00",
		"data ask-1":      asOf + "11:01:00",
		"graph ask-1":     asOf + "11:01:00",
		"replay ask-1":    asOf + "11:01:00",
		"coverage ask-1":  asOf + "11:01:00",
		"diff ask-1":      asOf + "11:01:00",
		"sql":             asOf + "11:01:00",
	} {
		args := strings.Fields(line)
		switch args[0] {
		case "step":
			args[2] = "--at=-1"
		case "diff":
			args = append(args, "ask-1")
		case "sql":
			args = append(args, "select 1")
		}
		for _, utc := range []bool{false, true} {
			all, want := slices.Concat(args, []string{"--dir", dir}), strings.Replace(want, " 11:", " 16:", 1)
			if utc {
				all, want = append(all, "--utc"), strings.Replace(want, " 16:", " 11:", 1)
			}
			var out strings.Builder
			con := &console{In: strings.NewReader(""), Out: &out, Errs: &out, Now: func() time.Time { return time.Date(2030, 1, 1, 11, 1, 0, 0, time.UTC) }}
			con.runArguments(context.Background(), all)
			assert.Contains(t, out.String(), want, "%v", all)
		}
	}
}
