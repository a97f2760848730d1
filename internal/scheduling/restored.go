package scheduling

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/schedule"
	"github.com/pawl-run/pawl/store"
)

// HoldRestored pauses the schedules of a directory that was restored, in one commit: the directory that it was made of may be open
// elsewhere, and may have fired what came since. So each is paused from the last instant on that it has decided. It is called after Load
// and before Watch.
//
// A copy that was made of the files alone is not known as one. The number and the birth of a file change as well when a directory is moved to
// another disk or comes back from an archive, where paused schedules would miss what is due; and a snapshot of a disk changes neither.
func (s *Scheduler) HoldRestored() error {
	at := filepath.Join(s.o.Path, index.RestoredFile)
	mark, found, err := index.ReadMark(os.DirFS(s.o.Path))
	if !found {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s says when the directory was restored: %w", at, err)
	}
	from := "a backup"
	if !mark.AsOf.IsZero() {
		from = "what it was at " + instantText(mark.AsOf)
	}
	n, err := s.pauseAll("restore", "the directory was restored from "+from+", and the original may fire this schedule: resume it if it does not")
	if err != nil {
		return fmt.Errorf("pause the schedules of a restored directory: %w", err)
	}
	if n > 0 {
		s.o.Logger.Warn("pawl: the directory was restored, and its schedules are paused until somebody resumes them", "directory", s.o.Path)
	}
	s.restored.Store(false)
	return os.Remove(at)
}

// holdBeforeAct pauses the schedules of a restored directory that was opened for maintenance alone, before an act that lets one fire:
// the next opening would take that back.
func (s *Scheduler) holdBeforeAct(ctx context.Context) error {
	if !s.restored.Load() {
		return nil
	}
	if err := s.applying.takeUntil(ctx); err != nil {
		return err
	}
	defer s.applying.passOn()
	return s.HoldRestored()
}

// pauseAll pauses all schedules that are not paused, each from the last instant on that it has decided, in one commit, and returns how many.
func (s *Scheduler) pauseAll(by, reason string) (int, error) {
	var rows []store.Kept
	var after []func()
	var held []*entry
	defer func() {
		for _, e := range held {
			e.endTurn()
		}
	}()
	for _, id := range s.sortedIDs() {
		e, err := s.lockEntry(s.o.Alive, id)
		if err != nil {
			return 0, err
		}
		held = append(held, e)
		if e.state.Paused != nil {
			continue
		}
		next := e.state.clone()
		next.Paused = &schedule.Pause{At: next.Begun, By: by, Reason: reason}
		if n := len(next.Done); n > 0 {
			next.Paused.At = latest(next.Begun, next.Done[n-1].To)
		}
		ev := s.numberEvent(next, schedule.Event{Kind: kindPaused, By: by, Reason: reason})
		more, err := s.rowsOf(e, next, []schedule.Event{ev})
		if err != nil {
			return 0, err
		}
		rows = append(rows, more...)
		after = append(after, func() {
			e.takeState(next, []schedule.Event{ev})
			s.armEntry(e)
		})
	}
	if len(rows) == 0 {
		return 0, nil
	}
	if err := s.o.Dir.KeepOutcomes(rows...); err != nil {
		return 0, err
	}
	for _, take := range after {
		take()
	}
	return len(after), nil
}
