package witness

import (
	"fmt"
	"reflect"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

// Check holds what a host remembers against what it finds after a life, and
// against what was there before it. It returns what is wrong.
func Check(was, now Snapshot, lines []Entry, life int) []string {
	c := &checker{was: was, now: now, last: life, keys: map[string]pawl.Key{}, begun: map[begin]bool{}, ended: map[pawl.Key]bool{}}
	for _, e := range lines {
		c.checkEntry(e)
	}
	c.checkGrowth()
	c.checkAnswers()
	return c.wrong
}

type checker struct {
	was, now Snapshot
	last     int // number of the life that was the last
	keys     map[string]pawl.Key
	begun    map[begin]bool
	ended    map[pawl.Key]bool
	wrong    []string
}

type begin struct {
	life int
	key  pawl.Key
}

func (c *checker) addViolation(format string, args ...any) {
	c.wrong = append(c.wrong, fmt.Sprintf(format, args...))
}

// checkEntry checks one line of the ledger: what was acknowledged is there.
func (c *checker) checkEntry(e Entry) {
	switch e.What {
	case Closed: // a task whose error came while the engine closed is sent again by the next one
		clear(c.begun)
		return
	case Copying, Copied:
		return
	case Started, Begins, Ends, Answered, Cancelled, Ended: // what they are about must be there
	}
	f := c.now[e.Run]
	if f == nil {
		c.addViolation("%s %s: the run is lost", e.What, e.Run)
		return
	}
	switch e.What {
	case Started, Closed, Copying, Copied: // that the run is there is all
	case Begins:
		c.checkExecution(f, e)
	case Ends:
		c.ended[e.Key] = true
	case Answered:
		if f.Results[e.Key] == 0 {
			c.addViolation("the result of %s was acknowledged and is lost", e.Key)
		}
	case Cancelled:
		if f.Head.Status != workflow.RunCancelled {
			c.addViolation("the cancel of %s was acknowledged; it is %v", e.Run, f.Head.Status)
		}
	case Ended:
		if text := OutcomeText(f.Head.Outcome()); text != e.Outcome {
			c.addViolation("%s ended as %s; it is now %s", e.Run, e.Outcome, text)
		}
	}
}

// checkExecution checks one execution: its dispatch was committed, its key is the same
// as in other lives, it did not run twice in one engine of a life, and nobody knew that it
// was over.
func (c *checker) checkExecution(f *Found, e Entry) {
	if f.Out[e.Key] == 0 {
		c.addViolation("%s was executed; its dispatch is not committed", e.Key)
	}
	attempt := fmt.Sprintf("%s %d", e.Effect, e.Attempt)
	if k := c.keys[attempt]; k != "" && k != e.Key {
		c.addViolation("%s was executed as %s and as %s", attempt, k, e.Key)
	}
	c.keys[attempt] = e.Key
	at := begin{e.Life, e.Key}
	if c.begun[at] {
		c.addViolation("%s was executed twice in life %d", e.Key, e.Life)
	}
	c.begun[at] = true
	before := c.was[e.Run]
	if e.Life == c.last && before != nil && before.Out[e.Key] != 0 && !before.Pending[e.Key] {
		c.addViolation("%s was executed in life %d, but was over before", e.Key, e.Life)
	}
}

// checkGrowth checks that the journals have only grown.
func (c *checker) checkGrowth() {
	for id, before := range c.was {
		now := c.now[id]
		if now == nil || len(now.Records) < len(before.Records) {
			c.addViolation("%s had %d records and lost some", id, len(before.Records))
			continue
		}
		for i, r := range before.Records {
			if !reflect.DeepEqual(r, now.Records[i]) {
				c.addViolation("%s: record %d was %v and is %v", id, r.Seq, r, now.Records[i])
			}
		}
	}
}

// checkAnswers checks that nobody has answered but the executor.
func (c *checker) checkAnswers() {
	for _, f := range c.now {
		for key, seq := range f.Results {
			if !c.ended[key] {
				c.addViolation("record %d is a result of %s, which was not executed to its end", seq, key)
			}
		}
	}
}

// Repeated returns how many executions repeat one of an earlier life.
func Repeated(lines []Entry) (n int) {
	seen := map[pawl.Key]bool{}
	for _, e := range lines {
		if e.What != Begins {
			continue
		}
		if seen[e.Key] {
			n++
		}
		seen[e.Key] = true
	}
	return n
}
