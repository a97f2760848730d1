package simulator

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/acts"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// index compares the row of a run with its journal.
func (m *model) index(r pawl.RunSummary) error {
	o := decision.Outcome(m.state)
	switch {
	case r.Seq != int64(len(m.records)):
		return fmt.Errorf("the index ends with record %d, the journal with %d", r.Seq, len(m.records))
	case !r.Alarm.Equal(m.state.Alarm()):
		return fmt.Errorf("the index has the alarm %v, the journal %v", r.Alarm, m.state.Alarm())
	case outcomeText(r.Outcome) != outcomeText(o):
		return fmt.Errorf("the index says %s, the journal %s", outcomeText(r.Outcome), outcomeText(o))
	}
	return nil
}

func outcomeText(o workflow.Outcome) string {
	return fmt.Sprintf("%v %v %+v %v %v", o.Status, o.Output, o.Failure, o.StartedAt.UnixMilli(), o.EndedAt.UnixMilli())
}

// lists compares the approvals and the dead letters of all runs.
func (w *world) lists() error {
	want, got := map[string]bool{}, map[string]bool{}
	for _, m := range w.models {
		for _, t := range m.tokens(in(workflow.WaitingForApproval)) {
			yes := 0
			for _, v := range t.Votes {
				if v.Approved {
					yes++
				}
			}
			want[fmt.Sprint("approval ", m.id, " ", t.ID, " ", t.Node, " ", yes, len(t.Votes)-yes, t.Due.UnixMilli())] = true
		}
		for _, t := range m.tokens(in(workflow.WaitingForOperator)) {
			want[fmt.Sprint("dead letter ", m.id, " ", t.ID, " ", t.Node, " ", max(t.Attempts(), 1), t.Failure)] = true
		}
	}
	for a, err := range w.engine.Approvals(w.ctx, pawl.ApprovalFilter{}) {
		if err != nil {
			return fmt.Errorf("approvals: %w", err)
		}
		got[fmt.Sprint("approval ", a.Run, " ", a.Token, " ", a.Node, " ", a.Approved, a.Rejected, a.Due.UnixMilli())] = true
	}
	for l, err := range w.engine.DeadLetters(w.ctx, pawl.DeadLetterFilter{}) {
		if err != nil {
			return fmt.Errorf("dead letters: %w", err)
		}
		got[fmt.Sprint("dead letter ", l.Run, " ", l.Token, " ", l.Node, " ", l.Attempts, &l.Failure)] = true
	}
	if !maps.Equal(want, got) {
		return fmt.Errorf("the lists of all runs have\n%s\nthe runs\n%s", keys(got), keys(want))
	}
	return nil
}

func keys(m map[string]bool) string { return strings.Join(slices.Sorted(maps.Keys(m)), "\n") }

// deep compares all that is stored of every run with its model: journal, events,
// tokens, groups and data.
func (w *world) deep() error {
	w.tally.Deep++
	for _, id := range slices.Sorted(maps.Keys(w.models)) {
		if err := w.compare(w.models[id]); err != nil {
			return fmt.Errorf("run %s, stored: %w", id, err)
		}
	}
	return nil
}

func (w *world) compare(m *model) error {
	var records, events []uint64
	for r, err := range acts.Records(w.engine.Journal(w.ctx, m.id, pawl.EventsOptions{})) {
		if err != nil {
			return fmt.Errorf("journal: %w", err)
		}
		records = append(records, recordDigest(r))
	}
	if !slices.Equal(records, m.records) {
		return fmt.Errorf("the journal has changed: %d records, %d were there", len(records), len(m.records))
	}
	for e, err := range w.engine.Events(w.ctx, m.id, pawl.EventsOptions{}) {
		if err != nil {
			return fmt.Errorf("events: %w", err)
		}
		delete(e.Data, "key") // the engine adds it, the journal has none
		events = append(events, eventDigest(e))
	}
	if !slices.Equal(events, m.events) {
		return fmt.Errorf("%d events are stored, the journal tells %d, or others", len(events), len(m.events))
	}
	snap, err := w.engine.Inspect(w.ctx, m.id)
	if err != nil {
		return fmt.Errorf("inspect: %w", err)
	}
	if got, want := snapshotText(snap), stateText(m.state); got != want {
		return fmt.Errorf("the state is\n%s\nthe journal says\n%s", got, want)
	}
	return nil
}

func eventDigest(e decision.Event) uint64 { return digest(fmt.Sprintf("%+v", e)) }

func snapshotText(s pawl.Snapshot) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v\n", s.Status)
	for i := range s.Tokens {
		shown := s.Tokens[i]
		shown.Key = nameOf(shown.Key)
		shown.Executing, shown.Since, shown.Worker, shown.Queued = false, time.Time{}, "", nil // which no journal has
		b.WriteString(tokenText(shown))
	}
	for i := range s.Groups {
		fmt.Fprintf(&b, "%+v\n", s.Groups[i])
	}
	fmt.Fprintf(&b, "%v\n", s.State)
	return b.String()
}

// stateText is what snapshotText says of a state.
func stateText(s *state.State) string {
	var b strings.Builder
	rows := s.AllRows()
	fmt.Fprintf(&b, "%v\n", s.Status)
	for _, t := range rows.Tokens {
		b.WriteString(tokenText(tokenView(s, t)))
	}
	for _, g := range rows.Groups {
		fmt.Fprintf(&b, "%+v\n", groupView(g))
	}
	fmt.Fprintf(&b, "%v\n", s.Section(state.SectionState))
	return b.String()
}

func tokenText(t pawl.Token) string {
	f := t.Failure
	t.Failure = nil // a pointer
	return fmt.Sprintf("%+v %v\n", t, f)
}

// tokenView is what a snapshot shows of a token. All that is stored of it is
// compared when the engine is closed: rescue.Verify replays the journal.
func tokenView(s *state.State, t *state.Token) pawl.Token {
	v := pawl.Token{ID: t.ID, Node: t.Node, Status: t.Status, Parent: t.Parent, Scope: t.Scope, Path: s.PathOf(t.Scope), Attempt: t.Attempt, Snoozes: t.Remembered().Snoozes, Chosen: t.Remembered().Chosen, Details: t.Remembered().Details, Failure: t.Failure}
	if t.Status == workflow.WaitingForSiblings {
		v.JoinAt = s.NodeOf(t)
	}
	if t.Epoch != 0 {
		v.Key = keyOf(s.Run, t.ID, t.Attempt, t.Epoch)
	}
	if t.Live() {
		v.Due = t.Alarm()
	}
	return v
}

func groupView(g *state.Group) pawl.Group {
	return pawl.Group{
		ID: g.ID, Name: g.Name, Origin: g.Origin, Node: g.Node, Scope: g.Scope, Phase: g.Phase,
		Total: g.Total, Arrived: g.Arrived, Ended: g.Ended, Failed: g.Failed, Running: g.RunningBranches(), Live: g.Live, Due: g.Due,
	}
}
