package api

import (
	"net/http"
	"sync"

	"github.com/pawl-run/pawl/internal/fair"
)

// Bounds on what callers have at once. One caller with a name has a part of it, so that nobody keeps all others out.
const (
	maxCalls     = 4096
	maxCallsOf   = 1024
	maxStreams   = 256
	maxStreamsOf = 64
	maxReplays   = 32 // each may have a run of 128 MiB and more in memory
	maxReplaysOf = 8
)

// A crowd is what callers have at once of one kind. It counts only: there is no queue, and who
// finds no place is refused at once. A queue would hold the memory and connections that the bound
// is there to save. places is guarded by mu; the rest does not change.
type crowd struct {
	mu     sync.Mutex
	places fair.Places[string]
	most   int
	mostOf int
	what   string // they are
}

func newCrowd(most, mostOf int, what string) *crowd {
	return &crowd{places: fair.NewPlaces[string](most), most: most, mostOf: mostOf, what: what}
}

// admit counts one of a caller's until leave is called, or refuses it. Callers without a name are
// told apart by nothing: what bounds them is the bound of all. leave must be called exactly once,
// when the request or the stream is over, also if it fails; callers defer it.
func (c *crowd) admit(who string) (leave func(), err error) {
	most := c.mostOf
	if who == "" {
		most = c.most
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.places.Take(who, most) {
		return nil, refusef(http.StatusServiceUnavailable, "busy", "there are as many %s at once as may be, %d of one caller and %d of all: try again later", c.what, most, c.most)
	}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.places.Free(who)
	}, nil
}
