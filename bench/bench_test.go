package bench

import (
	"context"
	"database/sql/driver"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/workflow"
)

var noop = pawl.Handlers{"noop": func(context.Context, pawl.Task) (any, error) { return nil, nil }}

var durabilities = []struct {
	name        string
	durability  pawl.Durability
	synchronous string
}{{"PowerLoss", pawl.PowerLoss, "FULL"}, {"ProcessCrash", pawl.ProcessCrash, "NORMAL"}}

// chain is a definition of n tasks in a row.
func chain(n int) *workflow.Definition {
	d := &workflow.Definition{Name: "chain", Start: "n0"}
	for i := range n {
		d.Nodes = append(d.Nodes, workflow.Node{ID: node(i), Task: "noop"})
		if i > 0 {
			d.Transitions = append(d.Transitions, workflow.Transition{From: node(i - 1), To: node(i)})
		}
	}
	return d
}

func node(i int) workflow.NodeID { return workflow.NodeID(fmt.Sprint("n", i)) }

func open(b *testing.B, dir string, d pawl.Durability) *pawl.Engine {
	e, err := pawl.Open(context.Background(), dir, pawl.Options{Executor: noop, Durability: d})
	require.NoError(b, err)
	return e
}

func completed(b *testing.B, e *pawl.Engine, id workflow.RunID) {
	out, err := e.Wait(context.Background(), id)
	require.NoError(b, err)
	require.NoError(b, out.Err())
}

func median(xs []float64) float64 {
	slices.Sort(xs)
	return xs[len(xs)/2]
}

// BenchmarkChain runs chains of 1,000 tasks that do nothing, and after each one
// a bare loop of the transactions that it made.
func BenchmarkChain(b *testing.B) {
	for _, d := range durabilities {
		b.Run(d.name, func(b *testing.B) {
			var engine, bare, ratio []float64
			for range b.N {
				dir := b.TempDir()
				rate, records := chainRate(b, dir, d.durability)
				raw := bareRate(b, dir, d.synchronous, records)
				engine, bare, ratio = append(engine, rate), append(bare, raw), append(ratio, rate/raw)
			}
			b.ReportMetric(median(engine), "commits/s")
			b.ReportMetric(median(bare), "bare-commits/s")
			b.ReportMetric(100*median(ratio), "%-of-bare")
		})
	}
}

func chainRate(b *testing.B, dir string, d pawl.Durability) (float64, []decision.Encoded) {
	e := open(b, dir, d)
	run := workflow.Run{ID: "warm", Definition: chain(1000)}
	require.NoError(b, e.Start(b.Context(), run, nil))
	completed(b, e, run.ID)
	run.ID = "chain"
	begin := time.Now()
	require.NoError(b, e.Start(b.Context(), run, nil))
	completed(b, e, run.ID)
	took := time.Since(begin)
	var records []decision.Encoded
	for r, err := range e.Journal(b.Context(), run.ID) {
		require.NoError(b, err)
		encoded, err := r.Encode()
		require.NoError(b, err)
		records = append(records, encoded)
	}
	require.NoError(b, e.Close(b.Context()))
	require.Len(b, records, 1001)
	return float64(len(records)) / took.Seconds(), records
}

// bareRate appends the same records to the log of the same database and moves
// the run's row, one transaction each, with nothing around it.
func bareRate(b *testing.B, dir, synchronous string, records []decision.Encoded) float64 {
	db, err := sqlite.Open(filepath.Join(dir, "pawl.db"), "PRAGMA locking_mode=EXCLUSIVE; PRAGMA journal_mode=WAL; PRAGMA synchronous="+synchronous+"; PRAGMA temp_store=MEMORY")
	require.NoError(b, err)
	exec := func(text string, args ...driver.Value) {
		_, err := db.Exec(text, args...)
		require.NoError(b, err)
	}
	sum := make([]byte, 32)
	begin := time.Now()
	for i, r := range records {
		exec(`BEGIN IMMEDIATE`)
		require.NoError(b, db.Each(`SELECT value FROM meta WHERE key = 'epoch'`, func(*sqlite.Row) error { return nil }))
		exec(`UPDATE runs SET seq = ?, sum = ? WHERE id = 'chain'`, r.Seq, sum)
		exec(`INSERT INTO log (key, at, epoch, planner, message, decisions, vals, sum) VALUES (?, ?, ?, ?, ?, ?, NULL, ?)`,
			int64(7<<32+i), r.At.UnixMilli(), int64(r.Epoch), int64(r.Planner), r.Message, r.Decisions, sum)
		exec(`COMMIT`)
	}
	took := time.Since(begin)
	require.NoError(b, db.Close())
	return float64(len(records)) / took.Seconds()
}

// BenchmarkRuns starts 1,000 runs of 5 tasks, 64 at a time, and counts the time
// until every one has ended and has its file.
func BenchmarkRuns(b *testing.B) {
	for _, d := range durabilities {
		b.Run(d.name, func(b *testing.B) {
			const runs = 1000
			var rates []float64
			def := chain(5)
			for range b.N {
				dir := b.TempDir()
				e := open(b, dir, d.durability)
				begin := time.Now()
				var group sync.WaitGroup
				ids := make(chan workflow.RunID)
				for range 64 {
					group.Go(func() {
						for id := range ids {
							if _, err := e.Run(context.Background(), workflow.Run{ID: id, Definition: def}, nil); err != nil {
								b.Error(err)
							}
						}
					})
				}
				for i := range runs {
					ids <- workflow.RunID(fmt.Sprint("r", i))
				}
				close(ids)
				group.Wait()
				require.NoError(b, e.Close(b.Context()))
				rates = append(rates, runs/time.Since(begin).Seconds())
				require.Equal(b, runs, filesOf(b, dir))
			}
			b.ReportMetric(median(rates), "runs/s")
		})
	}
}

func filesOf(b *testing.B, dir string) int {
	n := 0
	require.NoError(b, filepath.WalkDir(filepath.Join(dir, "runs"), func(path string, d os.DirEntry, err error) error {
		if filepath.Ext(path) == ".db" {
			n++
		}
		return err
	}))
	return n
}

// BenchmarkFanout runs one fan-out of 1,000 to 100,000 branches over a task that
// does nothing.
func BenchmarkFanout(b *testing.B) {
	d := &workflow.Definition{
		Name: "fanout", Start: "split",
		Nodes: []workflow.Node{{ID: "split"}, {ID: "work", Task: "noop"}, {ID: "done"}},
		Transitions: []workflow.Transition{
			{From: "split", To: "work", SiblingGroup: "g", Foreach: &workflow.Foreach{Collection: "input.items"}},
			{From: "work", To: "done", Synchronization: &workflow.Synchronization{SiblingGroup: "g"}},
		},
	}
	for _, n := range []int{1_000, 10_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var times []float64
			var peak uint64
			for range b.N {
				e := open(b, b.TempDir(), pawl.PowerLoss)
				begin := time.Now()
				require.NoError(b, e.Start(b.Context(), workflow.Run{ID: "f", Definition: d}, map[string]any{"items": make([]int, n)}))
				completed(b, e, "f")
				times = append(times, float64(time.Since(begin).Microseconds())/float64(n))
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				peak = max(peak, m.HeapSys-m.HeapReleased)
				require.NoError(b, e.Close(b.Context()))
			}
			b.ReportMetric(median(times), "us/branch")
			b.ReportMetric(float64(peak)/float64(1<<20), "heap-MiB")
		})
	}
}
