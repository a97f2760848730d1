package fair

// Places are so many that may be taken at once. Only one goroutine may use them at a time.
type Places[F comparable] struct {
	most, taken int
	of          map[F]int
}

// NewPlaces returns so many places.
func NewPlaces[F comparable](most int) Places[F] { return Places[F]{most: most, of: map[F]int{}} }

// Take takes a place for a family that may have so many, which Free gives back; false if there is none.
func (p *Places[F]) Take(family F, mostOf int) bool {
	if p.taken >= p.most || p.of[family] >= mostOf {
		return false
	}
	p.taken++
	p.of[family]++
	return true
}

// Free gives back a place that a family has taken.
func (p *Places[F]) Free(family F) {
	p.taken--
	if p.of[family]--; p.of[family] == 0 {
		delete(p.of, family)
	}
}
