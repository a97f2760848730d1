package simulator

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A tally counts what has happened, over one or many worlds.
type tally struct {
	Seeds, Steps, Records, Calls, Crashes, Lost, Deep, Children, Rounds, Clocks int
	Foretold, Unchanged                                                         int // records that a simulation had told, and acts that were answered as in one and changed nothing

	Accepted, Refused map[string]int // acts by kind
	Sites             map[string]int // crashes by place
	Answers           map[string]int // of calls, by how
	Outcomes          map[string]int // of runs, by status
	Messages          map[string]int // records by type of message
	Decisions         map[string]int // by type
}

func newTally() *tally {
	return &tally{
		Accepted: map[string]int{}, Refused: map[string]int{}, Sites: map[string]int{},
		Answers: map[string]int{}, Outcomes: map[string]int{}, Messages: map[string]int{}, Decisions: map[string]int{},
	}
}

func (t *tally) told(a *act) {
	if a.err == nil {
		t.Accepted[a.kind]++
	} else {
		t.Refused[a.kind]++
	}
}

func (t *tally) add(o *tally) {
	t.Seeds, t.Steps, t.Records, t.Calls = t.Seeds+o.Seeds, t.Steps+o.Steps, t.Records+o.Records, t.Calls+o.Calls
	t.Crashes, t.Lost, t.Deep = t.Crashes+o.Crashes, t.Lost+o.Lost, t.Deep+o.Deep
	t.Children, t.Rounds, t.Clocks = t.Children+o.Children, t.Rounds+o.Rounds, t.Clocks+o.Clocks
	t.Foretold, t.Unchanged = t.Foretold+o.Foretold, t.Unchanged+o.Unchanged
	for _, pair := range [][2]map[string]int{
		{t.Accepted, o.Accepted}, {t.Refused, o.Refused}, {t.Sites, o.Sites}, {t.Answers, o.Answers},
		{t.Outcomes, o.Outcomes}, {t.Messages, o.Messages}, {t.Decisions, o.Decisions},
	} {
		for k, n := range pair[1] {
			pair[0][k] += n
		}
	}
}

// String returns the report.
func (t *tally) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d seeds, %d steps and %d rounds of liveness, %d records, %d tasks, %d child runs, %d crashes, the clock set %d times, %d calls without an answer, %d comparisons of all that is stored, %d records and %d answers told by simulations\n",
		t.Seeds, t.Steps, t.Rounds, t.Records, t.Calls, t.Children, t.Crashes, t.Clocks, t.Lost, t.Deep, t.Foretold, t.Unchanged)
	b.WriteString("acts, accepted/refused:")
	for _, kind := range slices.Sorted(maps.Keys(drawers)) {
		fmt.Fprintf(&b, " %s %d/%d", kind, t.Accepted[kind], t.Refused[kind])
	}
	b.WriteString("\ncrashes:" + counts(t.Sites) + "\nanswers of tasks:" + counts(t.Answers) + "\nruns:" + counts(t.Outcomes))
	b.WriteString("\nmessages:" + counts(t.Messages) + "\ndecisions:" + counts(t.Decisions))
	return b.String()
}

func counts(m map[string]int) (out string) {
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out += fmt.Sprintf(" %s %d", k, m[k])
	}
	return out
}
