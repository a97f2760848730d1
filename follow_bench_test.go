package pawl_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/store/folderlog"
	"github.com/pawl-run/pawl/workflow"
)

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
				bases, err := blob.OpenFiles(filepath.Join(dir, "bases"))
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
