package scheduling

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawl-run/pawl/internal/codec"
	runstate "github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/schedule"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/workflow"
)

// A state is what a schedule has come to. It is kept in one row, beside the schedule itself, which changes in the commit of what it
// tells of.
type state struct {
	AppliedAt time.Time           `json:"appliedAt"`
	Begun     time.Time           `json:"begun"`              // instants up to this one are not the schedule's
	Done      []span              `json:"done,omitempty"`     // in which every instant is decided, in order
	Told      time.Time           `json:"told,omitzero"`      // up to where it was told what came too late
	LastEnd   time.Time           `json:"lastEnd,omitzero"`   // when a run of it has ended last
	Last      *lastRun            `json:"last,omitempty"`     // the one that began last of those that have ended
	Live      []schedule.Event    `json:"live,omitempty"`     // that have started runs which are not over, as far as is known
	Waiting   *schedule.Event     `json:"waiting,omitempty"`  // the firing that waits for them
	Caller    *runstate.Trace     `json:"caller,omitempty"`   // the span of the caller who triggered the waiting firing; nil without
	Triggered time.Time           `json:"triggered,omitzero"` // the last instant of a trigger: each has its own
	Paused    *schedule.Pause     `json:"paused,omitempty"`   // nil if it is not
	Backfills []schedule.Backfill `json:"backfill,omitempty"` // From is the last instant that was decided
	Num       int64               `json:"num"`                // of the last event
	Fired     int64               `json:"fired"`              // runs that it has started
	Failures  int                 `json:"failures,omitempty"` // in a row
	LagMillis int64               `json:"lagMillis,omitempty"`
}

// A lastRun is what expressions know of the run before.
type lastRun struct {
	Run       workflow.RunID     `json:"run"`
	Status    workflow.RunStatus `json:"status"`
	Scheduled time.Time          `json:"scheduled"`
}

// A span has the instants later than From and not later than To.
type span struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
}

func (s span) contains(at time.Time) bool { return at.After(s.From) && !at.After(s.To) }

// maxSpans bounds the spans of a schedule. Each time without an engine that is longer than the window adds one; beyond the bound the
// two oldest become one, so that a clock which is set back that far passes over what is between them.
const maxSpans = 16

// closeSpan notes that every instant later than from and not later than to is decided.
func (s *state) closeSpan(from, to time.Time) {
	if !from.Before(to) {
		return
	}
	all := append(slices.Clone(s.Done), span{from, to})
	slices.SortFunc(all, func(a, b span) int { return a.From.Compare(b.From) })
	out := all[:1]
	for _, next := range all[1:] {
		if last := &out[len(out)-1]; next.From.After(last.To) {
			out = append(out, next)
		} else if next.To.After(last.To) {
			last.To = next.To
		}
	}
	if len(out) > maxSpans {
		out[1].From = out[0].From
		out = out[1:]
	}
	s.Done = out
}

// isDone reports whether an instant is decided, and up to where all behind it are.
func (s *state) isDone(at time.Time) (until time.Time, done bool) {
	for _, d := range s.Done {
		if d.contains(at) {
			return d.To, true
		}
	}
	return time.Time{}, false
}

// lastDone returns the end of the last span that ends before an instant, or from if that is later.
func (s *state) lastDone(from, before time.Time) time.Time {
	for _, d := range s.Done {
		if d.To.Before(before) && d.To.After(from) {
			from = d.To
		}
	}
	return from
}

// clone returns a copy that may be changed.
func (s *state) clone() *state {
	out := *s
	out.Done, out.Live, out.Backfills = slices.Clone(s.Done), slices.Clone(s.Live), slices.Clone(s.Backfills)
	return &out
}

// countLive returns how many runs are not over that backfills have started, or that anything else has.
func (s *state) countLive(backfilled bool) (n int) {
	for i := range s.Live {
		if (s.Live[i].Cause == causeBackfill) == backfilled {
			n++
		}
	}
	return n
}

// The rows of schedules. An id has no @, so that what begins with a schedule's key is the schedule's.
const (
	rowPrefix    = store.ScheduleKeys + ":"  // and the id, and @
	eventsPrefix = store.ScheduleKeys + "d:" // and the id, @, and the slot of the event
)

// maxEvents is how many events of a schedule are kept. Each takes the slot of the one so many before it, so that nothing is deleted.
const maxEvents = 1000

func rowKey(id string) string    { return rowPrefix + id + "@" }
func eventsKey(id string) string { return eventsPrefix + id + "@" }
func eventKey(id string, num int64) string {
	return fmt.Sprintf("%s%03d", eventsKey(id), num%maxEvents)
}

// A row is a schedule as it is kept.
type row struct {
	Schedule schedule.Schedule `json:"schedule"`
	State    *state            `json:"state"`
}

// keptOf returns v under a key.
func keptOf(key string, v any, at time.Time) (store.Kept, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return store.Kept{}, err
	}
	model, err := codec.DecodeValue(data)
	return store.Kept{Key: key, Value: model, At: at}, err
}

// readKept reads what keptOf has made.
func readKept(v, into any) error { return json.Unmarshal(value.Encode(v), into) }

// readRow reads the row of a schedule.
func readRow(v any) (r row, err error) {
	if err = readKept(v, &r); err == nil && r.State == nil {
		err = errors.New("the row has no state")
	}
	return r, err
}

// idOf returns the id of the schedule whose row has a key.
func idOf(key string) string {
	return strings.TrimSuffix(strings.TrimPrefix(key, rowPrefix), "@")
}

// The kinds of events, why there was a firing, and why it was skipped; the reasons of a [schedule.Left] are others.
const (
	kindStarted = "started"
	kindJoined  = "joined"
	kindSkipped = "skipped"
	kindRefused = "refused"
	kindWaiting = "waiting"
	kindPaused  = "paused"
	kindResumed = "resumed"

	causeInstant  = "instant"
	causeTrigger  = "trigger"
	causeBackfill = "backfill"

	skipOverlap = "overlap"
	skipWindow  = "window"
	skipMost    = "most"
	skipPaused  = "paused"
)

// The kinds of changes that a set makes to a schedule.
const (
	changeCreated   = "created"
	changeChanged   = "changed"
	changeDeleted   = "deleted"
	changeUnchanged = "unchanged"
)
