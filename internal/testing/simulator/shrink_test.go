package simulator

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// patience is how long a failure is shrunk.
const patience = 60 * time.Second

// shrunk returns the smallest case of a failure that is found: what happened, line
// by line, and the definitions.
func (p play) shrunk(t *testing.T, dir string) string {
	s := &shrinker{t: t, dir: dir, until: time.Now().Add(patience)}
	w, _ := p.run(t, dir)
	p.steps, p.runs = w.steps, w.runs
	if !s.fails(p) {
		return "(it does not fail with these bounds, or not every time)"
	}
	s.try(&p, func(q *play, n int) { q.runs = n }, p.runs)
	s.try(&p, func(q *play, n int) { q.steps = n }, min(p.steps, max(w.step, 1)))
	for _, kind := range append(slices.Sorted(maps.Keys(drawers)), "crash", "clock") {
		q := p
		q.without = append(slices.Clone(p.without), kind)
		if kind != "start" && s.fails(q) {
			p = q
		}
	}
	s.try(&p, func(q *play, n int) { q.steps = n }, p.steps)
	return s.show(p)
}

type shrinker struct {
	t     *testing.T
	dir   string
	until time.Time
}

func (s *shrinker) fails(p play) bool {
	if time.Now().After(s.until) {
		return false
	}
	_, err := p.run(s.t, s.dir)
	return err != nil
}

// try lowers a bound to the smallest value below most with which it still fails,
// by halves.
func (s *shrinker) try(p *play, set func(*play, int), most int) {
	low, high := 0, most // it fails with high
	q := *p
	if set(&q, high); !s.fails(q) {
		return
	}
	for high-low > 1 {
		q, mid := *p, (low+high)/2
		if set(&q, mid); s.fails(q) {
			high = mid
		} else {
			low = mid
		}
	}
	set(p, high)
}

// show plays a case a last time and tells it.
func (s *shrinker) show(p play) string {
	p.verbose = true
	w, err := p.run(s.t, s.dir)
	var b strings.Builder
	fmt.Fprintf(&b, "shrunk to %d runs, %d steps, without %s:\n%v\nengine: concurrency %d, idle after %v, stall after %v, at most %d active\n",
		w.runs, w.steps, strings.Join(p.without, ", "), err, w.settings.Concurrency, w.settings.IdleAfter, w.settings.StallAfter, w.settings.MaxActive)
	for i, family := range w.families {
		for _, g := range family {
			text, _ := g.Definition.MarshalJSON() // JSON is YAML
			fmt.Fprintf(&b, "r%d: %s\n", i, text)
		}
	}
	for _, line := range w.lines {
		if len(line) > 1200 {
			line = line[:1200] + "..."
		}
		b.WriteString(line + "\n")
	}
	return b.String()
}
