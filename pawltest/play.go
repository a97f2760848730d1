package pawltest

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Options say how scenarios are played. The zero value plays each once.
type Options struct {
	// Crash plays each scenario once more for every commit that it makes, and
	// lets the process crash right after that commit. The outcome must still be the
	// expected one. Tasks are taken to run in other processes: they end when
	// they would have ended without the crash.
	Crash bool
	// Shuffle, if not nil, permutes the results that come at one instant, with
	// this seed.
	Shuffle *int64
	// Run, if not nil, chooses scenarios by their names.
	Run *regexp.Regexp

	// Limit is how long the plays of one scenario may take together, by a real
	// clock; 0 or less is [DefaultLimit]. A scenario that takes longer has an
	// error in its Report, and the scenarios after it are played.
	Limit time.Duration

	inspect func(folder string) error // of our own tests: looks at the directories that a play leaves
}

// DefaultLimit is how long the plays of one scenario may take unless [Options] say
// otherwise.
const DefaultLimit = 10 * time.Minute

// A Report is the result of playing one scenario.
type Report struct {
	Name     string    `json:"name"`
	File     string    `json:"file"`
	Line     int       `json:"line"`
	Passed   bool      `json:"passed"`
	Plays    int       `json:"plays"`              // how often it was played
	Crash    int       `json:"crash,omitempty"`    // after how many commits the failed play crashed; 0: it did not
	Error    string    `json:"error,omitempty"`    // why it could not be played to the end
	Failures []Failure `json:"failures,omitempty"` // what did not come out as expected
	Trace    []string  `json:"trace,omitempty"`    // the messages and decisions of a failed play

	lives int // of the engine, over all plays
}

// lastDecisions is how many decisions of a failed play its text shows.
const lastDecisions = 40

// String returns what failed and the last decisions that led there, 40 at most; ""
// if nothing did.
func (r Report) String() string { return r.describe(lastDecisions) }

// Verbose is String with all decisions.
func (r Report) Verbose() string { return r.describe(len(r.Trace)) }

func (r Report) describe(decisions int) string {
	if r.Passed {
		return ""
	}
	var b strings.Builder
	if r.Crash > 0 {
		fmt.Fprintf(&b, "with a crash after commit %d:\n", r.Crash)
	}
	if r.Error != "" {
		fmt.Fprintf(&b, "%s\n", r.Error)
	}
	for _, f := range r.Failures {
		fmt.Fprintf(&b, "%s\n    expected: %s\n    got:      %s\n", f.What, f.Expected, f.Got)
	}
	lines, total := lastOfTrace(r.Trace, decisions)
	switch {
	case total > decisions:
		fmt.Fprintf(&b, "the last %d of %d decisions:\n", decisions, total)
	case len(lines) > 0:
		b.WriteString("decisions:\n")
	}
	for _, line := range lines {
		fmt.Fprintf(&b, "    %s\n", line)
	}
	return b.String()
}

// lastOfTrace returns the last n decisions of a trace, n above 0, with the messages that
// they are of, and how many decisions it has in all.
func lastOfTrace(trace []string, n int) (lines []string, total int) {
	isDecision := func(i int) bool { return strings.HasPrefix(trace[i], decisionIndent) }
	first, message := 0, -1
	for i := len(trace) - 1; i >= 0; i-- {
		switch {
		case !isDecision(i) && total > n && message < 0:
			message = i
		case isDecision(i):
			if total++; total == n {
				first = i
			}
		}
	}
	switch {
	case total <= n:
		return trace, total
	case !isDecision(first - 1):
		return trace[first-1:], total
	}
	return append([]string{trace[message]}, trace[first:]...), total
}

// Run plays the scenarios of a file or folder, each as a subtest. They are parallel:
// the test that calls Run ends when they have, Run itself returns before.
func Run(t *testing.T, path string) {
	t.Helper()
	RunWith(t, path, Options{})
}

// RunWith plays the scenarios of a file or folder, each as a subtest, as [Run] does. A
// failure shows the last decisions, or all of them with go test -v.
func RunWith(t *testing.T, path string, o Options) {
	t.Helper()
	scenarios, err := Load(path)
	if err != nil {
		t.Error(err) // the scenarios of the other files are played
	}
	for _, s := range scenarios {
		if o.Run != nil && !o.Run.MatchString(s.Name) {
			continue
		}
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			if r := Play(t, s, o); !r.Passed {
				text := r.String()
				if testing.Verbose() {
					text = r.Verbose()
				}
				t.Errorf("%s:%d: %s\n%v", s.File, s.Line, s.Name, text)
			}
		})
	}
}

// Play plays a scenario and reports what came of it. It does not fail the test.
func Play(t *testing.T, s *Scenario, o Options) Report {
	t.Helper()
	r := Report{Name: s.Name, File: s.File, Line: s.Line, Passed: true}
	p := playing{shuffle: o.Shuffle, inspect: o.inspect, limit: o.Limit, late: new(atomic.Bool)}
	if p.limit <= 0 {
		p.limit = DefaultLimit
	}
	defer time.AfterFunc(p.limit, func() { p.late.Store(true) }).Stop() // outside of the bubbles, where time is real
	commits := r.playOnce(t, s, p)
	for p.crashAt = 1; o.Crash && r.Passed && p.crashAt <= commits; p.crashAt++ {
		r.playOnce(t, s, p)
	}
	return r
}

// playOnce plays a scenario once in a bubble of its own, and returns how many
// commits its runs have made.
func (r *Report) playOnce(t *testing.T, s *Scenario, p playing) (commits int) {
	t.Helper()
	folder, err := os.MkdirTemp("", "pawl-scenario-")
	if err == nil {
		synctest.Test(t, func(*testing.T) { commits, err = r.playInBubble(s, p, folder) })
		if err == nil && p.inspect != nil {
			err = p.inspect(folder)
		}
		err = errors.Join(err, os.RemoveAll(folder))
	}
	r.Plays++
	if err != nil {
		r.Error = err.Error()
	}
	r.Passed = err == nil && len(r.Failures) == 0
	if r.Passed {
		r.Trace = nil
	} else {
		r.Crash = p.crashAt
	}
	return commits
}

// playInBubble plays a scenario within a bubble.
func (r *Report) playInBubble(s *Scenario, p playing, folder string) (commits int, err error) {
	d := newDriver(s, p, folder)
	end, err := d.beginLives()
	if err != nil {
		return 0, err
	}
	defer func() {
		r.lives += d.life
		err = errors.Join(err, end())
	}()
	err = d.playToEnd()
	h, lookErr := d.readHistory()
	if lookErr != nil {
		return d.commits, errors.Join(err, lookErr)
	}
	r.Trace = h.traceLines(d.began)
	if err == nil {
		r.Failures, err = d.checkExpectations(h)
	}
	return d.commits, err
}
