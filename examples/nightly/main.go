// Nightly makes a report of 2,000 files every night at 02:00 in Berlin. Nobody
// needs to wait for a night: it makes up for three nights of March 2025 now,
// one with the hour that clocks jump over.
//
//	go run ./examples/nightly
//
// Read schedules.yaml first, then report.yaml, which is the work of a night,
// then this file. A service applies its schedules and stays open, no more.
package main

import (
	"context"
	_ "embed"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/schedule"
	"github.com/pawl-run/pawl/workflow"
)

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "nightly:", err)
		os.Exit(1)
	}
}

//go:embed report.yaml
var definition []byte

//go:embed schedules.yaml
var schedules []byte

// broken says how many of the 2,000 files nobody can read on each night that
// is shown: none, 1 % and one file too many.
var broken = []int{0, 20, 21}

func run(ctx context.Context, args []string, stdout, _ io.Writer) error {
	dir, remove, err := directory(args)
	if err != nil {
		return err
	}
	defer remove()
	d := &desk{files: filepath.Join(dir, "files"), reports: filepath.Join(dir, "reports")}
	engine, err := pawl.Open(ctx, filepath.Join(dir, "engine"), pawl.Options{Executor: d.makeHandlers()})
	if err != nil {
		return err
	}
	defer engine.Close(ctx)
	table, err := applySchedules(ctx, engine)
	if err != nil {
		return err
	}

	// From here on the engine makes a report every night. The nights before
	// that are backfilled, which fires the schedule as the clock would have.
	first, last := time.Date(2025, 3, 28, 12, 0, 0, 0, time.UTC), time.Date(2025, 3, 31, 12, 0, 0, 0, time.UTC)
	for f := range table.Between(first, last) {
		if err := d.writeFiles(broken[0]); err != nil {
			return err
		}
		broken = broken[1:]
		outcome, err := makeUp(ctx, engine, f)
		if err != nil {
			return err
		}
		fmt.Fprintln(stdout, outcome.Run)
		if err := outcome.Err(); err != nil {
			fmt.Fprintf(stdout, "  there is no report: %s\n", outcome.Failure.Code)
			continue
		}
		fmt.Fprintf(stdout, "  %s\n", outcome.Output["report"])
	}
	if most := d.most.Load(); most > 50 {
		return fmt.Errorf("%d files were read at once", most)
	}
	return nil
}

// applySchedules publishes the definition and applies the schedules. The same again
// changes nothing, so that a service does it at each start. It returns the
// instants of the first schedule.
func applySchedules(ctx context.Context, engine *pawl.Engine) (*schedule.Timetable, error) {
	def, err := workflow.ParseYAML(definition)
	if err != nil {
		return nil, err
	}
	if _, err := engine.Publish(ctx, def); err != nil {
		return nil, err
	}
	set, err := schedule.Parse(schedules)
	if err != nil {
		return nil, err
	}
	if _, err := engine.Schedules().Apply(ctx, set, pawl.ApplyOptions{}); err != nil {
		return nil, err
	}
	return schedule.Compile(&set[0])
}

// makeUp has the schedule fire at one instant that has passed, and returns
// what has come of it. A night that was made up for before is not made again.
func makeUp(ctx context.Context, engine *pawl.Engine, f schedule.Firing) (workflow.Outcome, error) {
	run := f.RunID("nightly")
	for change, err := range engine.Watch(ctx, pawl.WatchFilter{Prefix: string(run)}) {
		if err != nil {
			return workflow.Outcome{}, err
		}
		if !change.Lost { // the run has begun
			break
		}
		night := schedule.Backfill{From: f.At.Add(-time.Second), To: f.At, Most: 1}
		if _, err := engine.Schedules().Backfill(ctx, "nightly", night); err != nil {
			return workflow.Outcome{}, err
		}
		if _, err := engine.Inspect(ctx, run); err == nil { // before somebody could tell
			break
		}
	}
	return engine.Wait(ctx, run)
}

// directory returns the directory that args name, or a temporary one, and what
// to do with it at the end.
func directory(args []string) (dir string, remove func(), err error) {
	if len(args) > 0 {
		return args[0], func() {}, nil
	}
	dir, err = os.MkdirTemp("", "pawl-nightly-")
	return dir, func() { _ = os.RemoveAll(dir) }, err
}
