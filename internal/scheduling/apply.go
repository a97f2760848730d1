package scheduling

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/pawl-run/pawl/internal/refusal"
	"github.com/pawl-run/pawl/internal/texts"
	"github.com/pawl-run/pawl/schedule"
	"github.com/pawl-run/pawl/store"
)

// A Set is what is applied.
type Set struct {
	Schedules []schedule.Schedule
	Prune     bool // schedules that are not in the set are deleted
	DryRun    bool // nothing is changed
}

// An application is a set that is being applied.
type application struct {
	s       *Scheduler
	tables  map[string]*schedule.Timetable
	changes []schedule.Change
	locked  []*entry
	rows    []store.Kept
	after   []func()
}

// Apply makes schedules what a set says, all of them in one commit, and returns what that changes, by id. A schedule that is
// changed keeps its history; if its instants change, those that have passed are not its own. Schedules that the set lacks
// stay as they are; with Prune they are deleted behind the rest, each in a commit of its own. With an error some of those may be
// left, although the set is applied: to apply it again deletes the rest.
func (s *Scheduler) Apply(ctx context.Context, set Set) ([]schedule.Change, error) {
	tables, err := compileSet(set.Schedules)
	if err != nil {
		return nil, err
	}
	if !set.DryRun {
		if err := s.holdBeforeAct(ctx); err != nil {
			return nil, err
		}
	}
	if err := s.applying.takeUntil(ctx); err != nil {
		return nil, err
	}
	defer s.applying.passOn()
	a := &application{s: s, tables: tables}
	defer func() {
		for _, e := range a.locked {
			e.endTurn()
		}
	}()
	for _, id := range slices.Sorted(maps.Keys(tables)) {
		if err := a.compareOne(ctx, id, set.DryRun); err != nil {
			return nil, err
		}
	}
	gone := a.otherIDs(set.Prune)
	if set.DryRun {
		return a.changes, nil
	}
	if len(a.rows) > 0 {
		s.o.Hook.Hit("schedule.apply")
		if err := s.o.Dir.KeepOutcomes(a.rows...); err != nil {
			for _, e := range a.locked {
				e.stale = true
				s.takeUp(e) // the row of a new one may be there
			}
			return nil, fmt.Errorf("apply schedules: %w", err)
		}
	}
	s.o.Hook.Hit("schedule.applied")
	for _, take := range a.after {
		take()
	}
	for _, id := range gone {
		var err error
		if s.isBroken(id) {
			err = s.forgetBroken(id)
		} else {
			err = s.Delete(ctx, id)
		}
		if err != nil && !errors.Is(err, refusal.ErrScheduleNotFound) {
			return nil, err
		}
	}
	return a.changes, nil
}

// compileSet checks and compiles schedules.
func compileSet(set []schedule.Schedule) (map[string]*schedule.Timetable, error) {
	err := &schedule.Error{}
	for _, p := range schedule.Check(set, time.Time{}) {
		if !p.Warning {
			err.Problems = append(err.Problems, p)
		}
	}
	if len(err.Problems) > 0 {
		return nil, err
	}
	tables := make(map[string]*schedule.Timetable, len(set))
	var c schedule.Compiler
	for i := range set {
		if err := texts.CheckTenant(set[i].Tenant); err != nil { // no run could begin
			return nil, fmt.Errorf("schedule %q: %w", set[i].ID, err)
		}
		t, err := c.Compile(&set[i])
		if err != nil {
			return nil, err
		}
		tables[set[i].ID] = t
	}
	return tables, nil
}

// compareOne says what becomes of one schedule, and prepares its row.
func (a *application) compareOne(ctx context.Context, id string, dryRun bool) error {
	t := a.tables[id]
	e, err := a.s.lockEntry(ctx, id)
	if errors.Is(err, refusal.ErrScheduleNotFound) {
		a.changes = append(a.changes, schedule.Change{ID: id, Kind: changeCreated})
		if dryRun {
			return nil
		}
		now := a.s.now()
		e = newEntry(id)
		e.view = view{table: t, state: &state{AppliedAt: now, Begun: now, Told: now}, recent: []schedule.Event{}}
		e.turn.tryTake()
		a.locked = append(a.locked, e)
		if a.s.isBroken(id) {
			if e.state.Num, err = a.s.lastNumber(ctx, id); err != nil {
				return err
			}
		}
		a.after = append(a.after, func() { a.s.takeUp(e) })
		return a.addRow(e, t, e.state)
	}
	if err != nil {
		return err
	}
	a.locked = append(a.locked, e)
	fields, err := changedFields(e.table.Schedule(), t.Schedule())
	if err != nil {
		return err
	}
	if len(fields) == 0 {
		a.changes = append(a.changes, schedule.Change{ID: id, Kind: changeUnchanged})
		return nil
	}
	a.changes = append(a.changes, schedule.Change{ID: id, Kind: changeChanged, Fields: fields})
	if dryRun {
		return nil
	}
	next := e.state.clone()
	if slices.ContainsFunc(fields, func(f string) bool { return slices.Contains(timing, f) }) {
		next.Begun, next.Told = a.s.now(), a.s.now()
		next.Backfills = slices.DeleteFunc(next.Backfills, func(b schedule.Backfill) bool {
			_, err := instantsOf(t, b, b.To)
			return err != nil // it could not begin now
		})
		if len(next.Backfills) < len(e.state.Backfills) {
			a.after = append(a.after, func() {
				a.s.o.Logger.Warn("pawl: backfills of a schedule end, because it has other instants now", "schedule", id)
			})
		}
	} else if slices.Contains(fields, "catchUp") { // what was told as skipped stays so, however long the window is now
		next.Begun = latest(next.Begun, earliest(next.Told, a.s.now()))
	}
	a.after = append(a.after, func() {
		e.table, e.state, e.wait, e.late, e.begun = t, next, 0, "", nil
		a.s.armEntry(e)
	})
	return a.addRow(e, t, next)
}

// lastNumber returns the number of the last event of a schedule that can be read, because its new events come behind it.
func (s *Scheduler) lastNumber(ctx context.Context, id string) (last int64, err error) {
	for kept, err := range s.o.Dir.OutcomesUnder(ctx, eventsKey(id)) {
		if kept.Key == "" {
			return 0, err
		}
		var ev schedule.Event
		if err == nil && readKept(kept.Value, &ev) == nil {
			last = max(last, ev.Num)
		}
	}
	return last, nil
}

func (a *application) addRow(e *entry, t *schedule.Timetable, next *state) error {
	kept, err := keptOf(rowKey(e.id), row{t.Schedule(), next}, a.s.now())
	a.rows = append(a.rows, kept)
	return err
}

// otherIDs says what becomes of the schedules that are not in the set.
func (a *application) otherIDs(prune bool) (gone []string) {
	if !prune {
		return nil
	}
	for _, id := range a.s.knownIDs() {
		if a.tables[id] == nil {
			gone = append(gone, id)
			a.changes = append(a.changes, schedule.Change{ID: id, Kind: changeDeleted})
		}
	}
	slices.SortFunc(a.changes, func(x, y schedule.Change) int { return cmp.Compare(x.ID, y.ID) })
	return gone
}

// timing are the fields of a schedule that say when it fires.
var timing = []string{"cron", "every", "offset", "after", "at", "except", "timezone", "dst", "start", "end", "jitter"}

// changedFields returns the names of the fields that differ, sorted.
func changedFields(before, now schedule.Schedule) (names []string, err error) {
	var fields [2]map[string]json.RawMessage
	for i, s := range []schedule.Schedule{before, now} {
		data, err := s.MarshalJSON()
		if err == nil {
			err = json.Unmarshal(data, &fields[i])
		}
		if err != nil {
			return nil, err
		}
	}
	all := maps.Clone(fields[0])
	maps.Copy(all, fields[1])
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if !bytes.Equal(fields[0][name], fields[1][name]) {
			names = append(names, name)
		}
	}
	return names, nil
}

// Delete forgets a schedule and its events. Its runs go on. A schedule that is applied under its id later is a new one.
func (s *Scheduler) Delete(ctx context.Context, id string) error {
	e, err := s.lockEntry(ctx, id)
	if errors.Is(err, refusal.ErrScheduleNotFound) && s.isBroken(id) {
		return s.deleteBroken(ctx, id)
	}
	if err != nil {
		return err
	}
	defer e.endTurn()
	if err := s.forgetRows(id); err != nil {
		e.stale = true
		s.armEntry(e)
		return err
	}
	s.dropEntry(e)
	return nil
}

// deleteBroken deletes a schedule that could not be loaded, unless it was applied again meanwhile.
func (s *Scheduler) deleteBroken(ctx context.Context, id string) error {
	if err := s.applying.takeUntil(ctx); err != nil {
		return err
	}
	defer s.applying.passOn()
	if !s.isBroken(id) {
		return fmt.Errorf("%w: %q", refusal.ErrScheduleNotFound, id)
	}
	return s.forgetBroken(id)
}

// forgetBroken erases a schedule that could not be loaded. No set is applied meanwhile.
func (s *Scheduler) forgetBroken(id string) error {
	if err := s.forgetRows(id); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.broken, id)
	return nil
}

// forgetRows erases what is kept of a schedule.
func (s *Scheduler) forgetRows(id string) error {
	s.o.Hook.Hit("schedule.delete")
	if err := s.o.Dir.ForgetOutcomesUnder(rowKey(id), eventsKey(id)); err != nil {
		return fmt.Errorf("delete schedule %q: %w", id, refusal.Closed(err))
	}
	s.o.Hook.Hit("schedule.deleted")
	return nil
}

// dropEntry forgets a schedule that was deleted. Its lock is held.
func (s *Scheduler) dropEntry(e *entry) {
	e.gone = true
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, e.id)
	s.due.Remove(e)
	for i := range e.state.Live {
		delete(s.owners, e.state.Live[i].Run)
	}
}
