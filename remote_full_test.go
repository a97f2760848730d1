package pawl_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/store/logtest"
	"github.com/pawl-run/pawl/workflow"
)

// A boundedLog has room for so many entries, once there is a bound.
type boundedLog struct {
	*logtest.Writer
	memory *logtest.Memory
	most   atomic.Int64 // 0: no bound
	fault  atomic.Int64 // of the next call, which finds room: a logtest.Fault
}

func newBoundedLog(memory *logtest.Memory) *boundedLog {
	l := &boundedLog{memory: memory}
	l.Writer = memory.Writer(func(string) logtest.Fault { return logtest.Fault(l.fault.Swap(0)) })
	return l
}

// fill bounds the log at so many entries more than it has.
func (l *boundedLog) fill(more int) { l.most.Store(int64(l.memory.Len() + more)) }

func (l *boundedLog) checkRoom() error {
	if most := l.most.Load(); most > 0 && int64(l.memory.Len()) >= most && l.fault.Load() == 0 {
		return fmt.Errorf("%w: the log", pawl.ErrNoSpace)
	}
	return nil
}

func (l *boundedLog) Append(ctx context.Context, entry []byte) (store.Position, error) {
	if err := l.checkRoom(); err != nil {
		return store.Position{}, err
	}
	return l.Writer.Append(ctx, entry)
}

func (l *boundedLog) Take(ctx context.Context, makeEntry func(store.Position) []byte) (store.Position, error) {
	if err := l.checkRoom(); err != nil {
		return store.Position{}, err
	}
	return l.Writer.Take(ctx, makeEntry)
}

// A log that gets full while an answer is missing lets old entries go, and the entry is there once, whether the first attempt
// had got there or not.
func TestRemoteThatIsFullBehindALostAnswer(t *testing.T) {
	for _, fault := range []logtest.Fault{logtest.Refused, logtest.AnswerLost} {
		synctest.Test(t, func(t *testing.T) {
			p := newMendPlace(t)
			log, o := newBoundedLog(p.log), p.options(p.h, nil)
			o.Remote.Log, o.Remote.Rebase = log, time.Hour
			e, err := pawl.Open(t.Context(), p.pathOf("a"), o)
			require.NoError(t, err)
			for i := range 20 {
				p.run(e, workflow.RunID(fmt.Sprint("run-", i)))
			}
			<-time.After(2 * time.Hour) // there is a second base
			log.fill(0)
			log.fault.Store(int64(fault))
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			require.NoError(t, e.Start(ctx, workflow.Run{ID: "new", Definition: p.def}, nil))
			log.most.Store(0)
			require.NoError(t, e.Close(t.Context()))
			p.live("b", 21)
		})
	}
}

// A log that is full when it is taken lets go what is older than its last base.
func TestRemoteOpensOnAFullLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newMendPlace(t)
		log, o := newBoundedLog(p.log), p.options(p.h, nil)
		o.Remote.Log = log
		p.live("a", 2, "one", "two") // with a base
		e, err := p.open("a", nil)
		require.NoError(t, err)
		p.run(e, "three")
		<-time.After(2 * time.Minute) // there is a second base
		require.NoError(t, e.Close(t.Context()))
		log.fill(0)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		e, err = pawl.Open(ctx, p.pathOf("a"), o)
		require.NoError(t, err)
		log.most.Store(0)
		require.NoError(t, e.Close(t.Context()))
		p.compare(3, "a", "b")
	})
}

// A narrowStore of bases has room for so many bytes more. It says that it is full, but not soon.
type narrowStore struct {
	*blob.Files
	left atomic.Int64
	room chan struct{} // closed when there is room for all
}

func (s *narrowStore) Put(ctx context.Context, r io.Reader) (string, int64, error) {
	data, err := io.ReadAll(r)
	if err != nil {
		return "", 0, err
	}
	if s.left.Load() < int64(len(data)) {
		select {
		case <-time.After(2 * time.Hour):
		case <-s.room:
		}
		return "", 0, fmt.Errorf("%w: the store of bases", pawl.ErrNoSpace)
	}
	s.left.Add(-int64(len(data)))
	return s.Files.Put(ctx, bytes.NewReader(data))
}

// A base that a full log refuses at first keeps all of its parts: also those that were put long before, when the store of
// bases was full.
func TestRemoteBaseForAFullLogIsWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newMendPlace(t)
		p.h["work"] = func(context.Context, pawl.Task) (any, error) { return harness.RandomLetters(40 << 10), nil }
		log, bases, o := newBoundedLog(p.log), &narrowStore{Files: p.bases, room: make(chan struct{})}, p.options(p.h, nil)
		bases.left.Store(1 << 40)
		o.Remote.Log, o.Remote.Rebase, o.Remote.Bases = log, time.Hour, bases
		o.Remote.Report = func(r pawl.RemoteReport) {
			if r.Err == nil { // there is a base, and the machine may be lost now
				into, err := os.MkdirTemp(p.dir, "restored-*")
				require.NoError(t, err)
				info, err := pawl.Restore(t.Context(), into, pawl.RestoreOptions{Log: p.log.Writer(nil), Bases: p.bases})
				require.NoError(t, err)
				require.Empty(t, info.Damaged)
			}
		}
		e, err := pawl.Open(t.Context(), p.pathOf("a"), o)
		require.NoError(t, err)
		for i := range 5 {
			p.run(e, workflow.RunID(fmt.Sprint("early-", i)))
		}
		<-time.After(2 * time.Hour) // there is a second base
		bases.left.Store(500 << 10) // for a part of the next one
		for i := range 20 {
			p.run(e, workflow.RunID(fmt.Sprint("late-", i)))
		}
		<-time.After(26 * time.Hour)
		log.fill(1)
		for err = nil; err == nil; {
			err = e.Start(t.Context(), workflow.Run{ID: workflow.RunID(fmt.Sprint("last-", p.log.Len())), Definition: p.def}, nil)
		}
		require.ErrorIs(t, err, pawl.ErrNoSpace)
		bases.left.Store(1 << 40)
		close(bases.room)
		<-time.After(2 * time.Minute)
		p.run(e, "after")
		require.NoError(t, e.Close(t.Context()))
	})
}

// Lives that come to one base each keep no more of the log than a long one: what the last two bases need.
func TestRemoteLivesOfOneBase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newMendPlace(t)
		for i := range 5 {
			e, err := p.open("a", nil)
			require.NoError(t, err)
			for j := range 3 {
				p.run(e, workflow.RunID(fmt.Sprint("run-", i, "-", j)))
			}
			<-time.After(90 * time.Second) // there is a base
			require.NoError(t, e.Close(t.Context()))
		}
		bases := 0
		for _, entry := range p.entries() {
			if entry.Data[1] == 3 { // the kind of a base
				bases++
			}
		}
		require.Equal(t, 2, bases)
		first, _ := p.log.Bounds()
		require.Greater(t, first, uint64(15))
		p.compare(15, "a", "b")
	})
}

// A full log of a follower lets go what is older than it is to keep, and the copy goes on.
func TestFollowIntoAFullLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newMendScene(t)
		log, ended := newBoundedLog(s.memory), make(chan error, 1)
		var last atomic.Pointer[pawl.FollowReport]
		go func() {
			ended <- s.engine.Follow(t.Context(), pawl.FollowOptions{
				Log: log, Bases: s.bases, Rebase: time.Hour, Keep: 2 * time.Hour, Report: func(r pawl.FollowReport) { last.Store(&r) },
			})
		}()
		runFor := func(hours int) {
			for range 6 * hours {
				s.run(nil)
				<-time.After(10 * time.Minute)
			}
		}
		<-time.After(500 * time.Millisecond) // the follower looks at whole seconds, and finds each run in one entry
		runFor(4)
		require.NoError(t, last.Load().Err)
		log.fill(0)
		runFor(5)
		require.NoError(t, last.Load().Err)
		require.Less(t, time.Since(last.Load().At), 2*time.Hour)
		runs, err := s.restore(time.Time{})
		require.NoError(t, err)
		require.Greater(t, runs, 9*6-12)
		log.most.Store(0)
		s.close()
		require.NoError(t, <-ended)
	})
}
