package inspector

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/crowd"
	"github.com/pawl-run/pawl/internal/refusal"
	"github.com/pawl-run/pawl/replay"
	"github.com/pawl-run/pawl/workflow"
)

// The bounds of what is worked out at once for nobody in particular: frames, which all who watch a page share, and
// the answers to why runs stand where they stand. Requests have those of package crowd, as in the API.
const (
	mostFrames  = 8 // for which whole runs are read
	mostAnswers = 8 // each reads one
)

// admitCaller counts a request until leave is called, or refuses it: it comes too soon, or the caller has too many at
// once. Programs on the socket are of the same user as the engine, and come at any rate.
func (s *server) admitCaller(p *page) (leave func(), err error) {
	if !s.local {
		if err := s.bounds.Pace.Space(p.who, time.Now()); err != nil {
			return nil, err
		}
	}
	return s.bounds.Calls.Admit(p.who)
}

// takeWhole counts the page among those for which whole runs are read, until leaveWhole. It comes before each such read, and counts once.
//
// A request is refused where there is no place: the bound is there to save the memory that it would hold. A frame waits for a place: there
// are only so many hubs, and each makes one frame at a time.
func (p *page) takeWhole() error {
	if p.leave != nil {
		return nil
	}
	if p.framed {
		select {
		case p.s.frames <- struct{}{}:
			p.leave = func() { <-p.s.frames }
			return nil
		case <-p.r.Context().Done():
			return context.Cause(p.r.Context())
		}
	}
	leave, err := p.s.bounds.Replays.Admit(p.who)
	p.leave = leave
	return err
}

// pageEffort is how much of a processor a page may take to find the runs of a list, as in the API.
const pageEffort = 2 * time.Second

// takeWhere counts the page among those for which whole runs are read if it has a condition, for which each run may have to be looked at.
func (p *page) takeWhere(where string) error {
	if where == "" {
		return nil
	}
	return p.takeWhole()
}

// stoppedAt returns where a list has stopped as it has come to its effort; nil if it has another error or none.
func stoppedAt(err error) *pawl.EffortError {
	stopped := (*pawl.EffortError)(nil)
	_ = errors.As(err, &stopped)
	return stopped
}

// leaveWhole gives the place back when the page is written.
func (p *page) leaveWhole() {
	if p.leave != nil {
		p.leave()
		p.leave = nil
	}
}

// recording reads the journal of a run as a whole.
func (p *page) recording(ctx context.Context, id workflow.RunID) (*replay.Recording, error) {
	if err := p.takeWhole(); err != nil {
		return nil, err
	}
	rec, err := p.s.engine.Recording(ctx, id)
	if err != nil {
		return nil, err
	}
	return rec.(*replay.Recording), nil
}

// snapshot reads a run as a whole.
func (p *page) snapshot(ctx context.Context, id workflow.RunID) (pawl.Snapshot, error) {
	if err := p.takeWhole(); err != nil {
		return pawl.Snapshot{}, err
	}
	return p.s.engine.Inspect(ctx, id)
}

// simulate copies a run into memory.
func (p *page) simulate(ctx context.Context, id workflow.RunID) (*pawl.Simulation, error) {
	if err := p.takeWhole(); err != nil {
		return nil, err
	}
	return p.s.engine.Simulate(ctx, pawl.OfRun{Run: id})
}

// busyStatus returns the status of a request that was refused as there are too many, and after how many seconds it may come again; 0 of
// another error.
func busyStatus(err error) (status int, again string) {
	if errors.Is(err, errCrowded) {
		return http.StatusServiceUnavailable, crowd.RetryAfter
	}
	if again = refusal.RetryAfter(err); again != "" {
		return pawl.HTTPStatus(err), again
	}
	return 0, ""
}
