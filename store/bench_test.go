package store

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/runfile"
	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

func names(d Durability) string { return [...]string{"PowerLoss", "ProcessCrash"}[d] }

// step is the record of a typical step.
func step(seq int64) decision.Record {
	output := map[string]any{"n": seq, "text": "some output of a task"}
	return decision.Record{
		Seq: seq, At: at(int(seq)), Epoch: 7, Planner: 1,
		Message: state.TaskCompleted{Token: workflow.TokenID(seq), Attempt: 1, Epoch: 7, Output: output},
		Decisions: []decision.Decision{
			decision.SetData{Path: []string{"state", "step"}, Value: output},
			decision.CompleteToken{Token: workflow.TokenID(seq), Output: output},
			createToken(int(seq)+1, "start"),
			dispatch(int(seq) + 1),
		},
	}
}

// BenchmarkCommit commits steps of runs: as many runs at a time as there are
// writers. Bare is the loop of the same statements without anything around it.
func BenchmarkCommit(b *testing.B) {
	for _, durability := range []Durability{PowerLoss, ProcessCrash} {
		b.Run(names(durability), func(b *testing.B) {
			b.Run("Bare", func(b *testing.B) { benchmarkBare(b, durability) })
			for _, writers := range []int{1, 64} {
				b.Run(fmt.Sprintf("Writers%d", writers), func(b *testing.B) { benchmarkCommit(b, durability, writers) })
			}
		})
	}
}

func benchmarkCommit(b *testing.B, durability Durability, writers int) {
	d := openWith(b, b.TempDir(), Options{Durability: durability})
	g := graph(b)
	var left atomic.Int64
	left.Store(int64(b.N))
	var wg sync.WaitGroup
	before := writtenBytes()
	b.ResetTimer()
	for w := range writers {
		wg.Go(func() {
			r, s := d.New(Head{Run: workflow.RunID(fmt.Sprint(w))}, g), state.NewState(workflow.RunID(fmt.Sprint(w)), g)
			s.Status = workflow.RunRunning
			for seq := int64(1); left.Add(-1) >= 0; seq++ {
				if err := r.Commit(s, []decision.Record{step(seq)}); err != nil {
					b.Error(err)
					return
				}
				if seq%100 == 0 {
					trimOnly(b, d, r)
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commits/s")
	b.ReportMetric((writtenBytes()-before)/float64(b.N), "bytes/commit")
}

// writtenBytes returns how many bytes this process has handed to Linux to be written.
func writtenBytes() float64 {
	text, _ := os.ReadFile("/proc/self/io")
	var read, written float64
	_, _ = fmt.Sscanf(string(text), "rchar: %f\nwchar: %f", &read, &written)
	return written
}

// trimOnly removes records from the log as filing does, without a file.
func trimOnly(b *testing.B, d *Dir, r *Run) {
	r.unflushed = r.unflushed[:0]
	err := d.updateIndex(func(db *sqlite.Conn) error {
		_, _, err := d.trimSome(db, []span{{r.row.Num, r.row.Seq - 99, r.row.Seq}})
		return err
	})
	if err != nil {
		b.Error(err)
	}
}

func benchmarkBare(b *testing.B, durability Durability) {
	path := b.TempDir()
	d := openWith(b, path, Options{})
	require.NoError(b, d.Close())
	db, err := sqlite.Open(filepath.Join(path, indexFile), indexPragmas)
	require.NoError(b, err)
	defer db.Close()
	if durability == ProcessCrash {
		require.NoError(b, db.Script(`PRAGMA synchronous=NORMAL`))
	}
	_, err = db.Exec(insertRun, int64(1), "r", "", int64(1), "", "", "", "", "", int64(1), nil, int64(0), int64(0), int64(0),
		int64(1), nil, nil, nil, nil, nil, int64(0), int64(0), []byte{}, int64(0), int64(0), int64(0), int64(0), nil, nil, int64(0), int64(0))
	require.NoError(b, err)
	sum := runfile.FirstSum("r")
	b.ResetTimer()
	for n := range b.N {
		seq := int64(n + 1)
		e, _ := step(seq).Encode()
		sum = sum.SumAfter(&e)
		_, err1 := db.Exec(begin)
		_, err2 := index.ReadEpoch(db)
		_, err3 := db.Exec(advanceRun, append(index.WithCRC(int64(1), seq, sum[:], int64(1)), int64(1), seq-1)...)
		err4 := index.AppendLog(db, 1, &runfile.Entry{Encoded: e, Sum: sum})
		_, err5 := db.Exec(commit)
		for _, err := range []error{err1, err2, err3, err4, err5} {
			require.NoError(b, err)
		}
		if seq%100 == 0 {
			_, err := db.Exec(deleteLog, index.LogKey(1, 0), index.LogKey(1, seq))
			require.NoError(b, err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commits/s")
}

// BenchmarkFiles runs runs of five steps to their ends, 64 at a time, every one
// with its file.
func BenchmarkFiles(b *testing.B) {
	for _, durability := range []Durability{PowerLoss, ProcessCrash} {
		b.Run(names(durability), func(b *testing.B) { benchmarkFiles(b, durability) })
	}
}

func benchmarkFiles(b *testing.B, durability Durability) {
	d := openWith(b, b.TempDir(), Options{Durability: durability})
	g := graph(b)
	var next atomic.Int64
	var wg, filed sync.WaitGroup
	b.ResetTimer()
	for range 64 {
		wg.Go(func() {
			for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
				id := workflow.RunID(fmt.Sprint(n))
				o := &owner{t: b, run: d.New(Head{Run: id}, g), state: state.NewState(id, g)}
				o.five(map[string]any{"n": n})
				filed.Add(1)
				o.run.Flush(o.state.TakeChanges(), o.events, func(err error) {
					if err != nil {
						b.Error(err)
					}
					filed.Done()
				})
			}
		})
	}
	wg.Wait()
	filed.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "runs/s")
}

// BenchmarkCommitDuringBackup measures how long commits of 16 runs take beside
// nothing, and beside one backup after the other of a directory with 2,000 runs.
func BenchmarkCommitDuringBackup(b *testing.B) {
	for _, backups := range []bool{false, true} {
		b.Run(fmt.Sprintf("backups=%v", backups), func(b *testing.B) { commitsBesideBackups(b, backups) })
	}
}

func commitsBesideBackups(b *testing.B, backups bool) {
	d := open(b, b.TempDir())
	var filing sync.WaitGroup
	for i := range 2000 {
		o := start(b, d, workflow.RunID(fmt.Sprint("old", i)))
		o.five(map[string]any{"x": strings.Repeat("x", 500)})
		filing.Add(1)
		o.run.Flush(o.state.TakeChanges(), o.events, func(error) { filing.Done() })
	}
	filing.Wait()
	ctx, cancel := context.WithCancel(b.Context())
	var others sync.WaitGroup
	made, took := 0, time.Duration(0)
	if backups {
		others.Go(func() {
			for parent := b.TempDir(); ctx.Err() == nil; {
				began := time.Now()
				if info, err := d.Backup(ctx, filepath.Join(parent, fmt.Sprint(made)), nil); err == nil {
					made, took = made+1, took+time.Since(began)
					_ = os.RemoveAll(info.Path)
				}
			}
		})
	}
	latencies := make([][]time.Duration, 16)
	b.ResetTimer()
	var runs sync.WaitGroup
	for i := range latencies {
		o := start(b, d, workflow.RunID(fmt.Sprint("new", i)))
		o.do(state.Start{}, startRun(nil), createToken(1, "start"), dispatch(1))
		runs.Go(func() {
			for range b.N/len(latencies) + 1 {
				began := time.Now()
				o.do(state.Heartbeat{Token: 1})
				latencies[i] = append(latencies[i], time.Since(began))
			}
		})
	}
	runs.Wait()
	b.StopTimer()
	cancel()
	others.Wait()
	sorted := slices.Sorted(slices.Values(slices.Concat(latencies...)))
	for what, i := range map[string]int{"p50": len(sorted) / 2, "p99": len(sorted) * 99 / 100, "p999": len(sorted) * 999 / 1000, "max": len(sorted) - 1} {
		b.ReportMetric(float64(sorted[i].Microseconds()), what+"-us")
	}
	if made > 0 {
		b.ReportMetric(took.Seconds()/float64(made), "s/backup")
	}
}
