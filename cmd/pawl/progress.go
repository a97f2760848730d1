package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/columns"
	"github.com/pawl-run/pawl/workflow"
)

// progressEvery is how often the progress of a run is looked at, and how long a run goes on
// before anything is said; quietLooks is how many looks pass between two lines where they
// cannot be written anew.
const (
	progressEvery = time.Second
	quietLooks    = 10
)

// A progress tells on con.Errs how far a run has come. One goroutine uses it; blocked may be read
// when followRun has returned.
type progress struct {
	con     *console
	run     workflow.RunID
	inspect func(workflow.RunID) (pawl.Snapshot, error)
	blocked bool // the run waits for what only people can give

	looks int
	shown int // lines that are written anew
}

// followRun tells the progress with every tick until ctx ends, or the run is blocked.
func (p *progress) followRun(ctx context.Context, tick <-chan time.Time) {
	defer p.clear()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick:
		}
		s, err := p.inspect(p.run)
		if err != nil || s.Status.Final() {
			return // the wait tells
		}
		p.show(s)
		if p.blocked = p.isBlocked(s); p.blocked {
			return
		}
	}
}

// show tells how a run stands: in the same lines of a terminal, else now and then.
func (p *progress) show(s pawl.Snapshot) {
	p.looks++
	lines := progressLines(s)
	if !p.con.Live {
		if p.looks%quietLooks == 1 {
			fmt.Fprintln(p.con.Errs, strings.Join(lines, "\n"))
		}
		return
	}
	p.clear()
	for _, line := range lines { // a line that is broken could not be taken back
		if p.con.Room > 0 {
			line = columns.Cut(line, p.con.Room-1)
		}
		fmt.Fprintln(p.con.Errs, line)
	}
	p.shown = len(lines)
}

// clear takes back the lines that are shown.
func (p *progress) clear() {
	if p.shown > 0 {
		fmt.Fprintf(p.con.Errs, "\x1b[%dA\x1b[J", p.shown)
		p.shown = 0
	}
}

// isBlocked reports whether all that lives waits for people, signals or an operator, also in the
// child runs that it waits for, and time alone changes nothing. A token that is dispatched, or that
// waits for a timer or a retry, changes something by itself. An alarm of the run does so as well: a
// timeout, or an approval that expires.
func (p *progress) isBlocked(s pawl.Snapshot) bool {
	if !s.Alarm.IsZero() || s.Live == 0 {
		return false
	}
	for _, t := range s.Tokens {
		switch t.Status {
		case workflow.Completed, workflow.Failed, workflow.TimedOut, workflow.Cancelled:
		case workflow.WaitingForApproval, workflow.WaitingForEvent, workflow.WaitingForOperator, workflow.WaitingForSiblings, workflow.WaitingForJoin, workflow.WaitingForLock:
		case workflow.WaitingForChild:
			child, err := p.inspect(workflow.ChildID(s.Run, t.ID, t.Attempt))
			if err != nil || !p.isBlocked(child) {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// progressLines returns a line of the run, and one with a bar for each fan-out whose join
// has not fired; fan-outs of one node count together.
func progressLines(s pawl.Snapshot) []string {
	done, live := 0, map[workflow.NodeID]int{}
	var places []workflow.NodeID
	for _, t := range s.Tokens {
		if !t.Live() {
			done++
			continue
		}
		if live[t.Node] == 0 {
			places = append(places, t.Node)
		}
		live[t.Node]++
	}
	first := fmt.Sprintf("%s %v: %d done", s.Run, s.Status, done)
	for i, node := range places {
		if i == 4 {
			first += fmt.Sprintf(" and %d more nodes", len(places)-4)
			break
		}
		sep := ", at "
		if i > 0 {
			sep = ", "
		}
		first += fmt.Sprintf("%s%s (%d)", sep, node, live[node])
	}
	return append([]string{first}, fanOutLines(s.Groups)...)
}

// barWidth is how many columns a bar has.
const barWidth = 24

func fanOutLines(groups []pawl.Group) []string {
	type sum struct{ total, over, failed, running int }
	sums := map[string]*sum{}
	var names []string
	for _, g := range groups {
		if g.Phase != workflow.Gathering {
			continue
		}
		name := string(g.Node)
		if g.Name != "" {
			name += " " + g.Name
		}
		if sums[name] == nil {
			sums[name] = &sum{}
			names = append(names, name)
		}
		s := sums[name]
		s.total, s.over, s.failed, s.running = s.total+g.Total, s.over+g.Arrived+g.Ended+g.Failed, s.failed+g.Failed, s.running+g.Running
	}
	var lines []string
	for _, name := range names {
		s := sums[name]
		full := s.over * barWidth / max(s.total, 1)
		line := fmt.Sprintf("  %s %s%s %d of %d", name, strings.Repeat("█", full), strings.Repeat("░", barWidth-full), s.over, s.total)
		if s.running > 0 {
			line += fmt.Sprintf(" · %d running", s.running)
		}
		if s.failed > 0 {
			line += fmt.Sprintf(" · %d failed", s.failed)
		}
		lines = append(lines, line)
	}
	return lines
}
