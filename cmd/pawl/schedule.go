package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/internal/below"
	"github.com/pawl-run/pawl/internal/limits"
	"github.com/pawl-run/pawl/schedule"
	"github.com/pawl-run/pawl/workflow"
)

var scheduleVerb = verb{
	name: "schedule",
	help: "Start runs on time: look at schedules, and keep those of an engine.",
	example: []string{
		"pawl schedule check schedules.yaml", "pawl schedule next schedules.yaml --year", "pawl schedule apply schedules.yaml --dry-run -m nightly",
		"pawl schedule ls --json", "pawl schedule show nightly --events", "pawl schedule pause nightly -m maintenance", "pawl schedule resume nightly -m done",
		"pawl schedule trigger nightly -m 'the report is missing'", "pawl schedule rm nightly -m replaced",
		"pawl schedule backfill nightly --from 2026-11-01T00:00:00Z --to 2026-11-08T00:00:00Z --at-most 2 -m outage",
	},
	command: func() command {
		doing := func(what string) scheduleActCommand { return scheduleActCommand{act: api.ScheduleAct{Do: what}} }
		return &scheduleCommand{
			Pause: doing("pause"), Resume: doing("resume"), Trigger: doing("trigger"), Rm: doing("delete"),
			Backfill: scheduleBackfillCommand{scheduleActCommand: doing("backfill")},
		}
	},
}

// A scheduleCommand has a command of its own for each thing that is done with schedules.
type scheduleCommand struct {
	noCommand
	Check scheduleCheckCommand `cmd:"" help:"Look for faults in files of schedules."`
	Next  scheduleNextCommand  `cmd:"" help:"Show when schedules fire, and what they do at daylight-saving changes."`

	Apply    scheduleApplyCommand    `cmd:"" help:"Make the schedules of an engine what files say."`
	Ls       scheduleLsCommand       `cmd:"" help:"List schedules: when they fire, what came of it last, why they do not."`
	Show     scheduleShowCommand     `cmd:"" help:"Show one schedule: its fields, its next instants, what came of the last ones and why."`
	Pause    scheduleActCommand      `cmd:"" help:"Let a schedule fire no more; its runs go on."`
	Resume   scheduleActCommand      `cmd:"" help:"Let a schedule fire again. Instants that came meanwhile are skipped."`
	Trigger  scheduleActCommand      `cmd:"" help:"Let a schedule fire now, also if it is paused."`
	Backfill scheduleBackfillCommand `cmd:"" help:"Let a schedule fire at instants that have passed."`
	Rm       scheduleActCommand      `cmd:"" help:"Delete a schedule and its events; its runs go on."`
}

// A noCommand is embedded in a command that only has others below it, which the parser chooses instead of it.
type noCommand struct{}

func (noCommand) runCommand(context.Context, *console) error { return errUsage }

// errUsage says that the command line does nothing.
var errUsage = errors.New("nothing is to be done: see --help")

// readSchedules reads a file of schedules. Problems of its text are a *schedule.Error.
func readSchedules(path string) ([]schedule.Schedule, error) {
	data, err := below.ReadFile(path, limits.MaxDefinitionBytes, filepath.Dir(path), ".")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return schedule.Parse(data)
}

// checkSchedules returns all problems of a file, those of the next firings too, and its schedules if its text can be read. The
// error says that the file cannot.
func (con *console) checkSchedules(path string) ([]schedule.Schedule, []workflow.Problem, error) {
	set, err := readSchedules(path)
	if invalid := (*schedule.Error)(nil); errors.As(err, &invalid) {
		return nil, invalid.Problems, nil
	}
	if err != nil {
		return nil, nil, err
	}
	return set, schedule.Check(set, con.Now()), nil
}

// A scheduleCheckCommand looks for faults in files of schedules.
type scheduleCheckCommand struct {
	Files []string `arg:"" name:"file" help:"Files of schedules, in YAML or JSON."`
	jsonFlag
}

// A scheduleReport is what was found in one file.
type scheduleReport struct {
	File      string   `json:"file"`
	Schedules int      `json:"schedules"` // 0 if the text cannot be read
	Problems  []string `json:"problems,omitempty"`
}

// runCommand checks the files. The answer is no if one has a problem that is no warning.
func (c *scheduleCheckCommand) runCommand(_ context.Context, con *console) error {
	faults := false
	for _, path := range c.Files {
		set, problems, err := con.checkSchedules(path)
		if err != nil {
			return err
		}
		r := scheduleReport{File: path, Schedules: len(set)}
		for _, p := range problems {
			r.Problems = append(r.Problems, p.String())
			faults = faults || !p.Warning
		}
		switch {
		case c.JSON:
			con.writeLine(true, r)
		case len(r.Problems) == 0:
			con.printProse("%s: %s, no problems", path, pluralText(r.Schedules, "schedule"))
		}
		for _, p := range problems {
			if !c.JSON {
				con.printProse("%s", problemText(path, p))
			}
		}
	}
	if faults {
		return errNo
	}
	return nil
}

// problemText returns a problem with its place as editors read it: FILE:LINE:COLUMN.
func problemText(path string, p workflow.Problem) string {
	if p.Line > 0 && p.Column > 0 {
		path = fmt.Sprintf("%s:%d:%d", path, p.Line, p.Column)
	}
	p.Line, p.Column = 0, 0
	return path + ": " + p.String()
}

// A scheduleNextCommand shows when schedules fire.
type scheduleNextCommand struct {
	File  string    `arg:"" help:"A file of schedules, in YAML or JSON; with --dir, or without such a file in $PAWL_DIR, the id of a schedule."`
	ID    string    `arg:"" optional:"" help:"Only this schedule of it."`
	Dir   string    `placeholder:"DIR" help:"The engine directory that has the schedule, in place of a file."`
	From  time.Time `placeholder:"INSTANT" help:"What comes after this instant, as 2026-12-01T00:00:00Z; without it, after now."`
	Count int       `short:"n" default:"10" help:"Show so many instants of each schedule at most."`
	Year  bool      `help:"Show all instants of a year, at most 10,000 of each schedule."`
	keyFlag
	jsonFlag
}

// maxInstants bounds the instants of a schedule that are shown.
const maxInstants = 10_000

// A scheduleLine is a line of JSON: an instant, or a change of clocks.
type scheduleLine struct {
	Schedule string                `json:"schedule"`
	Run      workflow.RunID        `json:"run,omitempty"`    // that the firing starts
	Firing   *schedule.Firing      `json:"firing,omitempty"` // or
	Change   *schedule.ClockChange `json:"change,omitempty"` // of clocks, in order with the instants
}

// String returns the instant.
func (l scheduleLine) String() string { return instantUTC(l.Firing.At) }

// runCommand shows the schedules one after the other.
func (c *scheduleNextCommand) runCommand(ctx context.Context, con *console) error {
	if c.Count < 1 {
		return fmt.Errorf("--count: %d is less than 1", c.Count)
	}
	if _, err := os.Lstat(c.File); c.Dir == "" && c.ID == "" && errors.Is(err, fs.ErrNotExist) {
		c.Dir = os.Getenv("PAWL_DIR")
	}
	if c.Dir != "" {
		return c.showApplied(ctx, con)
	}
	set, problems, err := con.checkSchedules(c.File)
	if err != nil {
		return err
	}
	if problems = slices.DeleteFunc(problems, func(p workflow.Problem) bool { return p.Warning }); len(problems) > 0 {
		return fmt.Errorf("%s: %w", c.File, &schedule.Error{Problems: problems})
	}
	found := false
	for i := range set {
		if c.ID == "" || c.ID == set[i].ID {
			t, err := schedule.Compile(&set[i])
			if err != nil {
				return err
			}
			if found && !c.JSON {
				con.printLine("")
			}
			found = true
			c.showTimetable(con, t)
		}
	}
	if !found {
		return fmt.Errorf("%s: there is no schedule %q: %w", c.File, c.ID, fs.ErrNotExist)
	}
	return nil
}

// showApplied shows the schedule of an engine.
func (c *scheduleNextCommand) showApplied(ctx context.Context, con *console) error {
	if c.ID != "" {
		return errors.New("--dir: one schedule is named, by its id, and no file")
	}
	return dirFlag{Dir: c.Dir, keyFlag: c.keyFlag}.withEngine(ctx, con, func(e *reached) error {
		st, err := e.Schedule(ctx, c.File)
		if err != nil {
			return err
		}
		t, err := schedule.Compile(&st.Schedule)
		if err == nil {
			c.showTimetable(con, t)
		}
		return err
	})
}

// zoneOf returns the zone of a schedule that was checked.
func zoneOf(s *schedule.Schedule) *time.Location {
	zone, err := time.LoadLocation(s.Timezone)
	if err != nil { // an engine of another process may know more zones
		return time.UTC
	}
	return zone
}

// showTimetable shows the instants of one schedule, with the changes of clocks between them.
func (c *scheduleNextCommand) showTimetable(con *console, t *schedule.Timetable) {
	s := t.Schedule()
	from := c.From
	if from.IsZero() {
		from = con.Now()
	}
	if !c.JSON {
		con.printLine("%s, %s", s.ID, s.Timezone)
	}
	if s.After > 0 && !c.JSON {
		con.printProse("  %s after the end of each run", spanText(s.After))
		return
	}
	lines, more := c.linesOf(t, from)
	if c.JSON {
		for _, l := range lines {
			con.writeLine(true, l)
		}
		return
	}
	rows := [][]string{{"  INSTANT", "CLOCK", ""}}
	zone := zoneOf(&s)
	for _, l := range lines {
		rows = append(rows, rowOf(l, zone))
	}
	if len(lines) > 0 {
		con.printTable(rows)
	} else {
		con.printLine("  never")
	}
	if more {
		con.printLine("  and more")
	}
}

// linesOf returns the lines of a timetable after an instant, and whether there would be more. A year has all changes of
// clocks in it, and otherwise those that come within a day before an instant. Exceptions are left out: an expression may have more
// of them than instants.
func (c *scheduleNextCommand) linesOf(t *schedule.Timetable, from time.Time) (lines []scheduleLine, more bool) {
	id := t.Schedule().ID
	most, until := c.Count, from.AddDate(50, 0, 0)
	if c.Year {
		most, until = maxInstants, from.AddDate(1, 0, 0)
	}
	last := from
	add := func(until time.Time) {
		for change := range t.Changes(last, until) {
			if !c.Year && until.Sub(change.At) > 24*time.Hour {
				continue
			}
			lines = append(lines, scheduleLine{Schedule: id, Change: &change})
		}
		last = until
	}
	shown := 0
	for f := range t.Between(from, until) {
		if f.Left == schedule.LeftExcept {
			continue
		}
		if shown == most {
			return lines, c.Year
		}
		add(f.At)
		l := scheduleLine{Schedule: id, Firing: &f}
		if f.Left == "" {
			l.Run = f.RunID(id)
			shown++
		}
		lines = append(lines, l)
	}
	if c.Year {
		add(until)
	}
	return lines, false
}

// rowOf returns the row of a line: the instant in UTC, what the clock shows then, and what is particular about it.
func rowOf(l scheduleLine, zone *time.Location) []string {
	const utc, clock = "2006-01-02T15:04:05Z", "2006-01-02 15:04:05 -07:00"
	if ch := l.Change; ch != nil {
		return []string{"  " + ch.At.Format(utc), ch.At.In(zone).Format(clock), "— clocks go from " + ch.From + " to " + ch.To}
	}
	f := l.Firing
	hour := f.Local[len("2006-01-02 "):]
	note := ""
	switch f.Clock {
	case schedule.ClockShifted:
		note = "clocks jump over " + hour + ": it fires as much later"
	case schedule.ClockFirst:
		note = "the first " + hour + " of two"
	case schedule.ClockSecond:
		note = "the second " + hour + " of two"
	}
	switch f.Left {
	case schedule.LeftMissing:
		note = "does not fire: clocks jump over " + hour
	case schedule.LeftRepeated:
		note = "does not fire: " + note
	case schedule.LeftExcept:
		note = "does not fire: it is excepted"
	case "":
		if f.Due.After(f.At) { // by the jitter
			note = strings.TrimPrefix(note+", starts "+f.Due.In(zone).Format("15:04:05"), ", ")
		}
	}
	return []string{"  " + f.At.Format(utc), f.At.In(zone).Format(clock), note}
}
