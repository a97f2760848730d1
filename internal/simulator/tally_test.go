package simulator

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A tally counts what has happened, over one or many worlds.
type tally struct {
	seeds, steps, records, calls, crashes, lost, deep, children, rounds int

	accepted, refused map[string]int // acts by kind
	sites             map[string]int // crashes by place
	answers           map[string]int // of calls, by how
	outcomes          map[string]int // of runs, by status
	messages          map[string]int // records by type of message
	decisions         map[string]int // by type
}

func newTally() *tally {
	return &tally{
		accepted: map[string]int{}, refused: map[string]int{}, sites: map[string]int{},
		answers: map[string]int{}, outcomes: map[string]int{}, messages: map[string]int{}, decisions: map[string]int{},
	}
}

func (t *tally) told(a *act) {
	if a.err == nil {
		t.accepted[a.kind]++
	} else {
		t.refused[a.kind]++
	}
}

func (t *tally) add(o *tally) {
	t.seeds, t.steps, t.records, t.calls = t.seeds+o.seeds, t.steps+o.steps, t.records+o.records, t.calls+o.calls
	t.crashes, t.lost, t.deep = t.crashes+o.crashes, t.lost+o.lost, t.deep+o.deep
	t.children, t.rounds = t.children+o.children, t.rounds+o.rounds
	for _, pair := range [][2]map[string]int{
		{t.accepted, o.accepted}, {t.refused, o.refused}, {t.sites, o.sites}, {t.answers, o.answers},
		{t.outcomes, o.outcomes}, {t.messages, o.messages}, {t.decisions, o.decisions},
	} {
		for k, n := range pair[1] {
			pair[0][k] += n
		}
	}
}

// String returns the report.
func (t *tally) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d seeds, %d steps and %d rounds of liveness, %d records, %d tasks, %d child runs, %d crashes, %d calls without an answer, %d comparisons of all that is stored\n",
		t.seeds, t.steps, t.rounds, t.records, t.calls, t.children, t.crashes, t.lost, t.deep)
	b.WriteString("acts, accepted/refused:")
	for _, kind := range slices.Sorted(maps.Keys(drawers)) {
		fmt.Fprintf(&b, " %s %d/%d", kind, t.accepted[kind], t.refused[kind])
	}
	b.WriteString("\ncrashes:" + counts(t.sites) + "\nanswers of tasks:" + counts(t.answers) + "\nruns:" + counts(t.outcomes))
	b.WriteString("\nmessages:" + counts(t.messages) + "\ndecisions:" + counts(t.decisions))
	return b.String()
}

func counts(m map[string]int) (out string) {
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out += fmt.Sprintf(" %s %d", k, m[k])
	}
	return out
}
