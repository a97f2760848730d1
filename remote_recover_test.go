package pawl_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/store/logtest"
	"github.com/pawl-run/pawl/workflow"
)

func (p *mendPlace) recover(machine string, hook *testhook.Hook, giveUp int) (pawl.RecoverReport, error) {
	o := pawl.RecoverOptions{Log: p.log.Writer(nil), Bases: p.bases, Begin: giveUp >= 0, GiveUp: giveUp}
	return pawl.Recover(testhook.With(p.t.Context(), hook), p.pathOf(machine), o)
}

// A log with a hole, or none, is begun anew from a directory that is whole: everything is there, everywhere.
func TestRecoverALogThatIsDamaged(t *testing.T) {
	for name, damage := range map[string]func(p *mendPlace){
		"a hole": func(p *mendPlace) { p.log.Miss(5) },
		"a damaged entry": func(p *mendPlace) {
			p.log.Change(5, func(b []byte) []byte { b[len(b)/2] ^= 1; return b })
		},
		"it is gone": func(p *mendPlace) { p.log = &logtest.Memory{} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newMendPlace(t)
				p.live("a", 1, "one")
				p.live("b", 1)
				p.live("a", 3, "two", "three")
				damage(p)
				p.refused("new", "")
				before := p.log.Len()
				report, err := p.recover("a", nil, -1)
				require.NoError(t, err)
				require.Equal(t, before, p.log.Len(), "it only reports")
				require.False(t, report.Begun)
				require.Zero(t, report.GivenUp)
				require.Equal(t, before == 0, report.Damage == "")
				require.Equal(t, before == 0, report.Lacks > 0)
				report, err = p.recover("a", nil, 0)
				require.NoError(t, err)
				require.True(t, report.Begun)
				require.EqualValues(t, 1, report.Generation)
				require.Equal(t, 2, p.log.Len(), "nothing is there but the beginning, and the base")
				p.live("c", 3)
				p.live("a", 4, "four")
				p.live("b", 4)
				require.DirExists(t, p.pathOf("b.superseded"))
				p.compare(4, "a", "b", "c")
				_, err = p.recover("a", nil, 0)
				require.ErrorIs(t, err, pawl.ErrNothingLost)
				into := filepath.Join(p.dir, "restored")
				_, err = pawl.Restore(t.Context(), into, pawl.RestoreOptions{Log: p.log.Writer(nil), Bases: p.bases})
				require.NoError(t, err)
				require.Equal(t, rowsOf(t, p.pathOf("a")), rowsOf(t, into))
			})
		})
	}
}

// A caller who begins a log anew has to say how much of it is given up; entries behind those of the directory that can be
// read are not. The engine that has the log commits nothing more.
func TestRecoverGivesUpWhatIsSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newMendPlace(t)
		p.live("a", 1, "one")
		_, kept := p.log.Bounds()
		p.live("a", 2, "two")
		p.log.Lose(kept)
		_, err := p.recover("a", nil, 0)
		require.ErrorIs(t, err, pawl.ErrNothingLost, "Open appends it again")
		b, err := p.open("b", nil)
		require.NoError(t, err)
		p.run(b, "three", "four")
		was := p.entries()
		report, err := p.recover("a", nil, -1)
		require.NoError(t, err)
		require.Equal(t, kept, report.Common)
		require.Positive(t, report.Lacks)
		require.Greater(t, report.GivenUp, 2)
		require.False(t, report.Until.Before(report.Since))
		_, err = p.recover("a", nil, report.GivenUp-1)
		require.ErrorIs(t, err, pawl.ErrGivesUp)
		require.Equal(t, was, p.entries())
		_, err = p.recover("a", nil, report.GivenUp)
		require.NoError(t, err)
		_, err = b.Run(t.Context(), workflow.Run{ID: "five", Definition: p.def}, nil)
		require.ErrorIs(t, err, pawl.ErrFenced)
		_ = b.Close(t.Context()) // it has failed
		p.live("b", 2)
		require.DirExists(t, p.pathOf("b.superseded"))
		p.compare(2, "a", "b", "c")

		_, kept = p.log.Bounds()
		p.live("c", 3, "three")
		_, last := p.log.Bounds()
		p.live("c", 4, "four")
		p.log.Miss(last + 1)
		p.refused("a", "it is missing")
		report, err = p.recover("a", nil, 100)
		require.NoError(t, err)
		require.Positive(t, report.GivenUp)
		require.EqualValues(t, 2, report.Generation)
		p.compare(3, "a", "c", "b")
		require.Greater(t, last, kept)
	})
}

// A directory without a log, or with one that is not known, is refused.
func TestRecoverRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newMendPlace(t)
		_, err := p.recover("none", nil, 0)
		require.ErrorIs(t, err, os.ErrNotExist)
		require.NoError(t, open(t, p.pathOf("alone"), pawl.Options{}).Close(t.Context()))
		_, err = p.recover("alone", nil, 0)
		require.ErrorIs(t, err, pawl.ErrOtherLog)
		_, err = pawl.Recover(t.Context(), p.pathOf("alone"), pawl.RecoverOptions{})
		require.ErrorIs(t, err, pawl.ErrInvalid)
		a, err := p.open("a", nil)
		require.NoError(t, err)
		p.log.Miss(1)
		_, err = p.recover("a", nil, 0)
		require.ErrorIs(t, err, pawl.ErrLocked)
		require.NoError(t, a.Close(t.Context()))
	})
}

// Wherever it dies that begins a log anew: it can be repeated, or the next opening of the directory finishes it. Nobody else
// begins with less meanwhile.
func TestRecoverDies(t *testing.T) {
	for _, point := range []string{"remote.taken", "remote.base", "remote.based"} {
		for again := range 2 {
			synctest.Test(t, func(t *testing.T) {
				p := newMendPlace(t)
				p.live("b", 1, "one")
				p.live("a", 2, "two")
				p.log.Miss(3)
				hook, memory := &testhook.Hook{}, &logtest.Memory{}
				hook.OnHit(func(at string) {
					if at == point {
						require.NoError(t, harness.CopyLive(p.pathOf("dead"), p.pathOf("a")))
						memory = p.log.Clone()
					}
				})
				_, err := p.recover("a", hook, 0)
				require.NoError(t, err)
				p.log = memory
				require.NoError(t, os.RemoveAll(p.pathOf("a")))
				if point != "remote.based" {
					p.refused("b", "") // of the hole, or because it is not finished
				}
				if again == 1 || point == "remote.taken" {
					report, err := p.recover("dead", nil, 0)
					require.NoError(t, err)
					require.EqualValues(t, 2, report.Generation)
				}
				p.live("dead", 2)
				first, _ := p.log.Bounds()
				require.Greater(t, first, uint64(3), "the hole is gone")
				<-time.After(time.Second)
				p.compare(2, "dead", "b", "new")
			})
		}
	}
}

// Entries that a directory never had, and that the log has dropped since a base holds them, are given up as well; and a
// directory whose log was begun anew from another one begins nothing anew.
func TestRecoverGivesUpWhatOnlyABaseHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newMendPlace(t)
		p.live("a", 1, "one")
		p.live("b", 1)
		_, known := p.log.Bounds()
		p.live("a", 4, "two", "three", "four")
		_, last := p.log.Bounds()
		require.Greater(t, last, known+5)
		require.NoError(t, p.log.Writer(nil).Drop(t.Context(), store.Position{Seq: last - 1}))
		report, err := p.recover("b", nil, 0)
		require.ErrorIs(t, err, pawl.ErrGivesUp)
		require.GreaterOrEqual(t, report.GivenUp, int(last-1-known))

		p.log.Miss(last)
		_, err = p.recover("a", nil, 1)
		require.NoError(t, err)
		was := p.entries()
		_, err = p.recover("b", nil, 1<<20)
		require.ErrorIs(t, err, pawl.ErrOtherLog)
		require.Equal(t, was, p.entries())
		p.compare(4, "a", "c")
	})
}

// A run that was purged elsewhere, before the entry that cannot be read, leaves no file.
func TestRecoverLeavesNoFileOfAPurgedRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newMendPlace(t)
		p.live("a", 2, "one", "two")
		b, err := p.open("b", nil)
		require.NoError(t, err)
		require.NoError(t, b.Purge(t.Context(), "one"))
		_, last := p.log.Bounds()
		p.run(b, "three")
		require.NoError(t, b.Close(t.Context()))
		p.log.Miss(last + 1)
		report, err := p.recover("a", nil, 100)
		require.NoError(t, err)
		require.Positive(t, report.GivenUp)
		p.compare(1, "a", "c")
	})
}

// An entry that somebody appends to a log between the look at it and its beginning anew is not given up, wherever its damage
// is.
func TestRecoverNoticesWhoAppendsMeanwhile(t *testing.T) {
	for _, end := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			p := newMendPlace(t)
			p.live("a", 2, "one", "two")
			_, last := p.log.Bounds()
			if end {
				p.log.Miss(last)
			} else {
				p.log.Miss(last - 2)
			}
			log := &watchedLog{Log: p.log.Writer(nil), before: func(n int) {
				if n == 2 { // the first one only looks
					_, err := p.log.Writer(nil).Take(t.Context(), func(store.Position) []byte { return []byte("of somebody else") })
					require.NoError(t, err)
				}
			}}
			_, err := pawl.Recover(t.Context(), p.pathOf("a"), pawl.RecoverOptions{Log: log, Bases: p.bases, Begin: true, GiveUp: 100})
			require.ErrorIs(t, err, pawl.ErrFenced)
			require.Equal(t, 2, log.n)
			_, now := p.log.Bounds()
			require.Equal(t, last+1, now)
		})
	}
}

// A watchedLog calls before with how often it was to be taken.
type watchedLog struct {
	store.Log
	n      int
	before func(n int)
}

func (l *watchedLog) Take(ctx context.Context, makeEntry func(store.Position) []byte) (store.Position, error) {
	l.n++
	l.before(l.n)
	return l.Log.Take(ctx, makeEntry)
}
