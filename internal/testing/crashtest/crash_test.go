package crashtest

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/internal/testing/harness/witness"
)

// atOnce is how many trials run side by side.
const atOnce = 2

// A suite is all trials and what they came to.
type suite struct {
	t      *testing.T
	dir    string
	list   []work
	counts map[string]map[string]int    // hits by work and failpoint, without a crash
	wants  map[string]map[string]string // outcomes by work and run

	mu       sync.Mutex
	trials   int
	kills    map[string]int // by failpoint
	chains   map[int]int    // trials by number of kills
	missed   int            // kills that never came: the hit is not always reached
	repeated int            // executions that repeat one of an earlier life
	wrong    int
}

// Processes are killed at every failpoint while they do every work, at its
// first hit, one in the middle and its last, or at all of them; and again while
// they recover. The gate kills once at every failpoint and takes half of the rest by
// day. In quick runs of twelve days they are killed once at every failpoint. Nothing that
// was acknowledged is lost, nothing is done twice that was known to be done, and every
// run ends as it does without a crash.
func TestKills(t *testing.T) {
	before := descriptors(t)
	s := newSuite(t, works)
	if t.Failed() {
		return
	}
	chains := slices.Concat(s.chainsOf(), s.woken(), s.backedUp(), s.openedAndClosed())
	s.runAll(harness.Today(t, 12, slices.Concat(s.singles(chains), chains)))
	s.report()
	require.Equal(t, before, descriptors(t), "open descriptors")
}

// newSuite returns a suite of works, or of the one that a flag names, after each was done without a crash.
func newSuite(t *testing.T, list []work) *suite {
	s := &suite{
		t: t, dir: workspace(t), list: list, counts: map[string]map[string]int{}, wants: map[string]map[string]string{},
		kills: map[string]int{}, chains: map[int]int{},
	}
	if *only != "" {
		s.list = []work{workNamed(*only)}
	}
	for _, w := range s.list {
		s.reference(w)
	}
	return s
}

// reference does a work without a crash: how often each failpoint is hit, and
// how the runs end.
func (s *suite) reference(w work) {
	t, err := newTrial(filepath.Join(s.dir, "reference-"+w.name), w, nil)
	require.NoError(s.t, err)
	t.Lives++
	counts := filepath.Join(t.Dir, "counts")
	require.NoError(s.t, t.child(childCount+"="+counts))
	t.look(!w.closes)
	t.finish()
	s.counts[w.name], err = loadCounts(counts)
	require.NoError(s.t, err)
	require.Empty(s.t, t.Wrong, "%s, without a crash", w.name)
	s.wants[w.name] = t.Was.Outcomes()
	for id, f := range t.Was {
		s.t.Logf("%s: %d records: %.100s", id, len(f.Records), s.wants[w.name][string(id)])
	}
}

// A plan is a work and where its lives end.
type plan struct {
	work  work
	kills []kill
}

func (p plan) String() string { return fmt.Sprintf("%s %v", p.work.name, p.kills) }

// singles returns the plans with one kill; in a quick run, one for each failpoint that
// no plan in others has, in the shortest work that meets it; at the gate, half of those
// behind the first of each failpoint have their turn on other days.
func (s *suite) singles(others []plan) []plan {
	var out []plan
	tried, list, level := map[string]bool{}, s.list, harness.CurrentLevel()
	if level == harness.Quick {
		list = s.shortestFirst(list)
		for _, p := range others {
			for _, k := range p.kills {
				tried[k.point] = true
			}
		}
	}
	turns := map[string]int{} // how many works had a failpoint
	for _, w := range list {
		for _, point := range slices.Sorted(maps.Keys(s.counts[w.name])) {
			if w.first > 0 && level < harness.Release && !strings.HasPrefix(point, "backup.") {
				continue // the other works have it
			}
			if w.feeds && level < harness.Release && !strings.HasPrefix(point, "feed.") && !strings.HasPrefix(point, "commit.") {
				continue // likewise
			}
			if level == harness.Quick && tried[point] {
				continue
			}
			tried[point] = true
			hits := sample(s.counts[w.name][point])
			if level == harness.Gate && s.worksWith(point) > len(hits) { // two works in three take one of them each
				turn := turns[point]
				turns[point]++
				if turn%3 == 2 {
					continue
				}
				hits = hits[(turn-turn/3)%len(hits):][:1]
			}
			for _, n := range hits {
				out = append(out, plan{w, []kill{{point, n}}})
			}
		}
	}
	if level == harness.Gate {
		return s.takeTurns(out)
	}
	return out
}

// takeTurns returns the first plan of each failpoint, and of the others those that have their turn today: half of them.
func (s *suite) takeTurns(plans []plan) []plan {
	var first, others []plan
	seen := map[string]bool{}
	for _, p := range plans {
		if point := p.kills[0].point; !seen[point] {
			seen[point] = true
			first = append(first, p)
		} else {
			others = append(others, p)
		}
	}
	return slices.Concat(first, harness.SampleOfDay(s.t, 2, others))
}

// worksWith returns how many works meet a failpoint.
func (s *suite) worksWith(point string) (n int) {
	for _, counts := range s.counts {
		if counts[point] > 0 {
			n++
		}
	}
	return n
}

// shortestFirst returns works in the order of how much they do.
func (s *suite) shortestFirst(list []work) []work {
	hits := func(w work) (sum int) {
		for _, n := range s.counts[w.name] {
			sum += n
		}
		return sum
	}
	return slices.SortedStableFunc(slices.Values(list), func(a, b work) int { return cmp.Compare(hits(a), hits(b)) })
}

// sample returns which of some hits to kill at.
func sample(hits int) (out []int) {
	for n := 1; n <= hits; n++ {
		middle, ends := n == (hits+1)/2, n == 1 || n == hits
		if harness.Figure(n == 1, middle || ends, true) {
			out = append(out, n)
		}
	}
	return out
}

// recovery are the failpoints that a life meets while it takes over from one
// that was killed, each with how often at least, if there is anything to do.
var recovery = []kill{
	{"open.step", 4}, {"mark.torn", 2}, {"open.epoch", 1}, {"recover.begin", 1}, {"recover.wake", 1},
	{"actor.load", 1}, {"actor.resend", 1}, {"actor.active", 1}, {"actor.passivate", 1},
	{"release.dispatch", 1}, {"task.begin", 1}, {"task.result", 1}, {"commit.begin", 2}, {"commit.inside", 2},
	{"commit.done", 2}, {"file.begin", 1}, {"file.built", 1}, {"file.renamed", 1}, {"file.synced", 1},
	{"file.trim", 1}, {"file.trimmed", 1}, {"close.checkpoint", 1}, {"close.mark", 1}, {"close.release", 1},
}

// chainsOf returns plans with several kills: the first anywhere, up to three
// more in the recovery from it, and in the recovery from that.
func (s *suite) chainsOf() []plan {
	r := rand.New(rand.NewPCG(seedOfDay(s.t), 0))
	n := harness.Figure(0, 5, 200) // of each work
	var out []plan
	for _, w := range s.list {
		points := slices.Sorted(maps.Keys(s.counts[w.name]))
		for range n {
			point := points[r.IntN(len(points))]
			p := plan{w, []kill{{point, 1 + r.IntN(s.counts[w.name][point])}}}
			for range 1 + r.IntN(3) {
				again := recovery[r.IntN(len(recovery))]
				p.kills = append(p.kills, kill{again.point, 1 + r.IntN(again.n)})
			}
			out = append(out, p)
		}
	}
	return out
}

// woken returns plans that kill where a work without a crash need not come, or cannot. A run is woken
// by its alarm only if it has gone to sleep in time, which a busy machine need not let it: that is tried until
// it comes. Every child that goes on after a crash asks whether it is still wanted, and an engine that finds a log
// elsewhere takes it when it opens again, as every engine does the redo log of one that has died, and drops what is in it only where a purge and a checkpoint come; a directory that gets a log has a first base, which it may die before it notes; a log that has lost its end gets it again.
func (s *suite) woken() (out []plan) {
	for _, p := range []plan{
		{workNamed("sleeper"), []kill{{"alarm.wake", 1}}},
		{workNamed("family"), []kill{{"child.started", 3}, {"child.asks", 1}}},
		{workNamed("family"), []kill{{"child.started", 3}, {"child.asks", 2}, {"child.asks", 1}}},
		{workNamed("family"), []kill{{"release.end", 2}, {"redo.taken", 1}, {"redo.taken", 1}}},
		{workNamed("copied"), []kill{{"redo.restart", 1}}},
		{workNamed("remote"), []kill{{"release.end", 2}, {"remote.taken", 1}}},
		{attached, []kill{{"release.end", 2}, {"remote.based", 1}, {"open.epoch", 1}, {"remote.taken", 1}}},
		{shortened, []kill{{"release.end", 2}, {"remote.again", 2}, {"remote.again", 1}, {"task.result", 1}, {"remote.again", 3}}},
	} {
		if *only == "" || *only == p.work.name {
			out = append(out, p)
		}
	}
	return out
}

// backedUp returns plans that kill one backup after the other.
func (s *suite) backedUp() []plan {
	w := workNamed("copied")
	if *only != "" && *only != w.name {
		return nil
	}
	return []plan{
		{w, []kill{{"backup.folder", 1}, {"backup.filled", 1}, {"backup.synced", 1}}},
		{w, []kill{{"backup.file", 2}, {"backup.whole", 1}, {"backup.name", 1}, {"backup.named", 1}}},
	}
}

// openedAndClosed returns plans that kill one opening of the engine after the other,
// and one Close, at the failpoints that every one of them meets.
func (s *suite) openedAndClosed() (out []plan) {
	for _, points := range [][]string{
		{"open.create", "open.step", "open.epoch", "mark.torn", "recover.begin"},
		{"close.begin", "close.actors", "close.checkpoint", "close.mark", "close.release"},
	} {
		p := plan{work: s.list[0]}
		for _, point := range points {
			p.kills = append(p.kills, kill{point, 1})
		}
		out = append(out, p)
	}
	return out
}

func (s *suite) runAll(plans []plan) {
	queue := make(chan plan)
	var group sync.WaitGroup
	for range atOnce {
		group.Go(func() {
			for p := range queue {
				s.run(p)
			}
		})
	}
	for _, p := range plans {
		queue <- p
	}
	close(queue)
	group.Wait()
}

// maxTries is how often the first hit of a failpoint is waited for that is not
// reached every time.
const maxTries = 20

// run does one plan. How commits are grouped is not the same every time, nor
// when a run wakes, so a late hit may not come: then an earlier one is taken, and
// the first is tried again.
func (s *suite) run(p plan) {
	tries := 0
	for done := false; !done; {
		dir, err := os.MkdirTemp(s.dir, p.work.name)
		if err != nil {
			s.t.Error(err)
			return
		}
		done = s.try(dir, p)
		if first := &p.kills[0]; !done {
			p.kills = slices.Clone(p.kills)
			if first.n == 1 {
				tries++
			}
			p.kills[0] = kill{first.point, max(first.n-1, 1)}
			done = tries == maxTries
		}
	}
}

// try does one plan in dir. It returns false if its first kill did not come.
func (s *suite) try(dir string, p plan) bool {
	t, err := newTrial(dir, p.work, s.wants[p.work.name])
	if err != nil {
		s.t.Error(err)
		return true
	}
	killed := 0
	for i, k := range p.kills {
		if !t.die(k) {
			s.miss()
			if i == 0 {
				_ = os.RemoveAll(dir) // the whole workspace goes in the end
				return false
			}
			continue
		}
		killed++
		s.count(k)
	}
	t.finish()
	s.end(p, t, killed)
	return true
}

func (s *suite) miss() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.missed++
}

func (s *suite) count(k kill) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kills[k.point]++
}

// end takes note of a trial. A trial that went wrong is kept for inspection.
func (s *suite) end(p plan, t *trial, killed int) {
	lines, err := witness.ReadLedger(filepath.Join(t.Dir, "ledger"))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trials++
	s.chains[killed]++
	s.repeated += witness.Repeated(lines)
	if err == nil && len(t.Wrong) == 0 {
		_ = os.RemoveAll(t.Dir) // the whole workspace goes in the end
		return
	}
	s.wrong++
	s.t.Errorf("%v: %v", p, err)
	for _, text := range t.Wrong {
		s.t.Errorf("  %.2000s", text)
	}
}
