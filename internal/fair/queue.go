// Package fair lets many share what is scarce: each family of requests has its turn,
// however many another family has.
package fair

// A Queue hands values out family by family in turn, and those of one family first
// come, first served (round robin: Nagle, RFC 970, 1985). The zero value is empty and
// ready. Only one goroutine may use it at a time.
type Queue[F comparable, V any] struct {
	waiting map[F][]V
	ring    []F // the families that wait, the next one first
	n       int
}

// Len returns how many values wait.
func (q *Queue[F, V]) Len() int { return q.n }

// Push lets v wait behind what its family has waiting.
func (q *Queue[F, V]) Push(family F, v V) {
	if q.waiting == nil {
		q.waiting = map[F][]V{}
	}
	vs := q.waiting[family]
	if len(vs) == 0 {
		q.ring = append(q.ring, family)
	}
	q.waiting[family] = append(vs, v)
	q.n++
}

// Pop takes the next value out. ok is false if the queue is empty.
func (q *Queue[F, V]) Pop() (v V, ok bool) {
	if q.n == 0 {
		return v, false
	}
	family := q.ring[0]
	q.ring = q.ring[1:]
	vs := q.waiting[family]
	v = vs[0]
	if vs = vs[1:]; len(vs) == 0 {
		delete(q.waiting, family)
	} else {
		q.waiting[family] = vs
		q.ring = append(q.ring, family)
	}
	q.n--
	return v, true
}

// Places are so many that may be taken at once. Only one goroutine may use them at a time.
type Places[F comparable] struct {
	most, taken int
	of          map[F]int
}

// NewPlaces returns so many places.
func NewPlaces[F comparable](most int) Places[F] { return Places[F]{most: most, of: map[F]int{}} }

// Take takes a place for a family that may have so many, or returns false if no place is left. Free gives it back.
func (p *Places[F]) Take(family F, mostOf int) bool { return p.TakeMany(family, 1, mostOf) }

// TakeMany takes n places for a family that may have so many, which FreeMany gives back; false if there are not so many, and then none is
// taken. n is at least 1.
func (p *Places[F]) TakeMany(family F, n, mostOf int) bool {
	if n > p.most-p.taken || n > mostOf-p.of[family] {
		return false
	}
	p.taken += n
	p.of[family] += n
	return true
}

// Free gives back a place that a family has taken.
func (p *Places[F]) Free(family F) { p.FreeMany(family, 1) }

// FreeMany gives back n places that a family has taken.
func (p *Places[F]) FreeMany(family F, n int) {
	p.taken -= n
	if p.of[family] -= n; p.of[family] == 0 {
		delete(p.of, family)
	}
}
