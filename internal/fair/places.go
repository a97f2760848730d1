package fair

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
