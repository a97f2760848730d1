//go:build amd64 || arm64

package disktest

import (
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"golang.org/x/sys/unix"

	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/internal/testing/harness/witness"
)

// everyClass are the classes of calls that a fault can come to.
var everyClass = []class{syncs, writes, cuts, reads, names, opens, looks}

// A fault is what happens to some calls of one class: from the n-th on, so many.
type fault struct {
	classes []class
	n, span int    // from 1
	path    string // the only one; "" for any
	lasts   bool   // the host need not come to the end before the fault is over
	verdict verdict
}

// An injection is a fault under way.
type injection struct {
	fault
	mu     sync.Mutex
	seen   int
	calls  []call // of the classes, in order
	hits   []call // that the fault came to
	spoilt bool   // a sync of the log failed, and the engine was not opened again
	after  int    // writes to the log since
	silent bool   // nobody was told
}

func (i *injection) judge(c call) verdict {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.watch(c)
	if i.verdict.errno == unix.ENOSPC && c.class == names && strings.HasPrefix(c.path, "pawl.db-") {
		return verdict{} // it is there, or goes: neither takes space
	}
	if i.path != "" && i.path != c.path {
		return verdict{}
	}
	if len(i.classes) > 0 && !slices.Contains(i.classes, c.class) || len(i.classes) == 0 && c.class == looks {
		return verdict{}
	}
	i.seen++
	i.calls = append(i.calls, c)
	if i.n == 0 || i.seen < i.n || i.seen >= i.n+i.span {
		return verdict{}
	}
	i.hits = append(i.hits, c)
	v := i.verdict
	v.short = v.short && len(i.hits) == 1
	i.spoilt = i.spoilt || c == call{syncs, "pawl.db-wal"} || c == call{syncs, "pawl.db-redo"}
	return v
}

// watch finds that an engine goes on committing after a sync of its log that
// failed. The one that is opened next is another.
func (i *injection) watch(c call) {
	switch c {
	case call{names, "LOCK"}:
		i.spoilt = false
	case call{writes, "pawl.db-wal"}, call{writes, "pawl.db-redo"}:
		if i.spoilt {
			i.after++
		}
	}
}

// A sweep does one work again and again, each time with another fault.
type sweep struct {
	t    *testing.T
	dir  string
	work work
	want map[string]string
	from string           // of a host that was killed, which every trial goes on with; "" begins anew
	was  witness.Snapshot // there
	made []call           // by the work without a fault, in order; nil if that is not known

	mu                   sync.Mutex
	trials, hits, missed int
	surfaced             int
	reopened             int
	silent               map[call]int // faults that nobody was told of
	wrong                int
	where                map[string]int // hits by class
}

// supervised starts a filtered child, or skips the test.
func supervised(t *testing.T) *child {
	c, err := startChild(true)
	if errors.Is(err, errNoFilter) {
		t.Skipf("SKIPPED: no fault can be injected into system calls: %v", err)
	}
	require.NoError(t, err)
	return c
}

func emptySweep(t *testing.T, w work) *sweep {
	return &sweep{t: t, dir: harness.Workspace(t), work: w, where: map[string]int{}, silent: map[call]int{}}
}

// newSweep does a work without a fault, to know how its runs end.
func newSweep(t *testing.T, w work) *sweep {
	s := emptySweep(t, w)
	c := supervised(t)
	i := &injection{fault: fault{classes: everyClass}}
	r, err := s.one(c, i)
	_, ended := c.end()
	require.NoError(t, errors.Join(err, ended))
	require.Empty(t, r.Wrong, "%s, without a fault", w.name)
	s.want, s.made = r.Was.Outcomes(), i.calls
	s.trials, s.hits, s.missed, s.surfaced, s.reopened = 0, 0, 0, 0, 0
	return s
}

// kill has every further trial go on where a host was killed at its n-th write.
func (s *sweep) kill(n int) {
	dir, err := os.MkdirTemp(s.dir, "killed")
	require.NoError(s.t, err)
	t, err := newTrial(dir, s.work, nil)
	require.NoError(s.t, err)
	c := supervised(s.t)
	i := &injection{fault: fault{classes: []class{writes}, n: n, span: 1, verdict: verdict{kill: true}}}
	c.set(t.Engine(), i.judge)
	var r report
	require.Error(s.t, c.do(order{Work: s.work.name, Dir: dir, Life: 1}, &r), "it was not killed")
	_, err = c.end()
	require.NoError(s.t, err)
	t.Lives = 1
	t.Look(false)
	require.Empty(s.t, t.Wrong)
	s.from, s.was, s.made = dir, t.Was, nil
}

// count returns how many calls of some classes the work makes.
func (s *sweep) count(classes ...class) int {
	if s.made == nil {
		c := supervised(s.t)
		i := &injection{fault: fault{classes: everyClass}}
		_, err := s.one(c, i)
		_, ended := c.end()
		require.NoError(s.t, errors.Join(err, ended))
		s.made = i.calls
	}
	n := 0
	for _, c := range s.made {
		if slices.Contains(classes, c.class) {
			n++
		}
	}
	return n
}

// harmless reports whether SQLite may make this call in vain without a word: it
// syncs the directory for names that are durable before, and in the end removes a
// log that is empty. After a crash the empty
// folder tmp need not be read to be removed, and a look at a file of a run that
// fails is made again. Before a file takes the name of the redo log, os.Root.Rename looks whether that is
// a folder, and passes an error over.
func (c call) harmless() bool {
	if c == (call{opens, "tmp"}) || c == (call{looks, "pawl.db-redo"}) || c.class == looks && strings.HasPrefix(c.path, "runs/") {
		return true
	}
	return c.path == "" && (c.class == syncs || c.class == opens) || c == call{names, "pawl.db-wal"}
}

// maxHarmless is how often nobody may be told of a fault of one call in a sweep of
// faults. A host opens an engine once and closes it once, or, where it goes on after
// a crash, also finds what the crash left. Each of these makes a harmless call of one
// kind at a name once at most. So the bound reveals a kind of call whose faults are
// all swallowed.
const maxHarmless = 2

// begin makes the directory of a trial: a new one, or that of a host that was
// killed.
func (s *sweep) begin() (*trial, error) {
	dir, err := os.MkdirTemp(s.dir, s.work.name)
	if err != nil {
		return nil, err
	}
	t, err := newTrial(dir, s.work, s.want)
	if err != nil {
		return nil, err
	}
	if s.from != "" {
		t.Was, t.Lives = s.was, 1
		err = os.CopyFS(dir, os.DirFS(s.from))
	}
	return t, err
}

// one does the work once, in a child that goes on, and checks what is left. It may
// be called by any goroutine.
func (s *sweep) one(c *child, i *injection) (*trial, error) {
	t, err := s.begin()
	if err != nil {
		return nil, err
	}
	c.set(t.Engine(), i.judge)
	var r report
	err = c.do(order{Work: s.work.name, Dir: t.Dir, Life: t.Lives + 1}, &r)
	c.set("", nil)
	killed := err != nil && i.verdict.kill
	switch {
	case err != nil && !killed:
		t.Bad("the child is gone: %v", err)
	case killed:
		_, err := c.end()
		if err != nil {
			t.Bad("%v", err)
		}
		t.Lives++
	default:
		t.Lives = r.Life
		s.judge(t, i, r)
	}
	if killed {
		t.Look(false)
	}
	t.finish()
	s.note(t, i, r)
	return t, nil
}

// judge checks what the host was told: of every fault something, of no fault
// nothing, and that it came to the end.
func (s *sweep) judge(t *trial, i *injection, r report) {
	if !r.Done && !i.lasts {
		t.Bad("the host gave up: %+v", r)
	}
	switch {
	case len(i.hits) == 0 || r.surfaced() > 0:
	case len(i.hits) == 1 && i.hits[0].harmless():
		i.silent = true
	default:
		t.Bad("%d faults, and nobody was told", len(i.hits))
	}
	if i.after > 0 {
		t.Bad("%d writes to the log after its sync had failed", i.after)
	}
	if len(i.hits) == 0 && r.surfaced() > 0 {
		t.Bad("no fault, and yet: %+v", r)
	}
	unreadable := i.span > 1 && slices.Contains(i.classes, reads) // that is as good as damaged
	for _, e := range r.Told {
		if e.Corrupt && !unreadable || e.Version || e.Locked {
			t.Bad("an error of the disk is told as: %s: %s", e.Op, e.Text)
		}
		if i.verdict.errno == unix.ENOSPC && !e.NoSpace {
			t.Bad("a full disk is told as: %s: %s", e.Op, e.Text)
		}
		if i.verdict.errno == unix.ENOSPC && e.Failed {
			t.Bad("the engine cannot go on when space returns: %s: %s", e.Op, e.Text)
		}
	}
}

func (s *sweep) note(t *trial, i *injection, r report) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trials++
	s.hits += len(i.hits)
	s.surfaced += r.surfaced()
	s.reopened += max(r.Life-1, 0)
	if i.n > 0 && len(i.hits) == 0 {
		s.missed++
	}
	if i.silent {
		s.silent[i.hits[0]]++
	}
	for _, c := range i.hits {
		s.where[string(c.class)]++
	}
	if len(t.Wrong) == 0 {
		if err := os.RemoveAll(t.Dir); err != nil {
			s.t.Error(err)
		}
		return
	}
	s.wrong++
	s.t.Errorf("%s: call %d of %v: %v", s.work.name, i.n, i.classes, i.hits)
	for _, text := range t.Wrong[:min(len(t.Wrong), 5)] {
		s.t.Errorf("  %.2000s", text)
	}
}

// atOnce is how many children work side by side.
const atOnce = 2

// run does a trial with each fault. A child that is killed is replaced.
// Up to maxHarmless faults of one kind of call at one name may stay unknown to everybody.
func (s *sweep) run(faults []fault) {
	before := maps.Clone(s.silent)
	queue := make(chan fault)
	var group sync.WaitGroup
	for range atOnce {
		group.Go(func() {
			var c *child
			for f := range queue {
				if c == nil {
					var err error
					if c, err = startChild(true); err != nil {
						s.t.Error(err)
						continue
					}
				}
				i := &injection{fault: f}
				if _, err := s.one(c, i); err != nil {
					s.t.Error(err)
				}
				if f.verdict.kill && len(i.hits) > 0 {
					c = nil
				}
			}
			if c != nil {
				if _, err := c.end(); err != nil {
					s.t.Error(err)
				}
			}
		})
	}
	for _, f := range faults {
		queue <- f
	}
	close(queue)
	group.Wait()
	for c, n := range s.silent {
		if n -= before[c]; n > maxHarmless {
			s.t.Errorf("%d faults of %v that nobody was told of", n, c)
		}
	}
}

// figures prints the figures and fails if most faults were never met, or none by the
// calls of a class.
func (s *sweep) figures(what string, classes ...class) {
	s.t.Logf("%s: %s: %d trials, %d faults injected %v, %d not reached, told and logged %d, silent %v, opened again %d, %d violations",
		what, s.work.name, s.trials, s.hits, s.where, s.missed, s.surfaced, s.silent, s.reopened, s.wrong)
	require.Positive(s.t, s.hits, "nothing was injected")
	for _, c := range classes {
		require.Positive(s.t, s.where[string(c)], "no fault came to: %s", c)
	}
	require.Less(s.t, s.missed, s.trials/5+2, "too many faults were not reached")
}

// spread returns the faults from every n-th call on; in a quick run, a sample of them.
func spread(most, step, span int, v verdict, classes ...class) (out []fault) {
	step *= harness.Figure(24, 1, 1)
	for n := 1; n <= most; n += step {
		out = append(out, fault{classes: classes, n: n, span: span, verdict: v})
	}
	return out
}
