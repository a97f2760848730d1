// Command bench measures the engine, on every workload that docs/performance.md names,
// and beside it, in the same rounds, a bare loop of commits: what the disk and the
// driver allow.
//
//	go run ./bench                        the table; some ten minutes
//	go run ./bench -quick -json           small sizes, one JSON object a line; at most 90 s
//	go run ./bench -against ../other      the same program built from another checkout as well
//	go run ./bench -only W1,W3 -cpuprofile profiles
//	go run ./bench -runs 1000000 -dir /data/bench
//
// Every sample is a process of its own and checks its results: a wrong one ends the
// command. A sample during which other processes used the processors is taken again.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"time"
)

// settings are the command's flags.
type settings struct {
	quick, json            bool
	only                   string
	against, with          string
	dir                    string
	rounds, runs, sleepers int
	cpuProfile, memProfile string
}

func parseSettings(args []string) (settings, error) {
	var s settings
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.BoolVar(&s.quick, "quick", false, "small sizes, and no round after 70 s")
	flags.BoolVar(&s.json, "json", false, "print the rows, one JSON object a line, in place of the table")
	flags.StringVar(&s.only, "only", "", "measure these `workloads` only, such as W1,W10")
	flags.StringVar(&s.against, "against", "", "measure the program built from this `checkout` as well, in turns")
	flags.StringVar(&s.with, "with", "", "with -against: the `file` that takes the place of version.go in the other checkout")
	flags.StringVar(&s.dir, "dir", "", "the `folder`, on the disk to be measured, for engine directories; a temporary one by default")
	flags.IntVar(&s.rounds, "rounds", 5, "samples of each figure, of which the median counts")
	flags.IntVar(&s.runs, "runs", 0, "measure a directory of so many ended runs and nothing else; with -dir it is kept, and built once")
	flags.IntVar(&s.sleepers, "sleepers", 0, "how many runs wait in W5 and W7, in place of 300 or 3,000")
	flags.StringVar(&s.cpuProfile, "cpuprofile", "", "write a CPU profile of each sample into this `folder`; none is taken again")
	flags.StringVar(&s.memProfile, "memprofile", "", "write a profile of the allocations of each sample into this `folder`; none is taken again")
	if err := flags.Parse(args); err != nil {
		return s, err
	}
	switch {
	case flags.NArg() > 0:
		return s, fmt.Errorf("unknown argument %q", flags.Arg(0))
	case s.with != "" && s.against == "":
		return s, errors.New("-with goes with -against")
	case s.rounds < 1 || s.runs < 0 || s.sleepers < 0:
		return s, errors.New("-rounds, -runs and -sleepers are numbers of at least 1")
	}
	for _, w := range s.workloads() {
		if !isWorkload(w) {
			return s, fmt.Errorf("-only: there is no workload %q; they are W1 to W12", w)
		}
	}
	return s, nil
}

// workloads returns those that were asked for by name; none stands for all.
func (s settings) workloads() []string {
	if s.runs > 0 {
		return []string{endedWorkload}
	}
	return strings.FieldsFunc(s.only, func(r rune) bool { return r == ',' })
}

func (s settings) sizes() sizes {
	out := fullSizes
	if s.quick {
		out = quickSizes
	}
	if s.sleepers > 0 {
		out.Sleepers = s.sleepers
	}
	if s.runs > 0 {
		out.Ended = s.runs
	}
	return out
}

func main() {
	if order := os.Getenv(orderVariable); order != "" {
		os.Exit(obeyOrder(order))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := runCommand(ctx, os.Args[1:], time.Now())
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// runCommand measures what the arguments ask for and prints it.
func runCommand(ctx context.Context, args []string, begin time.Time) error {
	s, err := parseSettings(args)
	if err != nil {
		return err
	}
	r, err := newRunner(ctx, s, begin)
	if err != nil {
		return err
	}
	defer r.removeFolder()
	if err := r.takeSamples(ctx); err != nil {
		return err
	}
	if s.json {
		return printJSON(os.Stdout, r.rows())
	}
	return printTable(os.Stdout, r.rows())
}
