package pace

import (
	"reflect"
	"runtime"
)

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
