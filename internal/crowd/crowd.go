// Package crowd bounds what the callers of one surface, such as the HTTP API or the pages of the inspector, may
// ask of an engine: how many requests at once, how many streams, how many that read whole runs, how many bytes
// of bodies, and how many requests a second. One caller with a name has a part of each bound, so that nobody
// keeps all others out.
package crowd

import (
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/pawl-run/pawl/internal/fair"
)

// Bounds on what callers have at once.
const (
	maxCalls     = 4096
	maxCallsOf   = 1024
	maxStreams   = 256
	maxStreamsOf = 64
	maxReplays   = 32 // each may have a run of 128 MiB and more in memory
	maxReplaysOf = 8
)

// Bounds are those of one surface. The crowds are not shared between surfaces: each has callers of its own.
type Bounds struct {
	Pace    *Pacer // requests one after the other
	Calls   *Crowd // requests, streams among them
	Streams *Crowd
	Replays *Crowd // requests for which runs are read as a whole, or all runs are looked at one by one
	Bodies  *Crowd // Pieces of bodies, see Load
}

// NewBounds returns the bounds of a surface that nobody uses yet. The rate is as NewPacer has it.
func NewBounds(perSecond float64, burst int) *Bounds {
	return &Bounds{
		Pace: NewPacer(perSecond, burst), Calls: New(maxCalls, maxCallsOf, "requests"), Streams: New(maxStreams, maxStreamsOf, "streams"),
		Bodies:  New(maxBodies, maxBodiesOf, "pieces of 64 KiB of bodies"),
		Replays: New(maxReplays, maxReplaysOf, "requests that read whole runs, or look at all of them"),
	}
}

// A BusyError says that there is no place. It passes: the caller may ask again.
type BusyError struct {
	What         string // there are too many of
	MostOf, Most int    // of one caller, and of all
}

// RetryAfter is after how many seconds who was refused for want of a place may ask again: a place is held for as long as a request takes,
// which nobody knows.
const RetryAfter = "1"

// Error says what there is too much of.
func (e *BusyError) Error() string {
	return fmt.Sprintf("there are as many %s at once as may be, %d of one caller and %d of all: try again later", e.What, e.MostOf, e.Most)
}

// A Crowd is what callers have at once of one kind. It counts only: there is no queue, and who
// finds no place is refused at once. A queue would hold the memory and connections that the bound
// is there to save. Its methods may be called from any goroutine. places is guarded by mu; the rest
// does not change.
type Crowd struct {
	mu     sync.Mutex
	places fair.Places[string]
	most   int
	mostOf int
	what   string // they are
}

// New returns a crowd with places for most, and for mostOf of one caller with a name. what names in the plural what they are.
func New(most, mostOf int, what string) *Crowd {
	return &Crowd{places: fair.NewPlaces[string](most), most: most, mostOf: mostOf, what: what}
}

// Admit counts one of a caller's until leave is called, or refuses it with a *BusyError. Callers without a name are
// told apart by nothing: what bounds them is the bound of all. leave must be called exactly once,
// when the request or the stream is over, also if it fails; callers defer it.
func (c *Crowd) Admit(who string) (leave func(), err error) {
	if err := c.takePlaces(who, 1); err != nil {
		return nil, err
	}
	return func() { c.freePlaces(who, 1) }, nil
}

// takePlaces takes n places of a caller, all or none.
func (c *Crowd) takePlaces(who string, n int) error {
	most := c.mostOf
	if who == "" {
		most = c.most
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.places.TakeMany(who, n, most) {
		return &BusyError{c.what, most, c.most}
	}
	return nil
}

// freePlaces gives n places of a caller back.
func (c *Crowd) freePlaces(who string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.places.FreeMany(who, n)
}

// Piece is how many bytes of bodies have one place in a crowd of them.
const Piece = 64 << 10

// Bounds on the bytes of all bodies of a surface that are held at once: what is decoded of them takes several times as much.
const (
	maxBodies   = (128 << 20) / Piece
	maxBodiesOf = (48 << 20) / Piece
)

// A Load is what one request holds of the bytes of a crowd. It belongs to one goroutine.
type Load struct {
	crowd *Crowd
	who   string
	taken int // Pieces
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
	if more := int((l.bytes+Piece-1)/Piece) - l.taken; more > 0 {
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

// A TimedWriter gives each part of an answer its time, so that a caller who reads slowly gets all of it, and one who has stopped reading
// holds no place for ever.
type TimedWriter struct {
	http.ResponseWriter
	Within time.Duration // for each part
}

// Write implements io.Writer.
func (w TimedWriter) Write(part []byte) (int, error) {
	SetWriteTimeout(w.ResponseWriter, w.Within)
	return w.ResponseWriter.Write(part)
}

// Unwrap is for http.ResponseController.
func (w TimedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// SetWriteTimeout bounds how long what is written next may take, where the host's server has deadlines; 0 is no bound, until the next one is set. A request
// may wait for long before it has something to write, and over HTTP/2 the deadline of the host's server ends also a request that does not write.
func SetWriteTimeout(w http.ResponseWriter, within time.Duration) {
	_ = http.NewResponseController(w).SetWriteDeadline(deadlineAfter(within))
}

// SetReadTimeout bounds how long the rest of a request may take to arrive, likewise.
func SetReadTimeout(w http.ResponseWriter, within time.Duration) {
	_ = http.NewResponseController(w).SetReadDeadline(deadlineAfter(within))
}

func deadlineAfter(d time.Duration) time.Time {
	if d == 0 {
		return time.Time{}
	}
	return time.Now().Add(d)
}

// EndAnswer sends what is written, within a time, and leaves no bound to what comes next on the connection. Without it the deadline of this
// answer would cut the next request off that comes over the same connection.
func EndAnswer(w http.ResponseWriter, within time.Duration) {
	SetWriteTimeout(w, within)
	_ = http.NewResponseController(w).Flush()
	SetWriteTimeout(w, 0)
}
