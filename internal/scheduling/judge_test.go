package scheduling_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/schedule"
	"github.com/pawl-run/pawl/workflow"
)

// A judge holds what a directory has of its schedules against the journals and a ledger.
type judge struct {
	*pawl.Engine
	end   time.Time               // of the life
	runs  map[workflow.RunID]bool // that are there
	gone  map[workflow.RunID]bool // that were purged, or are about to be
	lines []line
	wrong []string
}

// judgeDirectory judges a copy of the engine directory in dir after a life; with whole, the life has come to its end. It returns what is wrong.
func judgeDirectory(ctx context.Context, dir string, number int, whole bool) (wrong []string, err error) {
	from, to := filepath.Join(dir, "engine"), filepath.Join(dir, "copy")
	if _, err := os.Lstat(from); errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	defer func() { err = errors.Join(err, os.RemoveAll(to)) }()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		return nil, err
	}
	lines, err := readLedger(dir)
	if err != nil {
		return nil, err
	}
	return judgeCopy(ctx, to, lines, number, whole)
}

func judgeCopy(ctx context.Context, dir string, lines []line, number int, whole bool) (wrong []string, err error) {
	hook := &testhook.Hook{}
	end := clockOf(number).end()
	hook.OnNow(func() time.Time { return end })
	e, err := pawl.Open(testhook.With(ctx, hook), dir, pawl.Options{Maintenance: true, Durability: pawl.ProcessCrash})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, e.Close(ctx)) }()
	j := &judge{Engine: e, end: end, lines: lines, runs: map[workflow.RunID]bool{}, gone: map[workflow.RunID]bool{}}
	for r, err := range e.Runs(ctx, pawl.RunFilter{}) {
		if err != nil {
			return nil, err
		}
		j.runs[r.Run] = true
	}
	j.judgeLedger()
	there := map[string]bool{}
	for st, err := range e.Schedules().List(ctx, "") {
		if err != nil {
			return nil, err
		}
		there[st.Schedule.ID] = true
		if st.Schedule.ID == "passing" {
			continue
		}
		if err := j.judgeSchedule(ctx, st, whole); err != nil {
			return nil, err
		}
	}
	if there["passing"] && j.isDeleted() {
		j.bad("passing: its deletion was acknowledged, and it is there")
	}
	for id := range j.runs {
		if name, _, _ := strings.Cut(string(id), "@"); !there[name] && name != "passing" {
			j.bad("%s: the schedule is lost", id)
		}
	}
	return j.wrong, nil
}

func (j *judge) bad(format string, args ...any) {
	j.wrong = append(j.wrong, fmt.Sprintf(format, args...))
}

// judgeLedger checks what lives were told: no run is performed twice in a life, or after it was purged, and every trigger has its run.
func (j *judge) judgeLedger() {
	ran, purged := map[string]bool{}, map[workflow.RunID]bool{}
	for _, l := range j.lines {
		switch l.What {
		case "ran":
			at := fmt.Sprint(l.Life, l.Run)
			if ran[at] {
				j.bad("%s was performed twice in life %d", l.Run, l.Life)
			}
			if ran[at] = true; purged[l.Run] {
				j.bad("%s was purged, and performed again in life %d", l.Run, l.Life)
			}
			if !j.runs[l.Run] && !strings.HasPrefix(string(l.Run), "purged@") {
				j.bad("%s was performed, and is lost", l.Run)
			}
		case "purging":
			j.gone[l.Run] = true
		case "purged":
			if purged[l.Run] = true; j.runs[l.Run] {
				j.bad("%s was purged, and is there", l.Run)
			}
		case "triggered":
			if !j.runs[l.Run] {
				j.bad("%s was triggered, and is lost", l.Run)
			}
		}
	}
}

// isDeleted reports whether the last that a life was told of the schedule that passes is that it is deleted.
func (j *judge) isDeleted() (deleted bool) {
	for _, l := range j.lines {
		switch l.What {
		case "applying":
			deleted = false
		case "deleted":
			deleted = true
		}
	}
	return deleted
}

// A tally is what events tell of the instants of one schedule.
type tally struct {
	started map[workflow.RunID]int
	causes  map[workflow.RunID]string // why they began
	decided map[time.Time]int         // instants that have come: how often something was decided
	waiting map[time.Time]bool
	covers  []schedule.Event // skips of several instants
	last    time.Time        // of them
}

// judgeSchedule checks one schedule: its events and the journals have the same runs, and each of its instants is decided once.
func (j *judge) judgeSchedule(ctx context.Context, st schedule.Standing, whole bool) error {
	id := st.Schedule.ID
	events, err := j.Schedules().Events(ctx, id, time.Time{}, time.Time{})
	if err != nil {
		return err
	}
	t := tally{started: map[workflow.RunID]int{}, causes: map[workflow.RunID]string{}, decided: map[time.Time]int{}, waiting: map[time.Time]bool{}}
	for i, ev := range events {
		if ev.Num != int64(i+1) {
			j.bad("%s: event %d is number %d", id, i+1, ev.Num)
			return nil
		}
		if text := t.add(ev); text != "" {
			j.bad("%s: event %d: %s", id, ev.Num, text)
		}
	}
	for run, n := range t.started {
		if n > 1 || !j.runs[run] && !j.gone[run] {
			j.bad("%s has begun %d times; that it is there is %v", run, n, j.runs[run])
		}
	}
	for run := range j.runs {
		if strings.HasPrefix(string(run), id+"@") && t.started[run] == 0 {
			j.bad("%s is there, and its schedule does not know it", run)
		}
	}
	if st.Fired != int64(len(t.started)) {
		j.bad("%s has fired %d times, with %d runs", id, st.Fired, len(t.started))
	}
	if st.Schedule.After > 0 {
		return j.judgeInputs(ctx, id, st.Fired, whole)
	}
	if err := j.judgeInstants(&st, &t, whole); err != nil {
		return err
	}
	return j.judgeInputs(ctx, id, st.Fired, whole)
}

// add adds an event. It returns what is wrong with it.
func (t *tally) add(ev schedule.Event) string {
	at := ev.Scheduled.UTC()
	switch ev.Kind {
	case "started":
		t.started[ev.Run]++
		t.causes[ev.Run] = ev.Cause
		if ev.Cause != "instant" {
			return ""
		}
		if t.waiting[at] {
			delete(t.waiting, at)
			return ""
		}
		t.decided[at]++
	case "waiting":
		t.waiting[at] = true
		t.decided[at]++
	case "skipped":
		if ev.Skip != "overlap" && ev.Skip != "paused" {
			return fmt.Sprintf("%s was skipped: %s", at, ev.Skip)
		}
		if ev.Count == 0 {
			ev.Until = ev.Scheduled
		}
		t.covers = append(t.covers, ev)
		at = ev.Until.UTC()
	case "paused", "resumed":
		return ""
	case "joined": // nobody else starts these runs
		if cause := t.causes[ev.Run]; cause == "" || cause == ev.Cause {
			return fmt.Sprintf("%s was joined", at)
		}
		if ev.Cause == "instant" {
			t.decided[at]++
		}
	default: // refused: nothing is wrong with them
		return fmt.Sprintf("%s was %s: %s", at, ev.Kind, ev.Error)
	}
	if ev.Cause == "instant" && at.After(t.last) {
		t.last = at
	}
	return ""
}

// judgeInstants checks that each instant up to the last that was decided, or all of them, has a run, or a reason why it has none.
func (j *judge) judgeInstants(st *schedule.Standing, t *tally, whole bool) error {
	table, err := schedule.Compile(&st.Schedule)
	if err != nil {
		return err
	}
	until := t.last
	if whole {
		until = j.end
	}
	for f := range table.Between(st.AppliedAt, until) {
		n := t.decided[f.At.UTC()]
		delete(t.decided, f.At.UTC())
		for _, ev := range t.covers {
			if !f.At.Before(ev.Scheduled) && !f.At.After(ev.Until) {
				n++
			}
		}
		if n != 1 && (n > 1 || whole || st.Schedule.ID != "held") { // what came before a pause fires after it
			j.bad("%s: the instant %s was decided %d times", st.Schedule.ID, f.At, n)
		}
	}
	for at := range t.decided {
		j.bad("%s: %s is none of its instants", st.Schedule.ID, at)
	}
	if !whole || st.Schedule.ID != "held" {
		return nil
	}
	for _, l := range j.lines {
		if l.What != "backfilled" {
			continue
		}
		for f := range table.Between(l.From, l.To) {
			if f.At.After(st.AppliedAt) && t.started[f.RunID("held")] == 0 {
				j.bad("held: %s was backfilled, and has no run", f.At)
			}
		}
	}
	return nil
}

// judgeInputs checks, after a life that came to its end, that the journals of all runs count them: each has a number of its own, from 1.
func (j *judge) judgeInputs(ctx context.Context, id string, fired int64, whole bool) error {
	if !whole || id == "purged" {
		return nil
	}
	seen := map[int64]workflow.RunID{}
	for run := range j.runs {
		if !strings.HasPrefix(string(run), id+"@") {
			continue
		}
		in, err := j.Inspect(ctx, run)
		if err != nil {
			return err
		}
		n, _ := in.Input["n"].(int64)
		if n < 1 || n > fired || seen[n] != "" {
			j.bad("%s is run %v of %d; so is %q", run, in.Input["n"], fired, string(seen[n]))
		}
		seen[n] = run
	}
	return nil
}
