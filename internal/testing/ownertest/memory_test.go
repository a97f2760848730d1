//go:build linux

package ownertest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/internal/testing/harness/witness"
	"github.com/pawl-run/pawl/workflow"
)

// The environment of a child with little memory.
const (
	memoryDir   = "PAWL_OWNERTEST_MEMORY_DIR"
	memoryLimit = "PAWL_OWNERTEST_MEMORY_LIMIT" // bytes of address space beyond what it has at the start
	memoryRuns  = "PAWL_OWNERTEST_MEMORY_RUNS"
)

// A used is what a child with little memory has done.
type used struct {
	Ended    map[string]int // runs, by how
	Payloads int64          // bytes that went in and out
	Heap     uint64         // in use at most
	Space    uint64         // address space at the end
}

// big is a payload of n bytes as JSON.
func big(n int) string { return strings.Repeat("x", n-2) }

const (
	payload = 1 << 20  // the limit of an input and of a result
	merged  = 16 << 20 // the limit of a merge
)

// useMemory is a child: under a limit on its address space, and a softer one for
// the collector, it runs what allocates most of what the limits allow, and what is
// beyond them.
func useMemory() error {
	most, err := strconv.ParseUint(os.Getenv(memoryLimit), 10, 64)
	if err != nil {
		return err
	}
	runs, err := strconv.Atoi(os.Getenv(memoryRuns))
	if err != nil {
		return err
	}
	space, err := addressSpace()
	if err != nil {
		return err
	}
	debug.SetMemoryLimit(int64(most / 2))
	limit := unix.Rlimit{Cur: space + most, Max: space + most}
	if err := unix.Setrlimit(unix.RLIMIT_AS, &limit); err != nil {
		return err
	}
	out := used{Ended: map[string]int{}}
	ctx := context.Background()
	e, err := pawl.Open(ctx, os.Getenv(memoryDir), pawl.Options{Durability: pawl.ProcessCrash, Concurrency: 4, Executor: pawl.Handlers{
		"echo": func(_ context.Context, t pawl.Task) (any, error) { return t.Input, nil },
		"big":  func(context.Context, pawl.Task) (any, error) { return big(payload - 16), nil },
		"huge": func(context.Context, pawl.Task) (any, error) { return big(8 * payload), nil },
	}})
	if err != nil {
		return err
	}
	for i := range runs {
		for name, d := range heavy {
			in := map[string]any{"n": i, "x": big(payload - 64)}
			how := ""
			o, err := e.Run(ctx, workflow.Run{ID: workflow.RunID(fmt.Sprint(name, "-", i)), Definition: d}, in)
			var tooBig *workflow.LimitError
			switch {
			case errors.As(err, &tooBig):
				how = "refused: " + tooBig.Limit
			case err != nil:
				return fmt.Errorf("%s: %w", name, err)
			case o.Failure != nil:
				how = "failed: " + o.Failure.Code
			default:
				how = "completed"
				out.Payloads += payload
			}
			out.Ended[name+" "+how]++
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			out.Heap = max(out.Heap, m.HeapInuse)
		}
		err := e.Start(ctx, workflow.Run{ID: workflow.RunID(fmt.Sprint("over-", i)), Definition: heavy["echo"]}, map[string]any{"n": 0, "x": big(payload + 64)})
		var tooBig *workflow.LimitError
		if !errors.As(err, &tooBig) {
			return fmt.Errorf("an input of more than 1 MiB: %w", err)
		}
		out.Ended["over refused: "+tooBig.Limit]++
	}
	if err := e.Close(ctx); err != nil {
		return err
	}
	if out.Space, err = addressSpace(); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(out)
}

// heavy are definitions whose runs hold as much as the limits allow, or would hold
// more.
var heavy = map[string]*workflow.Definition{
	"echo": witness.MustParse(`name: echo
start: a
nodes: [{id: a, task: echo, input: {x: input.x}, output: {output.x: result.x}}]`),
	"merge":      merging(15),
	"over-merge": merging(20),
	"over-result": witness.MustParse(`name: huge
start: a
nodes: [{id: a, task: huge}]`),
}

// merging is a definition that merges so many results near their limit.
func merging(n int) *workflow.Definition {
	return witness.MustParse(fmt.Sprintf(`name: merge-%d
start: split
nodes: [{id: split}, {id: w, task: big}, {id: z, output: {output.n: size(state.all)}}]
transitions:
  - {from: split, to: w, spawnCount: %[1]d, siblingGroup: g}
  - {from: w, to: z, synchronization: {siblingGroup: g, merge: {source: result, target: state.all, strategy: append}}}`, n))
}

// addressSpace returns how many bytes of addresses this process has mapped.
func addressSpace() (uint64, error) {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0, err
	}
	pages, err := strconv.ParseUint(strings.Fields(string(text))[0], 10, 64)
	return pages * uint64(os.Getpagesize()), err
}

// TestLittleMemory runs a child that may map a gibibyte more than an idle Go
// program has: runs with inputs and results at the limit and merges near theirs,
// one after another, end as they should, and what is beyond a limit is refused by
// that limit. The process is not killed for want of memory.
func TestLittleMemory(t *testing.T) {
	harness.InTurn(t, 4)
	if harness.Raced {
		t.Skip("the race detector maps far more memory than the limit of this test")
	}
	const limit = 1 << 30
	rounds, runs := harness.Figure(1, 1, 10), harness.Figure(1, 3, 20)
	var last used
	for range rounds {
		dir := filepath.Join(harness.Workspace(t), "engine")
		self, err := os.Executable()
		require.NoError(t, err)
		cmd := exec.Command(self)
		cmd.Env = harness.Environment(childRole+"=memory", memoryDir+"="+dir, fmt.Sprint(memoryLimit, "=", limit), fmt.Sprint(memoryRuns, "=", runs), "GOGC=100")
		var says bytes.Buffer
		cmd.Stderr = &says
		out, err := cmd.Output()
		require.NoError(t, err, "%.4000s", says.String())
		require.NoError(t, json.Unmarshal(out, &last))
		require.Equal(t, map[string]int{
			"echo completed": runs, "merge completed": runs, "over refused: payloadBytes": runs,
			"over-merge failed: limit_exceeded": runs, "over-result failed: result_too_large": runs,
		}, last.Ended)
		e := open(t, dir, pawl.Options{})
		for i := range runs {
			o, err := e.Wait(t.Context(), workflow.RunID(fmt.Sprint("merge-", i)))
			require.NoError(t, err)
			require.NoError(t, o.Err())
			require.EqualValues(t, 15, o.Output["n"])
		}
	}
	t.Logf("%d children with %d MiB, %d heavy runs each: %v; heap at most %d MiB; violations: 0", rounds, limit>>20, 4*runs, last.Ended, last.Heap>>20)
}
