//go:build amd64 || arm64

package disktest

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/pawl-run/pawl/internal/testing/harness"
)

// faulty are the works that are done on failing disks.
func faulty() []work {
	small := []work{workNamed("small")}
	return harness.Figure(small, small, []work{workNamed("small"), workNamed("mix"), workNamed("chain"), workNamed("saga")})
}

// The disk answers EIO: once, at every call of every kind, and several times in a
// row. Nothing that was acknowledged is lost, every fault is told to somebody, and
// every run ends as it does on a disk in order: at once, or when the engine that
// says that it cannot go on was opened again.
func TestErrors(t *testing.T) {
	harness.InTurn(t, 4)
	t.Parallel()
	for _, w := range faulty() {
		s := newSweep(t, w)
		classes := []class{syncs, writes, cuts, reads, names, opens}
		for _, class := range classes {
			n := s.count(class)
			s.run(spread(n, 1, 1, verdict{errno: unix.EIO}, class))
			s.run(spread(n, harness.Figure(sticky(class), sticky(class), 1), harness.Figure(4, 4, 8), verdict{errno: unix.EIO}, class))
		}
		s.figures("EIO", classes...)
	}
}

// The disk answers EIO when a directory is opened whose engine was killed: at every
// call, and to every look at a name.
func TestErrorsAfterAKill(t *testing.T) {
	harness.InTurn(t, 4)
	t.Parallel()
	s := newSweep(t, workNamed("small"))
	s.kill(s.count(writes) * 2 / 3)
	for _, class := range everyClass {
		step := 1
		if class == reads || class == writes {
			step = harness.Figure(3, 3, 1)
		}
		s.run(spread(s.count(class), step, 1, verdict{errno: unix.EIO}, class))
	}
	s.figures("EIO after SIGKILL", everyClass...)
}

// sticky is at how many of the calls of a class the gate lets several fail in a
// row: every so many-th.
func sticky(c class) int {
	if c == writes {
		return 7
	}
	return 3
}

// The disk is full: at every call that takes space, once after half a write and
// several times in a row. Callers get ErrNoSpace, and runs go on by themselves when
// there is space again.
func TestNoSpace(t *testing.T) {
	harness.InTurn(t, 4)
	t.Parallel()
	for _, w := range faulty() {
		s := newSweep(t, w)
		n := s.count(writes, names)
		full := verdict{errno: unix.ENOSPC}
		s.run(spread(n, 1, 1, full, writes, names))
		full.short = true
		s.run(spread(n, harness.Figure(5, 5, 1), harness.Figure(4, 4, 8), full, writes, names))
		s.figures("ENOSPC", writes, names)
	}
}

// The process is killed instead of the n-th call that changes anything on disk, for
// every n; every second time after half of a write.
func TestKills(t *testing.T) {
	harness.InTurn(t, 4)
	t.Parallel()
	for _, w := range harness.Figure(works[:1], works[:1], works) {
		s := newSweep(t, w)
		changes := []class{writes, cuts, syncs, names}
		n := s.count(changes...)
		kill := verdict{kill: true}
		s.run(spread(n, 2, 1, kill, changes...))
		kill.torn = true
		faults := spread(n, 2, 1, kill, changes...)
		for i := range faults {
			faults[i].n++
		}
		for _, class := range changes { // the sample of a quick run may have none of some
			faults = append(faults, spread(1, 1, 1, kill, class)...)
		}
		s.run(faults)
		s.figures("SIGKILL", changes...)
	}
}

// A disk fails while the log, grown long, is moved into the index in the middle of
// work, and again when it is at Close. A full disk stops nobody then, and a host that
// is killed then finds everything again.
func TestCheckpoints(t *testing.T) {
	harness.InTurn(t, 4)
	t.Parallel()
	s := heavySweep(t)
	var faults []fault
	for n := 1; n <= harness.Figure(1, 1, 3); n++ {
		at := func(c class, e unix.Errno) fault {
			return fault{classes: []class{c}, path: "pawl.db", n: n, span: 1, verdict: verdict{errno: e}}
		}
		faults = append(faults, at(writes, unix.ENOSPC))
		if harness.CurrentLevel() > harness.Quick {
			faults = append(faults, at(syncs, unix.EIO))
		}
		if harness.CurrentLevel() == harness.Release {
			faults = append(faults, at(writes, unix.EIO), at(writes, unix.EDQUOT))
		}
	}
	s.run(faults)
	if harness.CurrentLevel() > harness.Quick { // crashtest kills in the checkpoint at Close
		before, kills := s.hits, killsInCheckpoints()
		s.run(kills)
		require.Len(t, kills, s.hits-before, "kills in the first checkpoint")
	}
	s.figures("checkpoint")
	require.GreaterOrEqual(t, s.hits, harness.Figure(1, 2, 2), "the log was not moved in the middle of work")
}

// heavySweep returns a sweep of the heavy work. In a quick run it is not done without a fault
// first: how its runs end is written here.
func heavySweep(t *testing.T) *sweep {
	if harness.CurrentLevel() > harness.Quick {
		return newSweep(t, heavy)
	}
	s := emptySweep(t, heavy)
	s.want = map[string]string{}
	for i, r := range heavy.runs {
		s.want[string(r.ID)] = fmt.Sprintf(`{"Status":"completed","Output":{"size":%d,"v":%d},"Failure":null}`, heavySize, 2*i+2)
	}
	return s
}

// killsInCheckpoints are deaths while the log is moved into the index: before the
// first page and in the middle of them, also after half of one, and before they are
// durable.
func killsInCheckpoints() (out []fault) {
	kill := func(c class, n int, torn bool) {
		out = append(out, fault{classes: []class{c}, path: "pawl.db", n: n, span: 1, verdict: verdict{kill: true, torn: torn}})
	}
	kill(syncs, 1, false)
	for n := 1; n <= 20; n += harness.Figure(10, 10, 2) {
		kill(writes, n, false)
		kill(writes, n+1, true)
	}
	return out
}

// From some call on the file system is read-only, as after an error that the kernel
// takes seriously, or belongs to somebody else. The host is told, over and over, and
// lives; nothing is half done when the file system can be written again.
func TestReadOnlyFromSomewhere(t *testing.T) {
	harness.InTurn(t, 4)
	t.Parallel()
	s := newSweep(t, workNamed("small"))
	changes := []class{writes, cuts, names}
	n := s.count(changes...)
	for i, errno := range []unix.Errno{unix.EROFS, unix.EACCES} {
		faults := spread(n, harness.Figure(12, 12, 1), 1<<20, verdict{errno: errno}, changes...)
		for k := range faults {
			faults[k].n, faults[k].lasts = faults[k].n+i, true
		}
		s.run(faults)
	}
	s.figures("EROFS, EACCES")
}
