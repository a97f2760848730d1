package simulator

import (
	"slices"
	"strings"

	"github.com/pawl-run/pawl/internal/state"
)

// A delivery is a message on its way to a run, held up until it is let go.
type delivery struct {
	run     string
	message state.Message // nil if the run is only woken
	gate    chan struct{}
	key     string // what tells it from others
}

// delivers holds up a message before it comes to its run. Messages of operators,
// hosts, handlers, parents, children and alarms all pass here, several at one
// instant if one actor's turn was the answer to several callers.
func (w *world) delivers(run string, message any) {
	w.yield()
	d := &delivery{run: run, gate: make(chan struct{})}
	d.message, _ = message.(state.Message)
	w.mu.Lock()
	if w.closing {
		w.mu.Unlock()
		return
	}
	w.asks = append(w.asks, d)
	dead := w.dead
	w.mu.Unlock()
	select {
	case <-d.gate:
	case <-dead:
	}
}

// deliver lets one message go on, drawn for the step, and reports whether there was
// one. Nothing else moves meanwhile.
func (w *world) deliver() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.asks) == 0 || w.crashed {
		return false
	}
	for _, d := range w.asks {
		if d.key == "" {
			d.key = d.run + " " + w.legible(messageText(d.message))
		}
	}
	slices.SortStableFunc(w.asks, func(a, b *delivery) int { return strings.Compare(a.key, b.key) })
	i := w.draw("deliver", w.step, len(w.asks)).IntN(len(w.asks))
	close(w.asks[i].gate)
	w.asks = slices.Delete(w.asks, i, i+1)
	return true
}
