package crowd

import "io"

// Bounds on the bytes of all bodies that are held at once, counted in pieces: what is decoded of them takes several times as much.
const (
	piece       = 64 << 10
	maxBodies   = (128 << 20) / piece
	maxBodiesOf = (48 << 20) / piece
)

// A Load is what one request holds of the bytes of a crowd. It belongs to one goroutine.
type Load struct {
	crowd *Crowd
	who   string
	taken int // pieces
	bytes int64
}

// Load returns the load of a caller's request, of nothing yet. Leave gives it back.
func (c *Crowd) Load(who string) *Load { return &Load{crowd: c, who: who} }

// Reader returns a reader of r that counts what is read. It fails with a *BusyError if all bodies together would be too large.
func (l *Load) Reader(r io.ReadCloser) io.ReadCloser { return &loadReader{r, l} }

// Leave gives back what the request holds.
func (l *Load) Leave() {
	if l.taken > 0 {
		l.crowd.freePlaces(l.who, l.taken)
		l.taken, l.bytes = 0, 0
	}
}

// addBytes counts n more bytes.
func (l *Load) addBytes(n int) error {
	l.bytes += int64(n)
	if more := int((l.bytes+piece-1)/piece) - l.taken; more > 0 {
		if err := l.crowd.takePlaces(l.who, more); err != nil {
			return err
		}
		l.taken += more
	}
	return nil
}

// A loadReader counts what is read of a body.
type loadReader struct {
	io.ReadCloser
	load *Load
}

// Read implements io.Reader.
func (r *loadReader) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	if busy := r.load.addBytes(n); busy != nil {
		return 0, busy
	}
	return n, err
}
