package damagetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/internal/testing/harness/witness"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/workflow"
)

// The files of an engine directory.
const (
	indexFile = "pawl.db"
	indexWAL  = "pawl.db-wal"
	redoFile  = "pawl.db-redo"
	lockFile  = "LOCK"
	runsDir   = "runs"
)

// The places in a redo log, as package redo has them.
const (
	redoSector  = 512
	redoOwner   = redoSector
	redoRegions = 2 * redoSector // a sector for each of two
	redoFrames  = 4096
	redoStart   = 36 // bytes of the header
	redoHeader  = 24 // bytes of that of a frame
)

const workYAML = `
name: work
version: 1
start: one
nodes:
  - {id: one, task: quick, input: {v: input.v}, output: {state.v: result.v}}
  - {id: two, task: later, input: {v: state.v}, output: {output.v: result.v}}
transitions:
  - {from: one, to: two}
`

const askYAML = `
name: ask
version: 1
start: ask
nodes:
  - {id: ask, approval: {message: may it go on}, timeout: 1000h}
`

const deadYAML = `
name: dead
version: 1
start: fail
nodes:
  - {id: fail, task: broken, retry: {maxAttempts: 1, exhausted: park}}
`

// seqs is how far each run has come.
type seqs map[workflow.RunID]int64

// An ack is what had been acknowledged when the log had a length.
type ack struct {
	length int64
	seqs   seqs
}

// A scene is what some engines have left in a directory, at three moments. The commits of the second engine are
// in the write-ahead log, or, but for the starts of runs, in the redo log.
type scene struct {
	log   string // that one
	ids   []workflow.RunID
	cold  string // after the first engine, which closed
	early string // as a crash would have left it when the second one had done half
	hot   string // and at the end
	plus  string // and one commit later, which counts as not acknowledged
	acks  []ack  // of the second engine; the last is that of plus
	truth truth  // of hot
	tail  int64  // where the last transaction in the log of hot begins
}

// A troupe performs the tasks of scenes.
type troupe struct {
	mu    sync.Mutex
	keys  map[workflow.RunID]pawl.Key
	begun map[workflow.RunID]int
	waits chan workflow.RunID // runs whose later task has begun
}

func newTroupe() *troupe {
	return &troupe{keys: map[workflow.RunID]pawl.Key{}, begun: map[workflow.RunID]int{}, waits: make(chan workflow.RunID, 1024)}
}

// Execute implements pawl.Executor.
func (p *troupe) Execute(_ context.Context, t pawl.Task) (any, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begun[t.Run]++
	switch t.Type {
	case "quick":
		return t.Input, nil
	case "later":
		p.keys[t.Run] = t.Key
		p.waits <- t.Run
		return nil, pawl.ErrPending
	}
	return nil, errors.New("broken")
}

// expect waits until n later tasks have begun.
func (p *troupe) expect(ctx context.Context, t testing.TB, n int) {
	for range n {
		select {
		case <-p.waits:
		case <-ctx.Done():
			require.NoError(t, context.Cause(ctx))
		}
	}
}

// patience bounds what takes for ever only if something is broken.
const patience = 20 * time.Minute

// newScene makes a scene below a directory. It has runs that have ended and are
// filed, runs that are filed and go on in the write-ahead log, and runs that are in the log
// alone.
func newScene(t *testing.T, base string) *scene { return newSceneOf(t, base, indexWAL) }

func newSceneOf(t *testing.T, base, log string) *scene {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s := &scene{
		log:  log,
		cold: filepath.Join(base, "cold"), early: filepath.Join(base, "early"),
		hot: filepath.Join(base, "hot"), plus: filepath.Join(base, "plus"),
	}
	path := filepath.Join(base, "live")
	hook := &testhook.Hook{}
	ctx = testhook.With(ctx, hook)
	if log == indexWAL {
		hook.SetRedoBytes(1) // no commit fits
	}
	hook.SetPartBytes(400) // some records are put aside: not later, where each acknowledgement is to be of one commit
	s.firstLife(ctx, t, path)
	hook.SetPartBytes(0)
	copyDir(t, path, s.cold)
	s.secondLife(ctx, t, path)
	s.truth = tell(t, s.hot)
	require.Equal(t, s.acks[len(s.acks)-2].seqs, s.truth.seqs())
	s.tail = s.acks[len(s.acks)-3].length
	return s
}

func (s *scene) firstLife(ctx context.Context, t *testing.T, path string) {
	p := newTroupe()
	e, err := pawl.Open(ctx, path, pawl.Options{Executor: p, IdleAfter: time.Hour})
	require.NoError(t, err)
	for _, text := range []string{workYAML, askYAML, deadYAML} {
		_, err := e.Publish(t.Context(), witness.MustParse(text))
		require.NoError(t, err)
	}
	_, err = e.Once(ctx, "paid", func(context.Context) (any, error) { return map[string]any{"amount": 12345}, nil })
	require.NoError(t, err)
	for _, name := range []string{"done-1", "done-2", "wait-1", "wait-2", "wait-3"} {
		s.start(ctx, t, e, "work", name)
	}
	p.expect(ctx, t, 5)
	s.start(ctx, t, e, "ask", "ask-1")
	s.start(ctx, t, e, "dead", "dead-1")
	for _, id := range []workflow.RunID{"done-1", "done-2"} {
		require.NoError(t, e.Complete(ctx, p.keys[id], map[string]any{"v": "v" + string(id)}))
		_, err := e.Wait(ctx, id)
		require.NoError(t, err)
	}
	require.NoError(t, e.Close(ctx))
}

func (s *scene) start(ctx context.Context, t *testing.T, e *pawl.Engine, name, id string) {
	s.ids = append(s.ids, workflow.RunID(id))
	input := map[string]any{"v": strings.Repeat(id+" ", 40)}
	require.NoError(t, e.Start(ctx, workflow.Run{ID: workflow.RunID(id), Workflow: name, Labels: map[string]string{"of": name}}, input))
}

func (s *scene) secondLife(ctx context.Context, t *testing.T, path string) {
	p := newTroupe()
	e, err := pawl.Open(ctx, path, pawl.Options{Executor: p, IdleAfter: time.Hour})
	require.NoError(t, err)
	p.expect(ctx, t, 3)
	s.acked(t, e, path)
	for i := range 3 {
		for _, id := range []workflow.RunID{"wait-1", "wait-2"} {
			require.NoError(t, e.Signal(ctx, id, workflow.Signal{Name: "n", ID: fmt.Sprint(i), Payload: strings.Repeat("x", 100*i), Early: true}))
			s.acked(t, e, path)
		}
		id := fmt.Sprintf("new-%d", i+1)
		s.start(ctx, t, e, "work", id)
		p.expect(ctx, t, 1)
		s.acked(t, e, path)
		if i == 1 {
			copyDir(t, path, s.early)
		}
	}
	require.NoError(t, e.Signal(ctx, "wait-2", workflow.Signal{Name: "n", ID: "last", Early: true}))
	s.acked(t, e, path)
	copyDir(t, path, s.hot)
	require.NoError(t, e.Signal(ctx, "wait-1", workflow.Signal{Name: "n", ID: "plus", Payload: strings.Repeat("y", 5000), Early: true}))
	s.acked(t, e, path)
	copyDir(t, path, s.plus)
	testhook.From(ctx).Fence()
	require.NoError(t, e.Close(ctx))
}

// acked notes what is acknowledged now.
func (s *scene) acked(t *testing.T, e *pawl.Engine, path string) {
	a := ack{seqs: seqs{}}
	for _, id := range s.ids { // a list would move all into pawl.db
		view, err := e.Inspect(t.Context(), id)
		require.NoError(t, err)
		a.seqs[id] = view.Seq
	}
	info, err := os.Stat(filepath.Join(path, s.log))
	require.NoError(t, err)
	a.length = info.Size()
	s.acks = append(s.acks, a)
}

// at returns what was acknowledged when the log had at most a length, and what
// was next.
func (s *scene) at(length int64) (low, high seqs) {
	low, high = seqs{}, s.acks[0].seqs
	for i, a := range s.acks {
		if a.length <= length {
			low, high = a.seqs, s.acks[min(i+1, len(s.acks)-1)].seqs
		}
	}
	return low, high
}

// between reports whether a state lies between two.
func (q seqs) between(low, high seqs) bool {
	for id, n := range low {
		if q[id] < n {
			return false
		}
	}
	for id, n := range q {
		if n > high[id] {
			return false
		}
	}
	return true
}

func (q seqs) equal(o seqs) bool { return maps.Equal(q, o) }

// copyDir copies a directory in which nothing moves.
func copyDir(t testing.TB, from, to string) {
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Error(err)
	}
}

// fileOf returns where the file of a run is, below the directory.
func fileOf(t testing.TB, dir string, id workflow.RunID) string {
	into := filepath.Join(harness.Workspace(t), "copy")
	copyDir(t, dir, into)
	d, err := store.Open(into, store.Options{})
	require.NoError(t, err)
	h, err := d.Head(id)
	require.NoError(t, err)
	require.NoError(t, d.Close())
	return h.File
}
