package pawl_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/rescue"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/store/logtest"
	"github.com/pawl-run/pawl/workflow"
)

// A mendPlace is where a log loses its end: some machines, and runs that were acknowledged.
type mendPlace struct {
	*sharedPlace
	t   *testing.T
	dir string
	def *workflow.Definition
	h   pawl.Handlers
}

func newMendPlace(t *testing.T) *mendPlace {
	return &mendPlace{
		sharedPlace: newSharedPlace(t), t: t, dir: t.TempDir(),
		def: define(t, "name: w\nstart: a\nnodes: [{id: a, task: work}]\n"),
		h:   pawl.Handlers{"work": func(context.Context, pawl.Task) (any, error) { return int64(1), nil }},
	}
}

func (p *mendPlace) pathOf(machine string) string { return filepath.Join(p.dir, machine) }

func (p *mendPlace) open(machine string, fault func(string) logtest.Fault) (*pawl.Engine, error) {
	return pawl.Open(p.t.Context(), p.pathOf(machine), p.options(p.h, fault))
}

// live opens the engine on a machine, executes runs, checks which there are then, and closes it.
func (p *mendPlace) live(machine string, want int, runs ...workflow.RunID) {
	e, err := p.open(machine, nil)
	require.NoError(p.t, err)
	p.run(e, runs...)
	require.Len(p.t, idsOf(p.t, e), want)
	require.NoError(p.t, e.Close(p.t.Context()))
}

func (p *mendPlace) run(e *pawl.Engine, runs ...workflow.RunID) {
	for _, id := range runs {
		_, err := e.Run(p.t.Context(), workflow.Run{ID: id, Definition: p.def}, nil)
		require.NoError(p.t, err)
	}
}

func (p *mendPlace) entries() (all []store.Entry) {
	for e, err := range p.log.Writer(nil).Read(p.t.Context(), store.Position{}) {
		require.NoError(p.t, err)
		all = append(all, e)
	}
	return all
}

// refused checks that a machine cannot open the directory, and that this has changed neither that nor the log.
func (p *mendPlace) refused(machine, text string) {
	was := p.log.Clone()
	_, err := p.open(machine, nil)
	require.ErrorIs(p.t, err, pawl.ErrCorrupt)
	require.ErrorContains(p.t, err, text)
	require.True(p.t, was.Equal(p.log), "who is refused appends nothing")
}

// compare checks that the directories of some machines are sound and the same, when each has been open.
func (p *mendPlace) compare(want int, machines ...string) {
	for _, machine := range machines {
		p.live(machine, want)
	}
	p.live(machines[0], want)
	for _, machine := range machines {
		report, err := rescue.Verify(p.t.Context(), p.pathOf(machine), rescue.Options{})
		require.NoError(p.t, err)
		require.Empty(p.t, report.Findings)
		require.Equal(p.t, rowsOf(p.t, p.pathOf(machines[0])), rowsOf(p.t, p.pathOf(machine)))
	}
}

// kill leaves a directory as the death of its process does, and the log without the entries behind one.
func (p *mendPlace) kill(e *pawl.Engine, machine string, behind uint64) {
	synctest.Wait() // until no file of a run is on its way: a copy takes time
	crashed := filepath.Join(p.dir, "crashed")
	require.NoError(p.t, os.CopyFS(crashed, os.DirFS(p.pathOf(machine))))
	require.NoError(p.t, e.Close(p.t.Context()))
	require.NoError(p.t, os.RemoveAll(p.pathOf(machine)))
	require.NoError(p.t, os.Rename(crashed, p.pathOf(machine)))
	if p.log.Lose(behind); behind > 0 {
		require.EqualValues(p.t, behind, p.log.Len())
	}
}

// After a loss of power pawl.db may have less than was acknowledged, and than the log that has lost its end: what the tail has is
// appended again, wherever pawl.db and the log end.
func TestRemoteMendsWhatOnlyItsTailHas(t *testing.T) {
	for behind := uint64(3); behind < 8; behind += harness.Figure[uint64](2, 1, 1) {
		synctest.Test(t, func(t *testing.T) {
			p := newMendPlace(t)
			e, err := p.open("a", nil)
			require.NoError(t, err)
			p.run(e, "one")
			synctest.Wait()
			_, early := p.log.Bounds()
			old := filepath.Join(p.dir, "old")
			require.NoError(t, os.CopyFS(old, os.DirFS(p.pathOf("a"))))
			p.run(e, "two", "three")
			was := p.entries()
			require.Greater(t, len(was), 7)
			p.kill(e, "a", max(behind, early)) // the log keeps at least what pawl.db has
			for _, file := range []string{"pawl.db-tail", "pawl.db-tail.old"} {
				data, err := os.ReadFile(filepath.Join(p.pathOf("a"), file))
				if err == nil {
					require.NoError(t, os.WriteFile(filepath.Join(old, file), data, 0o600))
				}
			}
			require.NoError(t, os.RemoveAll(p.pathOf("a")))
			require.NoError(t, os.Rename(old, p.pathOf("a")))
			p.live("a", 3)
			require.Equal(t, was, p.entries()[:len(was)])
			p.compare(3, "a", "b")
		})
	}
}

// Whichever end the log has lost, and whatever it does while it is mended: it gets it again, byte for byte, from the directory
// that has appended it. A directory that is as far as the log was goes on from that.
func TestRemoteMendsItsLog(t *testing.T) {
	for behind := uint64(1); behind < 9; behind += harness.Figure[uint64](3, 1, 1) {
		t.Run(fmt.Sprint(behind), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newMendPlace(t)
				p.live("a", 1, "one")
				p.live("b", 1)
				e, err := p.open("a", nil)
				require.NoError(t, err)
				p.run(e, "two", "three")
				was := p.entries()
				require.Greater(t, len(was), 8)
				if behind%2 == 0 {
					p.kill(e, "a", behind)
				} else {
					require.NoError(t, e.Close(t.Context()))
					p.log.Lose(behind)
				}
				calls := 0
				e, err = p.open("a", func(string) logtest.Fault {
					calls++
					return []logtest.Fault{logtest.None, logtest.AnswerLost, logtest.None, logtest.Late, logtest.Refused}[calls%5]
				})
				require.NoError(t, err)
				require.Len(t, idsOf(t, e), 3)
				require.Equal(t, was, p.entries()[:len(was)])
				p.run(e, "four")
				require.NoError(t, e.Close(t.Context()))
				p.compare(4, "a", "b", "c")
			})
		})
	}
}

// While it is open, an engine notices that its log has lost its end, and fails; opened again, it goes on with all that it
// has acknowledged.
func TestRemoteWhoseLogLosesItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newMendPlace(t)
		e, err := p.open("a", nil)
		require.NoError(t, err)
		p.run(e, "one", "two")
		_, last := p.log.Bounds()
		p.log.Lose(last - 3)
		_, err = e.Run(t.Context(), workflow.Run{ID: "three", Definition: p.def}, nil)
		require.ErrorIs(t, err, pawl.ErrCorrupt)
		require.ErrorIs(t, e.AwaitFailure(t.Context()), pawl.ErrFailed)
		_ = e.Close(t.Context()) // it has failed
		p.live("a", 3, "three")
		p.compare(3, "a", "b")
	})
}

// Wherever it dies that appends a lost end again, it goes on there; and somebody else who comes before it has a part of that end, and makes the
// rest void.
func TestRemoteDiesWhileItMends(t *testing.T) {
	for hit := 1; hit <= 5; hit++ {
		synctest.Test(t, func(t *testing.T) {
			p := newMendPlace(t)
			p.live("a", 2, "one", "two")
			was := p.entries()
			p.log.Lose(uint64(len(was)) - 5) //nolint:gosec // there are more
			hook, hits, done := &testhook.Hook{}, 0, 0
			hook.OnHit(func(point string) {
				if point != "remote.again" {
					return
				}
				if hits++; hits == hit {
					require.NoError(t, harness.CopyLive(p.pathOf("dead"), p.pathOf("a")))
					done = p.log.Len()
				}
			})
			e, err := pawl.Open(testhook.With(t.Context(), hook), p.pathOf("a"), p.options(p.h, nil))
			require.NoError(t, err)
			require.NoError(t, e.Close(t.Context()))
			require.Equal(t, 5, hits)
			require.Equal(t, len(was)-5+hit, done)
			p.log.Lose(uint64(done)) //nolint:gosec // not negative
			if hit == 3 {            // somebody else comes first
				p.live("other", 1)
				p.refused("dead", "somebody else has appended something")
				return
			}
			p.live("dead", 3, "three")
			require.Equal(t, was, p.entries()[:len(was)])
			p.compare(3, "dead", "new")
		})
	}
}

// If somebody else has appended an entry, the lost end is void, and an empty log is another one. An engine that is refused takes the log from
// nobody.
func TestRemoteThatForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newMendPlace(t)
		p.live("a", 1, "one")
		_, kept := p.log.Bounds()
		p.live("a", 2, "two")
		p.log.Lose(kept)
		b, err := p.open("b", nil)
		require.NoError(t, err)
		p.refused("a", "somebody else has appended something")
		p.run(b, "three", "four", "five")
		p.refused("a", "it does not go on from the one before it")
		require.NoError(t, b.Close(t.Context()))
		p.live("b", 5, "six")
		p.log.Lose(0)
		p.refused("b", "the log is empty")
	})
}

// A directory that stood by, or lost the log to another one, does not know the end of it: it appends nothing. The owner's does.
func TestRemoteMendsWhatItOwned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newMendPlace(t)
		p.live("b", 0)
		a, err := p.open("a", nil)
		require.NoError(t, err)
		p.run(a, "one")
		ctx, stop := context.WithCancel(t.Context())
		o, looked := p.options(p.h, nil), make(chan struct{}, 1)
		o.Remote.StandBy = make(chan struct{})
		o.Remote.Report = func(pawl.RemoteReport) {
			select {
			case looked <- struct{}{}:
			default:
			}
		}
		ended := make(chan error)
		go func() { _, err := pawl.Open(ctx, p.pathOf("b"), o); ended <- err }()
		<-looked
		stop()
		require.ErrorIs(t, <-ended, context.Canceled)
		_, seen := p.log.Bounds()
		p.run(a, "two")
		p.kill(a, "a", seen-1)
		p.refused("b", "another machine's")
		p.live("a", 2)

		a, err = p.open("a", nil)
		require.NoError(t, err)
		p.run(a, "three")
		_, last := p.log.Bounds()
		p.live("b", 3)
		_, err = a.Run(t.Context(), workflow.Run{ID: "four", Definition: p.def}, nil)
		require.ErrorIs(t, err, pawl.ErrFenced)
		_ = a.Close(t.Context()) // it has failed
		p.log.Lose(last - 2)
		p.refused("a", "does not keep all of it any more")
		p.live("b", 3)
		p.compare(3, "b", "a")
	})
}

// The directory keeps entries up to a bound, and nothing that was purged when it is closed; a damaged one is not appended. A directory without
// a log keeps nothing.
func TestTailOfTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newMendPlace(t)
		hook := &testhook.Hook{}
		hook.SetTailBytes(4000)
		sizes := func() (all int64) {
			for _, name := range []string{"pawl.db-tail", "pawl.db-tail.old"} {
				if info, err := os.Stat(filepath.Join(p.pathOf("a"), name)); err == nil {
					all += info.Size()
				}
			}
			return all
		}
		e, err := pawl.Open(testhook.With(t.Context(), hook), p.pathOf("a"), p.options(p.h, nil))
		require.NoError(t, err)
		for i := range 20 {
			p.run(e, workflow.RunID(fmt.Sprint("run-", i)))
			require.LessOrEqual(t, sizes(), int64(8000))
		}
		require.Greater(t, sizes(), int64(4000))
		require.NoError(t, e.Close(t.Context()))
		_, last := p.log.Bounds()
		p.log.Lose(last - 4)
		p.live("a", 20)

		tail := filepath.Join(p.pathOf("a"), "pawl.db-tail")
		whole, err := os.ReadFile(tail)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(tail, whole[:len(whole)-3], 0o600))
		p.log.Lose(last - 4)
		p.refused("a", "does not keep all of it")
		damaged := bytes.Clone(whole)
		damaged[len(damaged)-400] ^= 1
		require.NoError(t, os.WriteFile(tail, damaged, 0o600))
		p.refused("a", "does not keep all of it")
		require.NoError(t, os.WriteFile(tail, whole, 0o600))
		p.log.Lose(20)
		p.refused("a", "does not keep all of it")
		require.NoError(t, os.Remove(tail))
		p.refused("a", "does not keep all of it")

		alone := open(t, p.pathOf("alone"), pawl.Options{Executor: p.h})
		p.run(alone, "one")
		require.NoError(t, alone.Close(t.Context()))
		require.NoFileExists(t, filepath.Join(p.pathOf("alone"), "pawl.db-tail"))
	})
	synctest.Test(t, func(t *testing.T) {
		p := newMendPlace(t)
		p.live("b", 0)
		e, err := p.open("a", nil)
		require.NoError(t, err)
		p.run(e, "secret-run", "other")
		require.NoError(t, e.Purge(t.Context(), "secret-run"))
		require.FileExists(t, filepath.Join(p.pathOf("a"), "pawl.db-tail"))
		require.NoError(t, e.Close(t.Context()))
		require.NoFileExists(t, filepath.Join(p.pathOf("a"), "pawl.db-tail"))
		require.NoFileExists(t, filepath.Join(p.pathOf("a"), "pawl.db-tail.old"))
		p.live("b", 1) // it gets both from the log
		require.NoFileExists(t, filepath.Join(p.pathOf("b"), "pawl.db-tail"))
		p.live("b", 1)
		require.FileExists(t, filepath.Join(p.pathOf("b"), "pawl.db-tail"))
	})
}

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

// The log of another directory is not begun anew, whose runs would be given up. It is known by its bases; if they cannot be read, each counts as given up.
func TestRecoverRefusesTheLogOfAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, x := newMendPlace(t), newMendPlace(t)
		x.live("x", 2, "x-1", "x-2")
		e := open(t, p.pathOf("y"), pawl.Options{Executor: p.h})
		p.run(e, "y-1", "y-2", "y-3")
		require.NoError(t, e.Close(t.Context()))
		p.live("y", 3) // its log has only openings, and a base with these runs
		was := p.entries()
		o := pawl.RecoverOptions{Log: p.log.Writer(nil), Bases: p.bases, Begin: true}
		_, err := pawl.Recover(t.Context(), x.pathOf("x"), o)
		require.ErrorIs(t, err, pawl.ErrOtherLog)
		o.Bases = x.bases // which has none of these
		report, err := pawl.Recover(t.Context(), x.pathOf("x"), o)
		require.ErrorIs(t, err, pawl.ErrGivesUp)
		require.Equal(t, 1, report.GivenUp)
		require.Equal(t, was, p.entries())
		x.live("x", 3, "x-3")
		p.live("y", 4, "y-4")
	})
}

// The survey finds entries behind a large hole, and no less is told than is given up. A directory that has the last entry lacks nothing.
func TestRecoverBehindALargeHole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newMendPlace(t)
		p.live("a", 1, "one")
		_, known := p.log.Bounds()
		e, err := p.open("b", nil)
		require.NoError(t, err)
		waits := define(t, "name: w\nstart: a\nnodes: [{id: a, wait: {event: go}}]\n")
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "waits", Definition: waits}, nil))
		const hole, behind = 1100, 50
		for n := range hole + behind {
			require.NoError(t, e.Do(t.Context(), "waits", []pawl.Act{pawl.Pause{}, pawl.Resume{}}[n%2]))
		}
		require.NoError(t, e.Close(t.Context()))
		_, last := p.log.Bounds()
		for seq := known + 2; seq < known+2+hole; seq++ {
			p.log.Miss(seq)
		}
		report, err := p.recover("a", nil, behind)
		require.ErrorIs(t, err, pawl.ErrGivesUp)
		require.Equal(t, last, report.Log.Seq)
		require.GreaterOrEqual(t, report.GivenUp, int(last-known-1-hole)+1) //nolint:gosec // it is small
		require.LessOrEqual(t, report.GivenUp, int(last-known))             //nolint:gosec // likewise
		report, err = p.recover("b", nil, 0)
		require.NoError(t, err)
		require.Zero(t, report.GivenUp)
		require.Equal(t, last, report.Common)
		p.live("a", 2)
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
