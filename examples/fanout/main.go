// Fanout counts what is in more than a thousand source files, each in a branch
// of one run, and can be killed at any time: started again, it does only what
// is missing.
//
//	go run ./examples/fanout               # the sources of net and runtime
//	go run ./examples/fanout FILE...       # these files
//	go run ./examples/fanout -crash 0.5    # dies by SIGKILL at half of the files
//	go run ./examples/fanout               # goes on
//
// Read this file, then definition.go, which is the workflow, then count.go,
// which has the tasks.
package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

// name is that of the workflow.
const name = "fanout"

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "fanout:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt) // an interrupted run can be resumed, too
	defer stop()
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.SetOutput(stderr)
	dir := flags.String("dir", "fanout-data", "the engine `directory`, where the state lives")
	crash := flags.Float64("crash", 0, "kill this process when it has begun this `share` of the files, e.g. 0.5")
	concurrency := flags.Int("concurrency", 32, "how many files to count at once")
	if err := flags.Parse(args); err != nil {
		return err
	}
	files, err := sources(flags.Args())
	if err != nil {
		return err
	}

	// Open goes on at once with what is unfinished in the directory. A task
	// counts as done when its result is committed. As many as may run wait for
	// that at most, beside those that run: a crash repeats no more than both.
	c := &counter{dieAt: int(math.Ceil(*crash * float64(len(files)))), begun: map[workflow.RunID]int{}}
	engine, err := pawl.Open(ctx, *dir, pawl.Options{Executor: c.handlers(), Concurrency: *concurrency})
	if err != nil {
		return err
	}
	defer engine.Close(context.WithoutCancel(ctx))

	id, resumed, err := choose(ctx, engine, files)
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "state: %s\n", *dir)
	fmt.Fprintf(stdout, "run: %s, %d files, %s\n", id, len(files), map[bool]string{false: "new", true: "resumed"}[resumed])
	if !resumed {
		input := map[string]any{"files": files, "share": share(len(files))}
		if err := engine.Start(ctx, workflow.Run{ID: id, Definition: definition()}, input); err != nil {
			return err
		}
	}
	r, err := wait(ctx, engine, id, stderr)
	if err != nil {
		return err
	}
	show(stdout, r)
	fmt.Fprintf(stdout, "counted by this process: %d of %d files\n", c.counted(id), len(files))
	return nil
}

// choose returns the run to wait for. Its id is made of the list of files, so
// that the same command finds its run again: if one is unfinished, that one;
// otherwise a new one, with the next number.
func choose(ctx context.Context, engine *pawl.Engine, files []string) (id workflow.RunID, resumed bool, err error) {
	list := sha256.Sum256([]byte(strings.Join(files, "\x00")))
	prefix := fmt.Sprintf("%s-%x-", name, list[:4])
	finished := 0
	for r, err := range engine.Runs(ctx, pawl.RunFilter{Workflow: name}) {
		switch {
		case err != nil:
			return "", false, err
		case !strings.HasPrefix(string(r.Run), prefix):
		case !r.Status.Final():
			return r.Run, true, nil
		default:
			finished++
		}
	}
	return workflow.RunID(fmt.Sprintf("%s%d", prefix, finished+1)), false, nil
}

// wait shows how a run gets on until it has ended, and returns what it came to.
func wait(ctx context.Context, engine *pawl.Engine, id workflow.RunID, stderr io.Writer) (report, error) {
	var r report
	ended := make(chan struct{})
	shown := make(chan struct{})
	go func() {
		defer close(shown)
		progress(ctx, engine, id, ended, stderr)
	}()
	outcome, err := engine.Wait(ctx, id)
	close(ended)
	<-shown
	if err == nil {
		err = outcome.Err()
	}
	if err != nil {
		return r, err
	}
	text, err := json.Marshal(outcome.Output)
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	return r, err
}

// progress draws a bar until ended is closed. It asks the engine how the run
// stands, and so counts what was done before a crash as well.
func progress(ctx context.Context, engine *pawl.Engine, id workflow.RunID, ended <-chan struct{}, stderr io.Writer) {
	const width = 40
	ticks := time.NewTicker(100 * time.Millisecond)
	defer ticks.Stop()
	for last := false; ; {
		s, err := engine.Inspect(ctx, id)
		if err == nil && len(s.Groups) > 0 {
			done, total := s.Groups[0].Arrived, max(s.Groups[0].Total, 1)
			bar := strings.Repeat("#", width*done/total)
			fmt.Fprintf(stderr, "\r[%-*s] %d/%d", width, bar, done, total)
		}
		if last {
			fmt.Fprintln(stderr)
			return
		}
		select {
		case <-ticks.C:
		case <-ended:
			last = true
		}
	}
}

func show(w io.Writer, r report) {
	fmt.Fprintf(w, "total: %d lines, %d words, %d bytes (as wc says)\n", r.Lines, r.Words, r.Bytes)
	fmt.Fprintf(w, "sha256 of the files' hashes: %s\n", r.SHA256)
	fmt.Fprintf(w, "most frequent identifiers, of those that each file named (its most frequent, at most %d bytes of them):\n", share(r.Files))
	for _, id := range r.Identifiers {
		fmt.Fprintf(w, "%9d %s\n", id.Count, id.Name)
	}
}

// errTooMany says what this example does not do.
var errTooMany = errors.New("one list of results would be too large: make groups of files, as in examples/nested")
