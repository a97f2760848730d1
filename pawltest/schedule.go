package pawltest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/document"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/schedule"
	"github.com/pawl-run/pawl/timeout"
	"github.com/pawl-run/pawl/workflow"
)

// A scheduling is what starts the runs of a scenario in the place of the scenario itself.
type scheduling struct {
	From instant           `yaml:"from"` // when the scenario begins
	For  time.Duration     `yaml:"for"`  // so long after that, nothing fires any more
	List *document.Element `yaml:"schedules"`
	File string            `yaml:"file"` // or a file of schedules: those of it whose workflows the scenario has

	set []schedule.Schedule
}

// An instant is a point in time, in RFC 3339.
type instant struct{ time.Time }

func (t *instant) readElement(e *document.Element) (err error) {
	if t.Time, err = time.Parse(time.RFC3339, e.Text); e.Kind != document.String || err != nil {
		return errorAt(e, "not an instant such as 2026-03-29T03:30:00+02:00")
	}
	return nil
}

// A scheduleEvent is something that an operator does to a schedule.
type scheduleEvent struct {
	ID   string  `yaml:"id"`
	Do   string  `yaml:"do"`
	From instant `yaml:"from"` // of a backfill, as the next two
	To   instant `yaml:"to"`
	Most int     `yaml:"most"` // 1 by default
}

// scheduleActs are what can be done to a schedule.
var scheduleActs = []string{"pause", "resume", "trigger", "backfill", "delete"}

// A scheduleStanding is what must come of a schedule.
type scheduleStanding struct {
	Runs    *[]firedRun    `yaml:"runs"`    // all of them, by their instants
	Skipped map[string]int `yaml:"skipped"` // instants, by the reason
	Paused  *bool          `yaml:"paused"`
}

// A firedRun is a run that a schedule starts.
type firedRun struct {
	At     instant `yaml:"at"`
	Status string  `yaml:"status"` // completed by default
}

func (r *firedRun) readElement(e *document.Element) error {
	if e.Kind != document.Object {
		return r.At.readElement(e)
	}
	type plain firedRun // without this method
	if err := decodeElement(e, (*plain)(r)); err != nil {
		return err
	}
	if r.At.IsZero() {
		return errorAt(e, "a run of a schedule needs at, its instant")
	}
	if r.Status != "" && !slices.Contains(statuses, r.Status) {
		return errorAt(e, "status: %q is none of %s", r.Status, strings.Join(statuses, ", "))
	}
	return nil
}

// readSchedules reads the schedules of a scenario, whose definitions are known, and checks what refers to them.
func (s *Scenario) readSchedules(root, folder string, e *document.Element) error {
	d := &s.document
	if d.Schedule == nil {
		for i := range d.Events {
			if d.Events[i].Schedule != nil {
				return errorAt(d.Events[i].elementAt(), "events: schedule: the scenario has no schedule")
			}
		}
		if d.Expect.Schedules != nil {
			return errorAt(e.Member("expect").Member("schedules"), "expect: schedules: the scenario has no schedule")
		}
		return nil
	}
	at := e.Member("schedule")
	set, err := d.Schedule.read(root, folder, at, s.workflowNames())
	if err != nil {
		return inField("schedule", err)
	}
	end := d.Schedule.From.Add(d.Schedule.For)
	ids := map[string]bool{}
	for i := range set {
		ids[set[i].ID] = true
		if set[i].End.IsZero() || set[i].End.After(end) {
			set[i].End = end.UTC().Truncate(time.Second)
		}
	}
	d.Schedule.set = set
	return cmp.Or(checkScheduledEvents(d, ids), checkScheduledFields(e, ids))
}

// workflowNames returns the names of the definitions of a scenario, as far as they can be read.
func (s *Scenario) workflowNames() map[string]bool {
	out := map[string]bool{}
	for _, src := range append(slices.Clone(s.definitions), s.definition) {
		if src.definition != nil {
			out[src.definition.Name] = true
		}
	}
	return out
}

// read returns the schedules, in their order.
func (c *scheduling) read(root, folder string, at *document.Element, workflows map[string]bool) ([]schedule.Schedule, error) {
	began := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) // where virtual time begins
	switch {
	case (c.List == nil) == (c.File == ""):
		return nil, errorAt(at, "it has either schedules or a file")
	case c.From.IsZero() || c.For < time.Second:
		return nil, errorAt(at, "it needs from, an instant, and for, one second at least")
	case c.From.Before(began) || c.From.Nanosecond() != 0 || c.For%time.Second != 0 || c.From.Add(c.For).After(timeout.Literal):
		return nil, errorAt(at, "from and for are full seconds from %s to %s", began.Format(time.RFC3339), timeout.Literal.Format(time.RFC3339))
	case c.List == nil:
		return c.readFile(root, folder, at, workflows)
	}
	v, err := jsonOf(c.List)
	if err != nil {
		return nil, inField("schedules", err)
	}
	text := value.Encode(map[string]any{"schedules": v})
	set, err := parseSchedules(text)
	if wrong := (*schedule.Error)(nil); errors.As(err, &wrong) {
		p := wrong.Problems[0]
		return nil, errorAt(findElement(c.List, strings.TrimPrefix(p.Field, "schedules")), "%s", describeProblem(p))
	}
	for i := range set {
		if !workflows[set[i].Workflow.Name] {
			return nil, errorAt(findElement(c.List, fmt.Sprintf("[%d].workflow.name", i)), "schedules: the scenario defines no workflow %q", set[i].Workflow.Name)
		}
	}
	return set, err
}

// readFile returns those schedules of a file whose workflows a scenario has.
func (c *scheduling) readFile(root, folder string, at *document.Element, workflows map[string]bool) ([]schedule.Schedule, error) {
	data, err := readBelow(root, filepath.Join(folder, filepath.FromSlash(c.File)))
	if err != nil {
		return nil, errorAt(at.Member("file"), "file: %s: %s", c.File, fileReason(err))
	}
	set, err := parseSchedules(data)
	if wrong := (*schedule.Error)(nil); errors.As(err, &wrong) {
		p := wrong.Problems[0]
		return nil, errorAt(at.Member("file"), "file: %s:%d:%d: %s", c.File, p.Line, p.Column, describeProblem(p))
	}
	set = slices.DeleteFunc(set, func(s schedule.Schedule) bool { return !workflows[s.Workflow.Name] })
	if err == nil && len(set) == 0 {
		return nil, errorAt(at.Member("file"), "file: %s: no schedule in it starts a workflow of the scenario", c.File)
	}
	return set, err
}

func describeProblem(p workflow.Problem) string {
	if p.Field == "" {
		return p.Message
	}
	return p.Field + ": " + p.Message
}

// parseSchedules reads a text, and checks what it says. The error of a text that is wrong is a *schedule.Error.
func parseSchedules(text []byte) ([]schedule.Schedule, error) {
	set, err := schedule.Parse(text)
	if err != nil {
		return nil, err
	}
	wrong := &schedule.Error{}
	for _, p := range schedule.Check(set, time.Time{}) {
		if !p.Warning {
			wrong.Problems = append(wrong.Problems, p)
		}
	}
	if len(wrong.Problems) > 0 {
		return nil, wrong
	}
	return set, nil
}

// findElement returns the part of an element with a path such as [0].cron[1], or the last one on the way to it.
func findElement(e *document.Element, path string) *document.Element {
	for path != "" {
		path = strings.TrimPrefix(path, ".")
		var next *document.Element
		end := 1 + strings.IndexAny(path[1:]+".", ".[")
		if index, isIndex := strings.CutPrefix(path[:end], "["); isIndex {
			if i := parseNumber(strings.TrimSuffix(index, "]")); i >= 0 && i < int64(len(e.Items)) {
				next = e.Items[i]
			}
		} else {
			next = e.Member(path[:end])
		}
		if next == nil {
			return e
		}
		e, path = next, path[end:]
	}
	return e
}

// checkScheduledEvents checks that each event says which run or schedule it is about.
func checkScheduledEvents(d *scenarioFields, ids map[string]bool) error {
	for i := range d.Events {
		ev := &d.Events[i]
		switch s := ev.Schedule; {
		case s != nil && !ids[s.ID]:
			return errorAt(ev.elementAt(), "events: schedule: id: there is no schedule %q", s.ID)
		case s != nil && !slices.Contains(scheduleActs, s.Do):
			return errorAt(ev.elementAt(), "events: schedule: do: %q is none of %s", s.Do, strings.Join(scheduleActs, ", "))
		case s != nil && s.Do != "backfill" && (!s.From.IsZero() || !s.To.IsZero() || s.Most != 0):
			return errorAt(ev.elementAt(), "events: schedule: from, to and most go with backfill")
		case s != nil || ev.Crash:
		case ev.Fork != nil:
			return errorAt(ev.elementAt(), "events: fork: a scenario with a schedule makes no fork")
		default:
			if _, err := scheduledRun(ev.runName(), ids); err != nil {
				return errorAt(ev.elementAt(), "events: run: %s", err)
			}
		}
	}
	return nil
}

// checkScheduledFields checks that nothing is said or expected of the run that a scenario without schedules starts.
func checkScheduledFields(e *document.Element, ids map[string]bool) error {
	if in := e.Member("input"); in != nil {
		return errorAt(in, "input: each schedule has its own")
	}
	if in := e.Member("metaLimits"); in != nil {
		return errorAt(in, "metaLimits: the runs are those of schedules: their definitions limit them")
	}
	expect := e.Member("expect")
	for i := range expect.Members {
		m := &expect.Members[i]
		if slices.Contains([]string{"status", "output", "state", "error", "artifacts", "meta", "duration", "forks"}, m.Key) {
			return errorAtKey(m, "expect: %s: the runs are those of schedules: say what is expected in schedules", m.Key)
		}
	}
	if list := expect.Member("schedules"); list != nil {
		for i := range list.Members {
			if m := &list.Members[i]; !ids[m.Key] {
				return errorAtKey(m, "expect: schedules: there is no schedule %q", m.Key)
			}
		}
	}
	return nil
}

// scheduledRun returns the run with a name SCHEDULE@INSTANT, whose instant has any offset, or of one below it.
func scheduledRun(name string, ids map[string]bool) (workflow.RunID, error) {
	first, _, _ := strings.Cut(name, "/")
	id, at, _ := strings.Cut(first, "@")
	t, err := time.Parse(time.RFC3339, at)
	if err != nil || ids != nil && !ids[id] {
		return "", fmt.Errorf("%q is not SCHEDULE@INSTANT, such as nightly@2026-03-29T03:30:00+02:00", first)
	}
	return schedule.Firing{At: t}.RunID(id), nil
}

// actOnSchedule does what an event does to a schedule.
func actOnSchedule(ctx context.Context, engine *pawl.Engine, e *scheduleEvent) (err error) {
	of := engine.Schedules()
	switch e.Do {
	case "pause":
		return of.Pause(ctx, e.ID)
	case "resume":
		return of.Resume(ctx, e.ID)
	case "trigger":
		_, err = of.Trigger(ctx, e.ID)
	case "backfill":
		_, err = of.Backfill(ctx, e.ID, schedule.Backfill{From: e.From.UTC(), To: e.To.UTC(), Most: cmp.Or(e.Most, 1)})
	case "delete":
		return of.Delete(ctx, e.ID)
	default:
		panic(fmt.Sprintf("pawltest: %q a schedule", e.Do))
	}
	return err
}

// isScheduleActDone reports whether an act on a schedule, whose answer was lost, was committed.
func (d *driver) isScheduleActDone(a *action, e *scheduleEvent) bool {
	if e.Do == "delete" {
		_, err := d.engine.Schedules().Get(d.ctx, e.ID)
		return errors.Is(err, pawl.ErrScheduleNotFound)
	}
	events, err := d.engine.Schedules().Events(d.ctx, e.ID, time.Time{}, time.Time{})
	return err == nil && slices.ContainsFunc(events, func(ev schedule.Event) bool { return ev.Num > a.base && ev.Cause == "trigger" && e.Do == "trigger" })
}

// lastEventOf returns the number of the last event of a schedule.
func lastEventOf(ctx context.Context, engine *pawl.Engine, id string) int64 {
	st, err := engine.Schedules().Get(ctx, id)
	if err != nil || len(st.Events) == 0 {
		return 0
	}
	return st.Events[0].Num
}

// firesUntil returns the instant from which on no schedule fires; zero without schedules.
func (d *driver) firesUntil() time.Time {
	if s := d.scenario.document.Schedule; s != nil {
		return s.From.Add(s.For)
	}
	return time.Time{}
}

// checkSchedules compares what has come of schedules with what is expected.
func (d *driver) checkSchedules(c *checker) error {
	if s := d.scenario.document.Schedule; s == nil {
		return nil
	}
	if err := d.actions[0].err; err != nil {
		c.failures = append(c.failures, Failure{"schedule", "to be applied", err.Error()})
		return nil
	}
	for _, id := range slices.Sorted(maps.Keys(c.expect.Schedules)) {
		want, at := c.expect.Schedules[id], "schedules."+id
		c.checkFired(at, id, want.Runs, d.zoneOf(id))
		st, err := d.engine.Schedules().Get(d.ctx, id)
		if errors.Is(err, pawl.ErrScheduleNotFound) {
			if want.Paused != nil || want.Skipped != nil {
				c.addFailure(at, "a schedule", "it was deleted")
			}
			continue
		}
		if err != nil {
			return err
		}
		if want.Paused != nil && *want.Paused != (st.Paused != nil) {
			c.addFailure(at+".paused", fmt.Sprint(*want.Paused), "%t", st.Paused != nil)
		}
		if want.Skipped == nil {
			continue
		}
		events, err := d.engine.Schedules().Events(d.ctx, id, time.Time{}, time.Time{})
		if err != nil {
			return err
		}
		if got := countSkipped(events); !maps.Equal(want.Skipped, got) {
			c.addFailure(at+".skipped", fmt.Sprint(want.Skipped), "%v", got)
		}
	}
	return nil
}

// zoneOf returns the zone in which the instants of a schedule are told.
func (d *driver) zoneOf(id string) *time.Location {
	set := d.scenario.document.Schedule.set
	i := slices.IndexFunc(set, func(s schedule.Schedule) bool { return s.ID == id })
	zone, err := time.LoadLocation(set[i].Timezone)
	if err != nil {
		return time.UTC
	}
	return zone
}

// countSkipped returns how many instants were skipped, by the reason.
func countSkipped(events []schedule.Event) map[string]int {
	out := map[string]int{}
	for i := range events {
		if events[i].Skip != "" {
			out[events[i].Skip] += max(events[i].Count, 1)
		}
	}
	return out
}

// checkFired compares the runs that a schedule has started, by their instants.
func (c *checker) checkFired(at, id string, want *[]firedRun, zone *time.Location) {
	if want == nil {
		return
	}
	text := func(t time.Time, status string) string { return t.In(zone).Format(time.RFC3339Nano) + " " + status }
	expected, got := []string{}, []string{}
	for _, r := range *want {
		expected = append(expected, text(r.At.Time, cmp.Or(r.Status, "completed")))
	}
	for _, r := range c.runs {
		of, instant, found := strings.Cut(string(r.Run), "@")
		if t, err := time.Parse(time.RFC3339Nano, instant); found && of == id && err == nil {
			got = append(got, text(t, r.Status.String()))
		}
	}
	if !slices.Equal(expected, got) {
		c.addFailure(at+".runs", strings.Join(expected, ", "), "%s", strings.Join(got, ", "))
	}
}
