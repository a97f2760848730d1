package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/internal/scheduling"
	"github.com/pawl-run/pawl/schedule"
	"github.com/pawl-run/pawl/workflow"
)

// errOfSchedule says that an act was on a schedule: no journal of a run tells of it.
var errOfSchedule = errors.New("an act on schedules")

// markUnknown gives an error of an unknown outcome the hint of what it is of, which is no run.
func markUnknown(err, of error) error {
	if errors.Is(err, pawl.ErrUnknown) {
		return &toldError{errorText(err), errors.Join(err, of)}
	}
	return err
}

// A scheduleApplyCommand makes the schedules of an engine what files say.
type scheduleApplyCommand struct {
	Files []string `arg:"" name:"file" help:"Files of schedules, in YAML or JSON: together they are one set."`
	Prune bool     `help:"Delete the schedules of the engine that no file has."`
	bulkFlag
	actFlag
}

// runCommand applies the files in one commit. It asks before schedules are deleted.
func (c *scheduleApplyCommand) runCommand(ctx context.Context, con *console) error {
	set, err := readSet(con, c.Files)
	if err != nil {
		return err
	}
	return c.withActor(ctx, con, func(e *reached) error {
		if err := con.warnOfMissing(ctx, e, set); err != nil {
			return err
		}
		apply := func(o pawl.ApplyOptions) (api.ScheduleChanges, error) {
			return e.ApplySchedules(ctx, api.ScheduleSet{By: c.By, Reason: c.Reason, Schedules: set}, o)
		}
		if c.Prune && !c.DryRun && !c.Yes {
			tried, err := apply(pawl.ApplyOptions{Prune: true, DryRun: true})
			if err != nil {
				return err
			}
			if n := countKinds(tried.Changes)["deleted"]; n > 0 {
				if err := c.confirm(ctx, con, "delete "+pluralText(n, "schedule")); err != nil {
					return err
				}
			}
		}
		done, err := apply(pawl.ApplyOptions{Prune: c.Prune, DryRun: c.DryRun})
		if err != nil {
			return markUnknown(err, errOfSchedule)
		}
		if c.JSON {
			con.writeLine(true, done)
			return nil
		}
		con.printScheduleChanges(done)
		con.printSource(c.sourceText(e))
		return nil
	})
}

// warnOfMissing says on the side which definitions of schedules are not published yet: their firings would be refused.
func (con *console) warnOfMissing(ctx context.Context, e *reached, set []schedule.Schedule) error {
	published := map[string][]pawl.PublishedDefinition{}
	for i := range set {
		name, version := set[i].Workflow.Name, set[i].Workflow.Version
		if _, known := published[name]; !known {
			all, err := e.Definitions(ctx, pawl.DefinitionFilter{Workflow: name})
			if err != nil {
				return err
			}
			published[name] = all
		}
		if !slices.ContainsFunc(published[name], func(d pawl.PublishedDefinition) bool { return version == 0 || d.Version == version }) {
			fmt.Fprintf(con.Errs, "warning: schedule %q: %s is not published: pawl publish FILE publishes it\n", set[i].ID, printableText(definitionText(set[i].Workflow)))
		}
	}
	return nil
}

// readSet reads files of schedules as one set. Warnings are told, and any other problem is the error.
func readSet(con *console, paths []string) (set []schedule.Schedule, err error) {
	from := map[string]string{}
	for _, path := range paths {
		part, problems, err := con.checkSchedules(path)
		if err != nil {
			return nil, err
		}
		if wrong := slices.DeleteFunc(slices.Clone(problems), func(p workflow.Problem) bool { return p.Warning }); len(wrong) > 0 {
			return nil, fmt.Errorf("%s: %w", path, &schedule.Error{Problems: wrong})
		}
		for _, p := range problems {
			fmt.Fprintln(con.Errs, printableText(problemText(path, p)))
		}
		for i := range part {
			if other, ok := from[part[i].ID]; ok {
				return nil, fmt.Errorf("%s: schedule %q is in %s too", path, part[i].ID, other)
			}
			from[part[i].ID] = path
		}
		set = append(set, part...)
	}
	return set, nil
}

func countKinds(changes []schedule.Change) map[string]int {
	out := map[string]int{}
	for _, ch := range changes {
		out[ch.Kind]++
	}
	return out
}

// printScheduleChanges writes what changes, or would, and the numbers of it.
func (con *console) printScheduleChanges(done api.ScheduleChanges) {
	const same = "unchanged"
	var rows [][]string
	for _, ch := range done.Changes {
		if ch.Kind != same {
			rows = append(rows, []string{ch.Kind, ch.ID, strings.Join(ch.Fields, ", ")})
		}
	}
	if len(rows) > 0 {
		con.printTable(rows)
	}
	counts := countKinds(done.Changes)
	var parts []string
	for _, kind := range []string{"created", "changed", "deleted", same} {
		if counts[kind] > 0 {
			parts = append(parts, countText(counts[kind])+" "+kind)
		}
	}
	text := cmp.Or(strings.Join(parts, ", "), "there are no schedules")
	if !done.Applied {
		text = "nothing is changed; it would come to: " + text
	}
	con.printLine("%s", text)
}

// A scheduleLsCommand lists the schedules of an engine.
type scheduleLsCommand struct {
	dirFlag
}

// runCommand lists how schedules stand, by id.
func (c *scheduleLsCommand) runCommand(ctx context.Context, con *console) error {
	return c.withEngine(ctx, con, func(e *reached) error {
		rows, now := [][]string{{"SCHEDULE", "WORKFLOW", "NEXT", "LAST", "LAG", "WHY"}}, con.Now()
		for st, err := range e.Schedules(ctx, "") {
			if err != nil {
				return err
			}
			if c.JSON {
				con.writeLine(true, st)
			} else {
				rows = append(rows, c.standingRow(&st, now))
			}
		}
		if c.JSON {
			return nil
		}
		if len(rows) > 1 {
			con.printTable(rows)
		}
		con.printLine("%s", pluralText(len(rows)-1, "schedule"))
		con.printSource(e.source)
		return nil
	})
}

// standingRow returns the row of a schedule. A schedule that only waits for its next instant has no reason in it.
func (c *scheduleLsCommand) standingRow(st *schedule.Standing, now time.Time) []string {
	next, last, lag, why := "", "", "", st.Why
	if len(st.Next) > 0 {
		next = c.instantText(st.Next[0].Due, now)
		if why == "it fires next at "+st.Next[0].Due.UTC().Format(time.RFC3339) {
			why = ""
		}
	}
	if st.Paused != nil {
		next = "paused"
	}
	if ev := lastFiring(st); ev != nil {
		last = becameText(ev, st.Running)
		if ev.Skip != "" {
			last += ": " + ev.Skip
		}
	}
	if st.Fired > 0 {
		lag = lagText(st.LagMillis)
	}
	return []string{st.Schedule.ID, definitionText(st.Schedule.Workflow), next, last, lag, why}
}

// lastFiring returns the newest event that is one of a firing, nil if none is kept.
func lastFiring(st *schedule.Standing) *schedule.Event {
	if i := slices.IndexFunc(st.Events, func(ev schedule.Event) bool { return ev.Cause != "" }); i >= 0 {
		return &st.Events[i]
	}
	return nil
}

// explainSchedule writes what a schedule waits for, and what came of its last firing.
func (con *console) explainSchedule(st *schedule.Standing, asJSON bool) {
	if asJSON {
		con.writeLine(true, st)
		return
	}
	con.printProse("%s: %s", st.Schedule.ID, st.Why)
	if ev := lastFiring(st); ev != nil {
		row := eventRow(ev, st.Running)
		con.printProse("  its last firing, of %s: %s, %s", strings.TrimSpace(row[0]), row[1], row[2])
	}
}

// definitionText names a workflow as lists of runs do, without a version if that is the latest.
func definitionText(w schedule.Workflow) string {
	if w.Version == 0 {
		return w.Name
	}
	return fmt.Sprintf("%s@%d", w.Name, w.Version)
}

func lagText(millis int64) string {
	if d := time.Duration(millis) * time.Millisecond; d >= time.Second {
		return spanText(d)
	}
	return fmt.Sprintf("%dms", millis)
}

// becameText says in a word what became of a firing or, of a run, how it stands or has ended.
func becameText(ev *schedule.Event, running []workflow.RunID) string {
	switch {
	case !ev.EndedAt.IsZero():
		return ev.Status.String()
	case ev.Kind == "started" && slices.Contains(running, ev.Run):
		return "running"
	}
	return ev.Kind
}

// A scheduleShowCommand shows a schedule of an engine.
type scheduleShowCommand struct {
	Schedule string `arg:"" help:"The id of the schedule."`
	Events   bool   `help:"Show all events that the engine has kept, in place of the last five: the last thousand."`
	dirFlag
}

// runCommand shows the schedule, with --json as one object, or its events as one each.
func (c *scheduleShowCommand) runCommand(ctx context.Context, con *console) error {
	return c.withEngine(ctx, con, func(e *reached) error {
		st, err := e.Schedule(ctx, c.Schedule)
		if err != nil {
			return err
		}
		if c.Events {
			if st.Events, err = e.ScheduleEvents(ctx, c.Schedule, time.Time{}, time.Time{}); err != nil {
				return err
			}
			slices.Reverse(st.Events) // the newest first, as the last five are
		}
		switch {
		case c.JSON && c.Events:
			for i := range st.Events {
				con.writeLine(true, st.Events[i])
			}
			return nil
		case c.JSON:
			con.writeLine(true, st)
			return nil
		}
		if err := con.printStanding(&st); err != nil {
			return err
		}
		con.printSource(e.source)
		return nil
	})
}

// printStanding writes how a schedule stands, its fields, its next instants and its last events.
func (con *console) printStanding(st *schedule.Standing) error {
	con.printBeside(st.Schedule.ID, st.Why)
	text := pluralText(int(st.Fired), "run") + " since " + instantUTC(st.AppliedAt)
	if st.Fired > 0 {
		text += ", the last " + lagText(st.LagMillis) + " late"
	}
	if st.Failures > 0 {
		text += ", " + pluralText(st.Failures, "failure") + " in a row"
	}
	con.printProse("  %s", text)
	for _, run := range st.Running {
		con.printWhole("  %s is not over", run)
	}
	for _, b := range st.Backfills {
		how := "goes on, " + pluralText(b.Most, "run") + " at once"
		if st.Paused != nil {
			how = "waits until the schedule is resumed"
		}
		con.printProse("  a backfill from %s to %s %s", instantUTC(b.From), instantUTC(b.To), how)
	}
	if err := con.printScheduleFields(&st.Schedule); err != nil {
		return err
	}
	if len(st.Next) > 0 {
		rows, zone := [][]string{{"  NEXT", "CLOCK", ""}}, zoneOf(&st.Schedule)
		for i := range st.Next {
			rows = append(rows, rowOf(scheduleLine{Firing: &st.Next[i]}, zone))
		}
		con.printTable(rows)
	}
	if len(st.Events) > 0 {
		rows := [][]string{{"  INSTANT", "WHAT", "WHY"}}
		for i := range st.Events {
			rows = append(rows, eventRow(&st.Events[i], st.Running))
		}
		con.printTable(rows)
	}
	return nil
}

// printScheduleFields writes the fields of a schedule that are not their defaults, as a file has them.
func (con *console) printScheduleFields(s *schedule.Schedule) error {
	data, err := s.MarshalJSON()
	var fields map[string]any
	if err == nil {
		err = json.Unmarshal(data, &fields)
	}
	if err != nil {
		return err
	}
	delete(fields, "id")
	width := 0
	for name := range fields {
		width = max(width, len(name))
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		text, plain := fields[name].(string)
		if !plain {
			text = valueText(fields[name])
		}
		con.printBeside(fmt.Sprintf("  %-*s", width, name), text)
	}
	return nil
}

// eventRow returns the row of an event: the instant of the firing or, of the schedule itself, when it was, what has become of it, and why.
func eventRow(ev *schedule.Event, running []workflow.RunID) []string {
	at := ev.Scheduled
	if at.IsZero() {
		at = ev.At
	}
	why := reasonText(ev)
	if ev.Count > 1 {
		why = fmt.Sprintf("%s instants until %s; %s", countText(ev.Count), instantUTC(ev.Until), why)
	}
	who := ""
	if ev.Cause != "instant" {
		who = ev.Cause
	}
	if ev.By != "" {
		who += " by " + ev.By
	}
	if ev.Reason != "" {
		who += ": " + ev.Reason
	}
	if who = strings.TrimLeft(who, " :"); why != "" && who != "" {
		who = ", " + who
	}
	return []string{"  " + instantUTC(at), becameText(ev, running), why + who}
}

// reasonText says why a firing was skipped or waits, or which run it has started.
func reasonText(ev *schedule.Event) string {
	switch {
	case ev.Error != "":
		return ev.Error
	case ev.Kind == "waiting":
		return fmt.Sprintf("until run %s has ended", ev.Run)
	case ev.Kind == "joined":
		return fmt.Sprintf("%s was there already", ev.Run)
	case ev.Skip == "overlap":
		return fmt.Sprintf("overlap: run %s was not over", ev.Run)
	case ev.Skip != "":
		return cmp.Or(skipReasons[ev.Skip], ev.Skip)
	}
	return string(ev.Run)
}

// skipReasons say why firings were skipped, in words.
var skipReasons = map[string]string{
	"window":   "window: it was due before that of catchUp",
	"most":     "most: later ones were made up for instead",
	"paused":   "paused: the schedule was",
	"except":   "except: the schedule leaves it out",
	"missing":  "missing: clocks jumped over it",
	"repeated": "repeated: the clock showed it twice",
}

func instantUTC(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }

// A scheduleActCommand does something to a schedule. pause, resume, trigger and rm are values of it.
type scheduleActCommand struct {
	act    api.ScheduleAct
	had    int  // instants of a backfill that have fired before
	dry    bool // the backfill is only tried
	paused bool // the schedule of a backfill is

	Schedule string `arg:"" help:"The id of the schedule."`
	By       string `placeholder:"NAME" help:"Who acts; the user of this process, if this is not given."`
	Reason   string `short:"m" required:"" placeholder:"TEXT" help:"Why, in one line. The events of the schedule tell it."`
	Offline  bool   `help:"If no engine has the directory open, commit this now: what comes of it begins when your program opens the directory, and deadlines count from now."`
	dirFlag
}

// runCommand does it.
func (c *scheduleActCommand) runCommand(ctx context.Context, con *console) error {
	a := actFlag{By: c.By, Reason: c.Reason, Offline: c.Offline, DryRun: c.dry, dirFlag: c.dirFlag}
	return a.withActor(ctx, con, func(e *reached) error {
		c.act.By, c.act.Reason = a.By, a.Reason
		if c.act.Do == "backfill" {
			left, err := c.instantsLeft(ctx, con, e)
			if err == nil && c.dry {
				c.showLeft(con, left)
			}
			if err != nil || c.dry {
				return err
			}
		}
		done, err := e.ActOnSchedule(ctx, c.Schedule, c.act)
		if err != nil {
			return markUnknown(err, errOfSchedule)
		}
		if c.JSON {
			con.writeLine(true, done)
			return nil
		}
		con.printWhole("%s", c.doneText(done))
		con.printSource(a.sourceText(e))
		return nil
	})
}

// instantsLeft returns at which instants of a backfill the schedule has not fired, and counts the others.
func (c *scheduleActCommand) instantsLeft(ctx context.Context, con *console, e *reached) (left []schedule.Firing, err error) {
	st, err := e.Schedule(ctx, c.Schedule)
	if err != nil {
		return nil, err
	}
	c.paused = st.Paused != nil
	events, err := e.ScheduleEvents(ctx, c.Schedule, time.Time{}, time.Time{})
	if err == nil {
		left, c.had, err = scheduling.InstantsLeft(&st.Schedule, events, schedule.Backfill{From: c.act.From, To: c.act.To, Most: c.act.Most}, con.Now())
	}
	return left, err
}

// showLeft writes at which instants a backfill would fire.
func (c *scheduleActCommand) showLeft(con *console, left []schedule.Firing) {
	for i := range left {
		con.writeLine(c.JSON, scheduleLine{Schedule: c.Schedule, Run: left[i].RunID(c.Schedule), Firing: &left[i]})
	}
	if !c.JSON {
		con.printProse("nothing is changed; it would come to: %s", c.backfillText(api.ScheduleReport{Schedule: c.Schedule, Firings: len(left) + c.had}))
	}
}

// doneText says what was done.
func (c *scheduleActCommand) doneText(done api.ScheduleReport) string {
	switch c.act.Do {
	case "pause":
		return done.Schedule + " is paused; its runs go on"
	case "resume":
		return done.Schedule + " fires again"
	case "trigger":
		return fmt.Sprintf("%s has fired: its run is %s", done.Schedule, done.Run)
	case "backfill":
		return c.backfillText(done)
	}
	return done.Schedule + " is deleted; its runs go on"
}

// backfillText says for how many instants a schedule fires, and how many have fired before.
func (c *scheduleActCommand) backfillText(done api.ScheduleReport) string {
	left := max(done.Firings-c.had, 0)
	switch {
	case done.Firings == 0:
		return done.Schedule + " has no instants there"
	case left == 0:
		return fmt.Sprintf("%s fires for none of %s: they have fired before", done.Schedule, pluralText(done.Firings, "instant"))
	}
	text := fmt.Sprintf("%s fires for %s, at most %s at once", done.Schedule, pluralText(left, "instant"), pluralText(c.act.Most, "run"))
	if c.had > 0 {
		text += fmt.Sprintf("; %s more have fired before", countText(c.had))
	}
	if c.paused {
		text += "; it waits until the schedule is resumed"
	}
	return text
}

// A scheduleBackfillCommand has a schedule fire at instants that have passed.
type scheduleBackfillCommand struct {
	From   time.Time `required:"" placeholder:"INSTANT" help:"The instants behind this one, as 2026-12-01T00:00:00Z."`
	To     time.Time `required:"" placeholder:"INSTANT" help:"And not behind this one, which has passed."`
	AtMost int       `default:"1" placeholder:"N" help:"So many runs of it at once, from 1 to 100."`
	DryRun bool      `help:"Say at which instants it would fire, and change nothing."`
	scheduleActCommand
}

// runCommand asks for it.
func (c *scheduleBackfillCommand) runCommand(ctx context.Context, con *console) error {
	c.act.From, c.act.To, c.act.Most, c.dry = c.From, c.To, c.AtMost, c.DryRun
	return c.scheduleActCommand.runCommand(ctx, con)
}
