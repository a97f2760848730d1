package simulator

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"time"
)

// sites are the failpoints at which a process may stop: no goroutine holds a lock
// there that another one would wait for.
var sites = []string{
	"release.begin", "release.dispatch", "release.child", "release.end",
	"child.want", "child.cancel", "child.ended", "child.asks", "child.started", "child.told",
	"task.begin", "task.result", "task.delivered", "start.ask", "start.answer",
	"commit.part", "parts.drop", "file.built", "file.renamed", "file.synced", "file.trimmed", "file.end",
	"actor.load", "actor.resend", "actor.active", "actor.passivate", "alarm.wake", "recover.wake",
}

// A halt says where the process is to crash, and how far its other goroutines have
// come by then.
//
// That must not be left to the scheduler: a task's goroutine may be at the place
// before the actor that sent it has answered its caller, or after. So from when the
// failpoint is armed, each of them takes some nanoseconds of virtual time, drawn for
// the step, and the goroutine that is earlier by that clock is first in every life.
// The events of one instant are one: goroutines that come to the failpoint together
// count once, and a goroutine that leaves another failpoint at the instant of the
// crash gets to its next.
type halt struct {
	site  string // none if it is empty
	left  int    // instants at which somebody comes to the site, before the crash
	step  int    // in which it was armed
	last  time.Time
	crash time.Time
}

func (w *world) arm(site string, n int) {
	w.note("arm %s %d", site, n)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.armed = halt{site: site, left: n, step: w.step}
}

// maxDelay bounds how long a failpoint takes, in nanoseconds.
const maxDelay = 20

// hit is called by the engine's goroutines at its failpoints. The goroutines of a
// process that has crashed stay there until it is gone.
func (w *world) hit(name string) {
	w.yield()
	if !slices.Contains(sites, name) {
		return
	}
	w.mu.Lock()
	crashed, dead, at := w.crashed, w.dead, w.armed.step
	waits := !crashed && !w.closing && w.armed.site != ""
	if waits {
		w.delays++
	}
	w.mu.Unlock()
	if waits {
		w.sleep(time.Duration(1 + w.draw("delay", at, name).IntN(maxDelay)))
		crashed = w.struck(name)
	}
	if crashed {
		<-dead
	}
}

// struck reports whether a goroutine that has waited at a failpoint stays there.
func (w *world) struck(name string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.delays--
	h, now := &w.armed, time.Now()
	if w.closing {
		return false
	}
	if !w.crashed && h.site == name && !h.last.Equal(now) {
		h.last = now
		if h.left--; h.left <= 0 {
			w.crashed, h.crash = true, now
			w.tally.Sites[name]++
		}
	}
	return w.crashed && (h.site == name || now.After(h.crash))
}

// delayed reports whether a goroutine waits at a failpoint for its time.
func (w *world) delayed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.delays > 0
}

// yield lets other goroutines go first, at random and not by the seed: no trace may
// tell.
func (w *world) yield() {
	if w.yields == 0 || rand.IntN(4) > 0 {
		return
	}
	for range rand.IntN(w.yields) {
		runtime.Gosched()
	}
}
