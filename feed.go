package pawl

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/history"
	"github.com/pawl-run/pawl/internal/outbox"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/workflow"
)

// A Feed publishes the events of runs, to a broker or to another receiver. Package natscluster has one
// for NATS JetStream. See docs/feed.md.
type Feed interface {
	// Publish returns nil when its receiver has the message for good. After an error it is published again, and the later ones of
	// its run wait for that. It is called by up to 16 goroutines at once, with one message of a run at a time, and returns soon
	// after ctx is done: after 30 s, or when the engine closes. It returns nil also for a message that can never be published, or
	// else the run's messages behind it wait for ever.
	Publish(ctx context.Context, m FeedMessage) error
}

// A FeedFunc is a function that is a Feed.
type FeedFunc func(ctx context.Context, m FeedMessage) error

// Publish implements Feed.
func (f FeedFunc) Publish(ctx context.Context, m FeedMessage) error {
	if f == nil {
		return fmt.Errorf("%w: the function that is to publish is nil", ErrInvalid)
	}
	return f(ctx, m)
}

// A FeedMessage is an event to publish.
type FeedMessage struct {
	// ID is the same whenever the event is published again, and no other event has it: brokers drop repetitions by it. It is made
	// of the run, the number of the event and 16 hexadecimal digits.
	ID       string         `json:"id"`
	Run      workflow.RunID `json:"run"`
	Workflow string         `json:"workflow"`        // name of the definition
	Version  int            `json:"version"`         // of the definition
	Tenant   string         `json:"tenant,omitzero"` // on whose behalf the run is
	Event    history.Event  `json:"event"`           // as Events lists it, but without the keys of tasks, with which anybody can complete them
}

// FeedOptions say which events are published, and to whom.
//
// An event is stored in the directory in the transaction in which it happens, and deleted once it is published. So each event is
// published at least once, after its commit, however often the process is killed, and the events of a run in order. If an event
// is published again, after an error or a kill, it precedes all events of its run that were not published yet.
//
// Events that commit without a Feed are not kept: events from before the first Open with a Feed, and events that a fork shares
// with its original, are not published. Events of a purged run stay until they are published.
type FeedOptions struct {
	// To publishes the events; nil publishes and keeps none, and costs nothing.
	To Feed
	// Types are the types of the events that are wanted; none is all.
	Types []workflow.EventType
	// MaxBytes is how many bytes of events may wait in the directory while the broker is away or slow; 256 MiB by default. At
	// this bound commits with events wait until some are published: runs stand still, and calls that change a run block until
	// their contexts end. No step and no event is lost. Close waits for the broker 2 s at most.
	MaxBytes int64
}

// feedLanes is how many messages, each of another run, are published at once.
const feedLanes = 16

const defaultFeedBytes = 256 << 20

// FeedStats say how far the Feed is.
type FeedStats struct {
	Waiting   int64     `json:"waiting"`          // events that are not published yet, or just were
	Bytes     int64     `json:"bytes"`            // that they take in the directory
	Full      bool      `json:"full"`             // Bytes has reached FeedOptions.MaxBytes: commits that bring events wait
	Published int64     `json:"published"`        // messages that the Feed has taken since Open
	Failing   time.Time `json:"failing,omitzero"` // since when messages fail; zero if none does
	Error     string    `json:"error,omitzero"`   // of the last that did
}

// checkFeed completes the options of a feed, or says what is wrong with them.
func checkFeed(o FeedOptions) (FeedOptions, error) {
	switch {
	case o.MaxBytes < 0:
		return o, fmt.Errorf("%w: Feed.MaxBytes is %d: it is not negative", ErrInvalid, o.MaxBytes)
	case o.To == nil:
		return FeedOptions{}, nil
	case o.MaxBytes == 0:
		o.MaxBytes = defaultFeedBytes
	}
	o.Types = slices.Clone(o.Types)
	return o, nil
}

// newFeeder returns what publishes the events of an engine until it is stopped; nil without a feed. Open starts it once the
// runs have been recovered, and never with Maintenance.
func newFeeder(e *Engine) *outbox.Feeder {
	o := e.options.Feed
	if o.To == nil {
		return nil
	}
	return outbox.New(outbox.Options{
		Dir: e.dir, Types: o.Types, MaxBytes: o.MaxBytes, Lanes: feedLanes, Logger: e.options.Logger, Metrics: e.metrics, Hook: e.hook,
		Publish: func(ctx context.Context, row *store.OutboxRow, event *decision.Event) error {
			return o.To.Publish(ctx, messageOf(row, event))
		},
	})
}

// messageOf returns the message of an event of a row.
func messageOf(row *store.OutboxRow, e *decision.Event) FeedMessage {
	return FeedMessage{
		ID:  fmt.Sprintf("%s/%d/%016x", row.Run, e.Seq, row.Tag),
		Run: row.Run, Workflow: row.Workflow, Version: row.Version, Tenant: row.Tenant, Event: *e,
	}
}

// feedStats returns how far the feed is; nil without one.
func (e *Engine) feedStats() *FeedStats {
	if e.feeder == nil {
		return nil
	}
	s := e.feeder.Stats()
	out := &FeedStats{Published: s.Published, Failing: s.Failing, Error: s.Failure}
	out.Waiting, out.Bytes = e.dir.OutboxSize()
	out.Full = out.Bytes >= e.options.Feed.MaxBytes
	return out
}
