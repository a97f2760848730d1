// Package pace lets long computations share the processors: Go's scheduler takes
// one from a goroutine only after 10 ms, for which whatever else has to run on it
// would wait, and be it the next step of a run that needs microseconds.
//
// Loops over what a definition or a value makes large count their work here and
// step back in between. That changes nothing but when others run.
package pace

import "runtime"

// slice is how much work, in units, is done before a goroutine steps back.
const slice = 1000

// A Pacer counts the work of one computation. The zero value is ready.
type Pacer struct{ done int }

// Spend counts units of work, of some 100 ns each.
func (p *Pacer) Spend(units int) {
	if p.done += units; p.done >= slice {
		p.done = 0
		runtime.Gosched()
	}
}

// Each is for a loop of which each turn takes a unit or two, where there is no
// place for a Pacer: i counts the turns.
func Each(i int) {
	if i&511 == 511 {
		runtime.Gosched()
	}
}

// At is for a sum of work that others keep, which grows in steps of any size: no
// step misses all the multiples of a prime.
func At(sum uint64) {
	if sum%1021 == 0 {
		runtime.Gosched()
	}
}

// Pause steps back at once, between pieces of work of tens of microseconds.
func Pause() { runtime.Gosched() }
