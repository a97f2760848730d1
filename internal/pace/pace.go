// Package pace lets long computations share the processors: Go's scheduler takes
// one from a goroutine only after 10 ms, for which whatever else has to run on it
// would wait, and be it the next step of a run that needs microseconds.
//
// Loops over what a definition or a value makes large count their work here and
// step back in between. That changes nothing but when others run.
package pace

import (
	"crypto/sha256"
	"hash"
	"io"
	"reflect"
	"runtime"
)

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

// Each is for a loop whose turns take a unit or two each, where there is no place
// for a Pacer: i counts the turns.
func Each(i int) {
	if i&511 == 511 {
		runtime.Gosched()
	}
}

// Few is for a loop that wakes another goroutine in each turn: others that are to
// run wait behind a few of them, not behind all. i counts the turns.
func Few(i int) {
	if i&7 == 7 {
		runtime.Gosched()
	}
}

// Sum256 returns the SHA-256 of data.
func Sum256(data []byte) (sum [sha256.Size]byte) {
	h := sha256.New()
	Write(h, data)
	h.Sum(sum[:0])
	return sum
}

// Write adds data to a hash, in pieces of some 50 us each.
func Write(h hash.Hash, data []byte) {
	for len(data) > pieceBytes {
		_, _ = h.Write(data[:pieceBytes]) // a hash never fails
		data = data[pieceBytes:]
		runtime.Gosched()
	}
	_, _ = h.Write(data)
}

// Copy copies from src to dst, as io.Copy does, in pieces.
func Copy(dst io.Writer, src io.Reader) (n int64, err error) {
	buf := make([]byte, pieceBytes)
	for {
		read, err := src.Read(buf)
		if read > 0 {
			written, failed := dst.Write(buf[:read])
			if n += int64(written); failed != nil {
				return n, failed
			}
		}
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, err
		}
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

// pieceBytes is how much is copied before a goroutine steps back. Where memory is
// fresh each page of it is a fault; and while Go's collector waits for a goroutine
// that copies, the processor that it runs on does nothing else.
const pieceBytes = 64 << 10

// few elements are never a large slice.
const few = 64

// pieceOf returns how many elements a piece has.
func pieceOf[E any]() int {
	return max(1, pieceBytes/max(1, int(reflect.TypeFor[E]().Size())))
}

// Grow returns s with room for n more elements, as slices.Grow does, but copies a
// large slice in pieces, between which it steps back.
func Grow[S ~[]E, E any](s S, n int) S {
	need := len(s) + n
	if need <= cap(s) {
		return s
	}
	if need <= few || need <= pieceOf[E]() {
		return append(s, make(S, n)...)[:len(s)]
	}
	return Append(make(S, 0, max(need, 2*cap(s))), s...)
}

// Append returns s with more behind it, as append does; see [Grow].
func Append[S ~[]E, E any](s S, more ...E) S {
	if len(s)+len(more) <= few {
		return append(s, more...)
	}
	s = Grow(s, len(more))
	for piece := pieceOf[E](); len(more) > piece; {
		s, more = append(s, more[:piece]...), more[piece:]
		runtime.Gosched()
	}
	return append(s, more...)
}

// Push is Append for one element, which is what most loops need.
func Push[S ~[]E, E any](s S, e E) S {
	if len(s) == cap(s) && len(s) >= few {
		s = Grow(s, 1)
	}
	return append(s, e)
}
