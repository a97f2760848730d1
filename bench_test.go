package pawl_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/store/folderlog"
	"github.com/pawl-run/pawl/workflow"
)

// largeText returns a text of letters that compresses little, with a line break and a quote now and then.
func largeText(bytes int) string {
	r := rand.New(rand.NewPCG(1, uint64(bytes)))
	var out strings.Builder
	for out.Len() < bytes {
		out.WriteByte("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ 0123456789"[r.IntN(63)])
		if r.IntN(80) == 0 {
			out.WriteString("\n\"")
		}
	}
	return out.String()[:bytes]
}

// BenchmarkLargeValues measures the steps of a chain that pass on some hundred kilobytes: each is given the text that lies in the
// state, or returns another one, which replaces it.
func BenchmarkLargeValues(b *testing.B) {
	const steps = 20
	text := largeText(900 << 10)
	raw := value.Encode(map[string]any{"text": text})[1:]
	for name, node := range map[string]string{
		"lies":     "input: {n: state.n}, output: {state.n: result.n}",
		"raw":      "input: {n: state.n}, output: {state.n: result.n}", // the run takes a number from a large result
		"is given": "input: {text: state.text, n: state.n}, output: {state.n: result.n}",
		"returned": "input: {n: state.n}, output: {state.n: result.n, state.text: result.text}",
	} {
		d := define(b, fmt.Sprintf(`
name: large
start: a
state: {initial: {n: 0}}
nodes: [{id: a, output: {state.text: input.text}}, {id: b, task: work, %s}]
transitions: [{from: a, to: b}, {from: b, to: b, condition: "state.n < %d", loop: {maxIterations: 1000}}]
`, node, steps))
		returns := strings.Contains(node, "result.text")
		for _, durability := range []pawl.Durability{pawl.PowerLoss, pawl.ProcessCrash} {
			b.Run(fmt.Sprintf("%s/%v", name, durability), func(b *testing.B) {
				e, err := pawl.Open(b.Context(), b.TempDir(), pawl.Options{Durability: durability, Executor: pawl.Handlers{"work": func(_ context.Context, task pawl.Task) (any, error) {
					n := task.Input.(map[string]any)["n"].(int64) + 1
					switch {
					case name == "raw":
						return json.RawMessage(fmt.Sprintf(`{"n":%d,%s`, n, raw)), nil
					case returns:
						return map[string]any{"n": n, "text": fmt.Sprint(n) + text}, nil
					}
					return map[string]any{"n": n}, nil
				}}})
				require.NoError(b, err)
				defer func() { require.NoError(b, e.Close(context.Background())) }()
				i, begin := 0, time.Now()
				for b.Loop() {
					i++
					out, err := e.Run(b.Context(), workflow.Run{ID: workflow.RunID(fmt.Sprint("r", i)), Definition: d}, map[string]any{"text": text})
					require.NoError(b, err)
					require.NoError(b, out.Err())
				}
				b.ReportMetric(time.Since(begin).Seconds()*1000/float64(i*steps), "ms/step")
			})
		}
	}
}

// BenchmarkFollowed runs chains of five tasks, 64 at a time, in a directory that nobody follows, and in
// one that a copy follows.
//
//	go test . -run NONE -bench Followed -benchtime 3000x -count 5
func BenchmarkFollowed(b *testing.B) {
	def := define(b, `
name: five
start: a
nodes: [{id: a, task: work}, {id: b, task: work}, {id: c, task: work}, {id: d, task: work}, {id: e, task: work}]
transitions: [{from: a, to: b}, {from: b, to: c}, {from: c, to: d}, {from: d, to: e}]
`)
	for _, followed := range []bool{false, true} {
		b.Run(fmt.Sprint("followed=", followed), func(b *testing.B) {
			dir := b.TempDir()
			e, err := pawl.Open(b.Context(), filepath.Join(dir, "data"), pawl.Options{Executor: pawl.Handlers{
				"work": func(context.Context, pawl.Task) (any, error) {
					return map[string]any{"text": "some result of a task"}, nil
				},
			}})
			require.NoError(b, err)
			ended := make(chan error, 1)
			if followed {
				log, err := folderlog.Open(filepath.Join(dir, "log"))
				require.NoError(b, err)
				bases, err := blob.OpenFiles(filepath.Join(dir, "bases"), blob.Options{})
				require.NoError(b, err)
				based := make(chan struct{})
				var once sync.Once
				report := func(r pawl.FollowReport) {
					if !r.Base.IsZero() {
						once.Do(func() { close(based) })
					}
				}
				go func() {
					err := e.Follow(b.Context(), pawl.FollowOptions{Log: log, Bases: bases, Report: report})
					ended <- errors.Join(err, bases.Close())
				}()
				<-based
			} else {
				ended <- nil
			}
			var group sync.WaitGroup
			next := make(chan int)
			began := time.Now()
			b.ResetTimer()
			for range 64 {
				group.Go(func() {
					for i := range next {
						_, err := e.Run(b.Context(), workflow.Run{ID: workflow.RunID(fmt.Sprint("run-", i)), Definition: def}, nil)
						if err != nil {
							panic(err)
						}
					}
				})
			}
			for i := range b.N {
				next <- i
			}
			close(next)
			group.Wait()
			require.NoError(b, e.Close(b.Context()))
			require.NoError(b, <-ended)
			b.ReportMetric(float64(b.N)/time.Since(began).Seconds(), "runs/s")
		})
	}
}
