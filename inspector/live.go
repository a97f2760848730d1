package inspector

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/internal/fair"
)

// The pace of what viewers get.
// A page that is watched is made anew when its runs move, on the server, and sent whole. That costs a processor the more, the larger the
// page: frameShare bounds it to half a percent of one for each page, however large that is, as long as frameWithin lets it.
const (
	frameEvery  = 250 * time.Millisecond // at most four frames a second
	frameShare  = 199                    // times as long as a frame has used a processor, nothing is made, unless the page has saved it
	frameSaved  = 25 * time.Millisecond  // of a processor, that a page which rests may save
	frameWithin = 2 * time.Second        // but no longer: a page that is watched stays live, whatever a frame costs
	whyShare    = 99                     // times as long as it took to work out why a run stands where it stands, that is not done again
	whyWithin   = 10 * time.Second       // but no longer
	handOut     = 2 * time.Nanosecond    // what a byte of a frame takes on its way to a viewer
	lookEvery   = 2 * time.Second        // at what workers do
	tasksEvery  = 30 * time.Second       // at what tasks there are, on the first page, and at schedules
	aliveEvery  = 15 * time.Second       // a comment, so that nobody takes the stream for dead, and a look at the rights
	writeWithin = 30 * time.Second       // a viewer that takes longer for a frame has gone
	mostHubs    = 256                    // pages that are watched at once
	mostViewers = 1024                   // viewers of pages
	mostViews   = 64                     // pages that one viewer with a name watches
)

// A hubKey is a page that looks the same to all who watch it.
//
// Rights are part of it, and whether the runs have values, as they decide what is on the page. The name of the viewer is not: the main part
// of a page does not depend on names.
type hubKey struct {
	address string // with the parameters
	rights  api.Rights

	redacted bool // the page says so, and explains nothing
}

// A hub makes the frames of one page, once for all its viewers.
//
// It lives as long as it has viewers and its page may change; runHub is its goroutine. The channel of a viewer has room for one frame, and
// sendFrame replaces one that was not taken: a slow viewer misses frames, and slows nobody.
type hub struct {
	key     hubKey
	cancel  context.CancelFunc
	viewers map[chan []byte]bool // guarded by hubs.mu; each holds the last frame only
	last    []byte               // likewise
}

// hubs are the pages that somebody watches.
//
// mu guards all of it, with the viewers and last of each hub, and is never held while a frame is made.
type hubs struct {
	mu      sync.Mutex
	all     map[hubKey]*hub
	viewers fair.Places[string] // by name
	count   atomic.Int64        // of viewers
}

// takePlace counts a viewer until leave; the caller holds the lock. Nothing tells viewers without a name apart: the bound of all bounds
// them.
func (hs *hubs) takePlace(who string) bool {
	if who == "" {
		return hs.viewers.Take(who, mostViewers)
	}
	return hs.viewers.Take(who, mostViews)
}

// errCrowded is answered with 503. The page stays as it is, and asks again.
var errCrowded = errors.New("too many pages are watched: try again later")

// joinHub returns a channel of the frames of a page, and what to do at the end.
//
// The first who watches a page starts its hub. A later one gets the last frame at once. The channel is closed when the hub ends, be it that
// nothing will change any more. The caller calls the function exactly once.
func (s *server) joinHub(p *page, address string) (<-chan []byte, func(), error) {
	key := hubKey{address, p.rights, p.redacted}
	frames := make(chan []byte, 1)
	s.hubs.mu.Lock()
	defer s.hubs.mu.Unlock()
	h, who := s.hubs.all[key], p.who
	if h == nil && len(s.hubs.all) >= mostHubs || !s.hubs.takePlace(who) {
		return nil, nil, errCrowded
	}
	if h == nil {
		// The hub must not end with the request of its first viewer: others may have joined.
		ctx, cancel := context.WithCancel(context.WithoutCancel(p.r.Context()))
		h = &hub{key: key, cancel: cancel, viewers: map[chan []byte]bool{}}
		if s.hubs.all == nil {
			s.hubs.all = map[hubKey]*hub{}
		}
		s.hubs.all[key] = h
		go s.runHub(ctx, h) // until its last viewer leaves, or the engine closes
	}
	h.viewers[frames] = true
	s.hubs.count.Add(1)
	// The channel is empty and has room for one, so this never waits.
	if h.last != nil {
		frames <- h.last
	}
	return frames, func() {
		s.hubs.mu.Lock()
		defer s.hubs.mu.Unlock()
		delete(h.viewers, frames)
		s.hubs.count.Add(-1)
		s.hubs.viewers.Free(who)
		if len(h.viewers) == 0 {
			s.dropHub(h)
		}
	}, nil
}

// dropHub forgets a hub; the caller holds the lock.
//
// Another hub may have the key already, if this one has ended by itself; that one stays.
func (s *server) dropHub(h *hub) {
	h.cancel()
	if s.hubs.all[h.key] == h {
		delete(s.hubs.all, h.key)
	}
}

// runHub makes a frame whenever something has moved that the page may show.
//
// It makes one at the beginning, then after each commit that may concern the page, but no more often than its budget allows. It ends with
// the last viewer, with the last frame, with the engine, or if the page cannot be made.
func (s *server) runHub(ctx context.Context, h *hub) {
	defer func() { // viewers ask again, unless sendGone has told them that the page is gone
		s.hubs.mu.Lock()
		defer s.hubs.mu.Unlock()
		for frames := range h.viewers {
			close(frames)
		}
		clear(h.viewers)
		s.dropHub(h)
	}()
	// moved has no buffer: a commit that comes while a frame is made is told when the hub listens again, and many are told as one.
	moved := make(chan struct{})
	closed := make(chan struct{})
	go func() { // ends with ctx, or the engine
		defer close(closed)
		for s.waitForMove(ctx, watchFilter(h.key.address), moved) {
		}
	}()
	pause := time.NewTimer(0)
	defer pause.Stop()
	rest := time.NewTimer(whyRest) // rings if the page shows what is of an earlier record
	defer rest.Stop()
	rest.Stop()
	var budget frameBudget
	unseen := (<-chan time.Time)(nil) // ticks if the page has what no commit tells of
	if every := unseenEvery(h.key.address); every > 0 {
		look := time.NewTicker(every)
		defer look.Stop()
		unseen = look.C
	}
	for {
		select {
		case <-closed:
			return
		case <-moved:
		case <-unseen:
		case <-rest.C:
		}
		// From here on the frame shows what is committed now; a commit that comes while it is made leads to the next one.
		begin := time.Now()
		budget.saveUntil(begin)
		frame, err := s.makeFrame(ctx, h.key)
		if err != nil {
			s.sendGone(h, err)
			return
		}
		viewers := s.sendFrame(h, frame.text)
		if frame.last {
			return
		}
		// Something in it is older than the run. If nothing moves any more no commit wakes the hub, so this timer does.
		if rest.Stop(); frame.stale {
			rest.Reset(whyRest)
		}
		// To hand a frame to many viewers is work as well, though other goroutines do it.
		cost := frame.cost + time.Duration(viewers*len(frame.text))*handOut
		pause.Reset(budget.chargeFrame(cost, time.Since(begin)))
		select {
		case <-pause.C:
		case <-closed:
			return
		}
	}
}

// sendGone tells all viewers that a page cannot be made any more, if that lasts. Its stream would begin anew again and again
// without a frame, and they would take what they see for what is.
func (s *server) sendGone(h *hub, err error) {
	if busy, _ := busyStatus(err); busy != 0 || pageStatus(err) >= http.StatusInternalServerError {
		return
	}
	text, err := json.Marshal((&page{s: s, rights: h.key.rights}).errorAt(err))
	if err == nil {
		s.sendFrame(h, fmt.Appendf(nil, "event: gone\ndata: %s\n\n", text))
	}
}

// unseenEvery returns how often a page is made anew because it has what no commit tells of; 0 if it has none.
func unseenEvery(address string) time.Duration {
	switch path, _, _ := strings.Cut(address, "?"); path {
	case "workers":
		return lookEvery
	case "", "schedules", "schedule":
		return tasksEvery
	}
	return 0
}

// waitForMove tells that a page may look different now and, when that was heard, waits for the next commit that may
// change it. It reports whether there may be others. While nobody hears, commits wake nobody: the watch has ended that
// would, and the next one begins before the next frame is made.
//
// runHub calls it again and again in a goroutine. Each watch begins with Lost, at which it tells that the page may have moved; so commits
// between two watches are told as well.
func (s *server) waitForMove(ctx context.Context, f pawl.WatchFilter, moved chan<- struct{}) bool {
	for change, err := range s.engine.Watch(ctx, f) {
		switch {
		case err != nil:
			return false
		case !change.Lost: // it begins with that
			return true
		}
		select {
		case moved <- struct{}{}:
		case <-ctx.Done():
			return false
		}
	}
	return false
}

// sendFrame gives a frame to all viewers, in place of one that they have not taken, and returns how many get it.
//
// A frame that is the same as the last one is sent to nobody. All viewers share its bytes, which nobody changes.
func (s *server) sendFrame(h *hub, frame []byte) int {
	s.hubs.mu.Lock()
	defer s.hubs.mu.Unlock()
	// Most commits of other runs change nothing on a page.
	if bytes.Equal(frame, h.last) {
		return 0
	}
	h.last = frame
	for frames := range h.viewers {
		select {
		// Only this goroutine sends, and it holds the lock: after this there is room for one.
		case <-frames:
		default:
		}
		frames <- frame
	}
	return len(h.viewers)
}

// watchFilter selects the runs whose commits may change a page.
//
// A page of a run moves with that run, and with all runs whose ids begin with its id, as those of its children do. All other pages move
// with every commit.
func watchFilter(address string) pawl.WatchFilter {
	path, query, _ := strings.Cut(address, "?")
	id, ok := strings.CutPrefix(path, "run/")
	if !ok {
		return pawl.WatchFilter{}
	}
	if id == "" {
		values, _ := url.ParseQuery(query) // it was read before
		id = values.Get("id")
	} else if text, err := url.PathUnescape(id); err == nil {
		id = text
	}
	return pawl.WatchFilter{Prefix: id}
}

// serveLive streams the frames of the page at an address.
//
// The stream has the format of server-sent events. When it ends the browser connects again by itself, and sends the number of the last
// frame.
func (s *server) serveLive(p *page, address string) error {
	if p.r.URL.RawQuery != "" {
		address += "?" + p.r.URL.RawQuery
	}
	frames, leave, err := s.joinHub(p, address)
	if err != nil {
		return err
	}
	defer leave()
	p.w.Header().Set("Content-Type", "text/event-stream")
	// Or a proxy such as nginx would keep frames back until it has many.
	p.w.Header().Set("X-Accel-Buffering", "no")
	if p.r.Method == http.MethodHead {
		return nil
	}
	out := http.NewResponseController(p.w)
	alive := time.NewTicker(aliveEvery)
	defer alive.Stop()
	for {
		text := []byte(":\n\n")
		select {
		case <-p.r.Context().Done():
			return nil
		case <-alive.C:
			// A session may have ended since the stream began. The copy keeps the rights of the page to be compared with.
			now := *p
			if s.checkCaller(&now) != nil || now.rights != p.rights {
				return nil // the page asks again, and is told
			}
		case frame, ok := <-frames:
			if !ok {
				return nil
			}
			text = frame
		}
		if _, err := p.w.Write(text); err != nil {
			return nil //nolint:nilerr // the viewer has gone
		}
		if err := out.Flush(); err != nil {
			return nil //nolint:nilerr // likewise
		}
	}
}

// liveViews are the views of a run that change with it.
// Others show what does not change by itself, such as a definition, or what the reader is in the middle of, such as a simulation.
var liveViews = map[string]bool{"": true, "timeline": true, "tokens": true, "token": true, "groups": true, "group": true, "events": true, "data": true, "family": true, "why": true}

// markLive says that the page changes with what it shows, unless that has ended, and which record
// of a run it shows.
//
// Each page that can be watched calls it before it is shown. Viewers who have joined a page before it ended still watch it: the frame then
// says that it is the last.
func (p *page) markLive(streams, ended bool, seq int64) {
	p.streams, p.live, p.seq = streams, streams && !ended, seq
}
