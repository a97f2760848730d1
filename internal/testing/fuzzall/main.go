// Fuzzall runs the fuzz targets of this module, some at a time, and says how many inputs each executed. It fails where a target finds
// something and, when each runs for a minute or more, where one executes fewer than 1,000 inputs in a second of its processor time and
// the table of targets gives no reason. It runs in the root of the module:
//
//	go run ./internal/testing/fuzzall -time 10m           # all
//	go run ./internal/testing/fuzzall -time 10s -foreign  # those that read bytes of others
//	go run ./internal/testing/fuzzall -time 10s -days 7   # a seventh of them: a week has all
//	go run ./internal/testing/fuzzall FuzzImage FuzzLog   # these
//
// An input that fails is kept in testdata/fuzz of the package, where go test executes it from then on.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// minimize is how often Go tries to make an input smaller that is of interest. By default it does so for up to a minute each, in
// which it executes hardly anything else.
const minimize = "10x"

func main() {
	var o options
	flag.DurationVar(&o.time, "time", 10*time.Minute, "how long each target runs")
	flag.IntVar(&o.jobs, "jobs", 2, "how many targets run at once, each with one worker")
	flag.BoolVar(&o.foreign, "foreign", false, "only the targets that read bytes of others")
	flag.IntVar(&o.days, "days", 1, "in how many days, from one run a day, all targets have had their turn")
	flag.Parse()
	o.names = flag.Args()
	if err := run(os.Stdout, o); err != nil {
		fmt.Fprintln(os.Stderr, "fuzzall:", err)
		os.Exit(1)
	}
}

// options are the flags and arguments.
type options struct {
	time    time.Duration
	jobs    int
	days    int // 0 is 1
	foreign bool
	names   []string // of targets; nil for all
}

// run fuzzes the targets that the options choose, and returns an error if one of them fails.
func run(out io.Writer, o options) error {
	chosen := turnOf(choose(o), numberOfToday(), o.days)
	if len(chosen) == 0 {
		return fmt.Errorf("no target is called %s", strings.Join(o.names, " "))
	}
	dir, err := os.MkdirTemp("", "pawl-fuzzall-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	cache, err := cacheFolder()
	if err != nil {
		return err
	}
	f := fuzzer{out: out, time: o.time, binaries: filepath.Join(dir, "bin"), scratch: dir, cache: cache, built: map[string]error{}}
	var group sync.WaitGroup
	slots := make(chan struct{}, max(o.jobs, 1))
	for _, t := range chosen {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			f.fuzz(t)
		})
	}
	group.Wait()
	if len(f.failed) > 0 {
		return fmt.Errorf("%d of %d targets failed: %s", len(f.failed), len(chosen), strings.Join(f.failed, ", "))
	}
	return nil
}

// numberOfToday returns the number of the day, in UTC, since 1970: the one that PAWL_DAY names, to repeat what failed on it.
func numberOfToday() int {
	if day, err := strconv.Atoi(os.Getenv("PAWL_DAY")); err == nil && day >= 0 {
		return day
	}
	return int(time.Now().Unix() / (24 * 60 * 60))
}

// choose returns the targets that the options name.
func choose(o options) []target {
	return slices.DeleteFunc(slices.Clone(targets), func(t target) bool {
		return o.foreign && !t.foreign || len(o.names) > 0 && !slices.Contains(o.names, t.name)
	})
}

// turnOf returns the targets that have their turn on a day, where so many days have all. Neighbours share a test program, so they
// have it together.
func turnOf(all []target, day, days int) []target {
	days = max(days, 1)
	turn := day % days
	return all[len(all)*turn/days : len(all)*(turn+1)/days]
}

// cacheFolder returns the folder in which Go keeps the inputs that were of interest.
func cacheFolder() (string, error) {
	path, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		return "", fmt.Errorf("ask for the cache: %w", err)
	}
	return filepath.Join(strings.TrimSpace(string(path)), "fuzz", "pawl"), nil
}

// A fuzzer runs targets. mu guards what stands below it.
type fuzzer struct {
	out                      io.Writer
	time                     time.Duration
	binaries, scratch, cache string
	building                 sync.Mutex
	built                    map[string]error // packages whose test program was built, or why it was not; building guards it

	mu     sync.Mutex
	failed []string
}

// fuzz runs one target, and prints what came of it.
func (f *fuzzer) fuzz(t target) {
	text, r, err := f.execute(t)
	if err == nil {
		err = t.judge(r, f.time)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	fmt.Fprintf(f.out, "%-20s %-18s %9d executions, %6.0f/s of %.1fs of processor time, %d new inputs\n", t.pkg, t.name, r.executions, r.rate(), r.processor.Seconds(), r.found)
	if err != nil {
		f.failed = append(f.failed, t.pkg+" "+t.name)
		fmt.Fprintf(f.out, "%s%s %s: %v\n", text, t.pkg, t.name, err)
	}
}

// A result is what a target did.
type result struct {
	executions, found int
	processor         time.Duration
}

// rate returns how many executions a second of processor time there were. Wall time would say more about what else the machine does.
func (r result) rate() float64 { return float64(r.executions) / max(r.processor.Seconds(), 0.001) }

// shortest is how long a target runs at least to be judged: in less, it may not come to more than reading the inputs that are kept.
const shortest = time.Minute

// judge says whether a target that found nothing did enough. A target that had the processor for less than half of its time is not judged:
// the machine has other work, which also takes the caches.
func (t target) judge(r result, wall time.Duration) error {
	switch {
	case wall < shortest || r.processor < wall/2:
		return nil
	case r.executions == 0:
		return errors.New("it executed nothing")
	case t.slow == "" && r.rate() < least:
		return fmt.Errorf("it made %.0f executions a second, fewer than %d: let it do less for each input, or give a reason in internal/testing/fuzzall/targets.go", r.rate(), least)
	}
	return nil
}

// execute runs a target in the folder of its package, and returns its output as well.
func (f *fuzzer) execute(t target) (text []byte, r result, err error) {
	binary, err := f.build(t.pkg)
	if err != nil {
		return nil, r, err
	}
	cmd := exec.Command(binary, "-test.run=^$", "-test.fuzz=^"+t.name+"$", "-test.fuzztime="+f.time.String(), "-test.fuzzminimizetime="+minimize,
		"-test.parallel=1", "-test.fuzzcachedir="+filepath.Join(f.cache, t.pkg))
	cmd.Dir, cmd.Env = t.pkg, append(os.Environ(), "TMPDIR="+f.scratch) // a worker that is stopped leaves its folders behind
	text, err = cmd.CombinedOutput()
	if isLate(text) {
		err = nil
	}
	r = readResult(text)
	if s := cmd.ProcessState; s != nil {
		r.processor = s.UserTime() + s.SystemTime() // with its worker's
	}
	return text, r, err
}

// isLate reports whether a target failed because its worker had not stopped when its time was over, as it happens on a busy machine: Go
// fails then with the end of its own context, and without an input.
func isLate(text []byte) bool {
	return bytes.Contains(text, []byte("\n    context deadline exceeded\n")) && !bytes.Contains(text, []byte("Failing input"))
}

// lastLine is what Go says every three seconds, and at the end.
var lastLine = regexp.MustCompile(`execs: (\d+) .*new interesting: (\d+)`)

// readResult reads the output of a target.
func readResult(text []byte) (r result) {
	all := lastLine.FindAllSubmatch(text, -1)
	if len(all) == 0 {
		return r
	}
	last := all[len(all)-1]
	r.executions, _ = strconv.Atoi(string(last[1])) // they are digits
	r.found, _ = strconv.Atoi(string(last[2]))
	return r
}

// build builds the test program of a package for all its targets, once.
func (f *fuzzer) build(pkg string) (binary string, err error) {
	f.building.Lock()
	defer f.building.Unlock()
	binary = filepath.Join(f.binaries, strings.ReplaceAll(strings.TrimPrefix(pkg, "./"), "/", "-")+".test")
	if err, done := f.built[pkg]; done {
		return binary, err
	}
	var stderr bytes.Buffer
	cmd := exec.Command("go", "test", "-c", "-vet=off", "-fuzz=.", "-o", binary, pkg)
	cmd.Stderr = &stderr
	if err = cmd.Run(); err != nil {
		err = fmt.Errorf("build: %w\n%s", err, &stderr)
	}
	f.built[pkg] = err
	return binary, err
}
