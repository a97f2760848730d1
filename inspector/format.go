package inspector

import (
	"fmt"
	"strconv"
	"time"

	"github.com/pawl-run/pawl/internal/diagram"
	"github.com/pawl-run/pawl/workflow"
)

// groupDigits returns n with a comma before each three digits.
func groupDigits(n any) string { return diagram.GroupDigits(n) }

// An instant is shown as how long ago it is, or how long until it comes.
//
// All three are "" of an instant that is not known. UTC is the title of the element, in which the browser keeps Near up to date by Machine.
type instant struct {
	Machine string // as HTML wants it; "" if it is not known
	UTC     string
	Near    string // 2 min ago, in 46 min
}

// instantOf counts from the instant at which the page was made, so that all of a page agrees.
func (p *page) instantOf(t time.Time) instant {
	if t.IsZero() {
		return instant{}
	}
	d := p.now.Sub(t)
	near := spanText(d.Abs()) + " ago"
	if d < 0 {
		near = "in " + spanText(-d)
	}
	if d.Abs() < time.Second {
		near = "now"
	}
	t = t.UTC()
	return instant{t.Format("2006-01-02T15:04:05.000Z"), t.Format("2006-01-02 15:04:05.000 UTC"), near}
}

// spanText returns a duration as people say it, in its two largest units.
//
// Small units are left out where they say little: 3.2 s, 45 s, 2 min 5 s, 46 min, 3 h 10 min, 5 days. It is never negative.
func spanText(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return "0 ms"
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < 10*time.Second:
		return strconv.FormatFloat(d.Round(100*time.Millisecond).Seconds(), 'f', -1, 64) + " s"
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour:
		return unitText(int(d.Minutes()), "min", int(d.Seconds())%60, "s", d < 10*time.Minute)
	case d < 48*time.Hour:
		return unitText(int(d.Hours()), "h", int(d.Minutes())%60, "min", true)
	}
	return fmt.Sprintf("%d days", int(d.Hours()/24))
}

// unitText leaves the smaller unit out if it is 0, and unless both is true.
func unitText(large int, unit string, small int, less string, both bool) string {
	if small == 0 || !both {
		return fmt.Sprintf("%d %s", large, unit)
	}
	return fmt.Sprintf("%d %s %d %s", large, unit, small, less)
}

// statusWord returns a status in the words of the page.
//
// s is the status of a run or of a token; templates call it too, which is why it takes anything. It returns the text of a status that
// it has no word for.
func statusWord(s any) string {
	switch s {
	case workflow.RunTimedOut, workflow.TimedOut:
		return "timed out"
	case workflow.WaitingForOperator:
		return "parked"
	case workflow.Dispatched:
		return "running"
	case workflow.WaitingForTimer:
		return "waits for time"
	case workflow.WaitingForChild:
		return "waits for its child"
	case workflow.WaitingForApproval:
		return "waits for people"
	case workflow.WaitingForEvent:
		return "waits for an event"
	case workflow.WaitingForSiblings:
		return "arrived"
	case workflow.WaitingForJoin:
		return "waits at a join"
	case workflow.WaitingForLock:
		return "waits for a lock"
	case workflow.WaitingForBudget:
		return "waits for its budget"
	}
	return fmt.Sprint(s)
}

// statusClass returns how a status looks: the standing of a run or a token.
//
// It is the class in the style sheet. Runs that are suspended look like tasks that are parked: both wait for an operator.
func statusClass(s any) string {
	switch s := s.(type) {
	// Statuses of runs and of tokens have words in common, so the type decides.
	case workflow.RunStatus:
		switch s {
		case workflow.RunCompleted:
			return "done"
		case workflow.RunFailed, workflow.RunTimedOut:
			return "failed"
		case workflow.RunCancelled:
			return "cancelled"
		case workflow.RunSuspended:
			return "parked"
		case workflow.RunPaused, workflow.RunCreated:
			return "waiting"
		case workflow.RunRunning:
			return "running"
		}
	case workflow.TokenStatus:
		return diagram.StandingOf(s).String()
	case standing:
		return s.String()
	}
	return "waiting"
}

// A standing is how a token stands, as package diagram draws it.
type standing = diagram.Standing

// The names of package diagram, as this package speaks of them on every page.
const (
	failed    = diagram.Failed
	parked    = diagram.Parked
	retrying  = diagram.Retrying
	running   = diagram.Running
	waiting   = diagram.Waiting
	done      = diagram.Done
	cancelled = diagram.Cancelled
	standings = diagram.Standings // how many there are
)

// A tally counts by standing.
//
// It is a type of its own for the methods that templates call.
type tally diagram.Tally

// tallyOf counts tokens that are known by status.
func tallyOf(tokens map[workflow.TokenStatus]int) tally { return tally(diagram.TallyOf(tokens)) }

// A count is one part of a tally.
type count struct {
	Standing standing
	N        int
	X, Width int // where its part of a bar of 1,000 is
}

// Counts returns the parts of a tally that are not empty, in the order of reading.
//
// Each part of the bar is at least 4 wide, so that one failure among a million branches is seen; the bar may then reach a little beyond
// 1,000.
func (t tally) Counts() (out []count) {
	total := t.Total()
	x := 0
	for _, s := range diagram.Reading {
		if t[s] == 0 {
			continue
		}
		c := count{Standing: s, N: t[s], X: x, Width: max(t[s]*1000/total, 4)}
		x += c.Width
		out = append(out, c)
	}
	return out
}

// Total returns what the parts come to.
func (t tally) Total() (n int) {
	for _, k := range t {
		n += k
	}
	return n
}

// parseMachine reads what instantOf has written for machines.
func parseMachine(text string) (time.Time, error) {
	return time.Parse("2006-01-02T15:04:05.000Z", text)
}
