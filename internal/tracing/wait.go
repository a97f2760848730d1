package tracing

import (
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// maxStays bounds how many waits are known whose ends make spans, and maxReads the runs whose events are read at a time.
const (
	maxStays = 500_000
	maxReads = 64
)

// waitNames are the names of spans, by the status of a token that waits. A token that waits for its siblings is part of the join of its group, and one
// that waits for a child run of the span of that.
var waitNames = [workflow.Cancelled + 1]string{
	workflow.WaitingForTimer: "wait timer", workflow.WaitingForEvent: "wait event", workflow.WaitingForApproval: "wait approval",
	workflow.WaitingForOperator: "wait operator", workflow.WaitingForLock: "wait lock", workflow.WaitingForJoin: "wait join",
	workflow.WaitingForBudget: "wait budget",
}

// A place is that of a wait in a run: a token, or a group.
type place struct {
	token workflow.TokenID
	group workflow.GroupID
}

// A stay is a wait that lasts.
type stay struct {
	status workflow.TokenStatus // of a token
	since  time.Time            // zero if it is older than this life of the engine
}

// A book has the waits of a run.
type book struct{ stays map[place]stay }

// An endedWait is a wait that is over.
type endedWait struct {
	at         place
	name       string
	since, to  time.Time
	code       string
	attributes []attribute.KeyValue
}

// Loaded takes note of what waits in a run that was read.
func (t *Tracer) Loaded(s *state.State) {
	if t == nil || s.Status.Final() || s.Status == workflow.RunCreated {
		return
	}
	found := map[place]stay{}
	waiting := 0
	for status, name := range waitNames {
		if name != "" {
			waiting += s.CountByStatus(workflow.TokenStatus(status))
		}
	}
	if waiting > 0 {
		for _, id := range s.LiveTokens() {
			if k := s.Token(id); waitNames[k.Status] != "" {
				found[place{token: id}] = stay{status: k.Status}
			}
		}
	}
	for id := workflow.GroupID(1); id < s.NextGroup; id++ {
		if g := s.Group(id); g.Phase == workflow.Gathering && g.Name != "" {
			found[place{group: id}] = stay{}
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	before := t.books[s.Run]
	t.dropBook(s.Run)
	for at, st := range found {
		if before != nil && before.stays[at].status == st.status {
			st.since = before.stays[at].since
		}
		t.keepStay(s.Run, at, st)
	}
}

// keepStay keeps a wait. The caller holds the lock.
func (t *Tracer) keepStay(run workflow.RunID, at place, st stay) {
	b := t.books[run]
	if b == nil {
		b = &book{stays: map[place]stay{}}
		t.books[run] = b
	}
	if _, known := b.stays[at]; !known {
		if t.stays == maxStays {
			return
		}
		t.addStays(1)
	}
	b.stays[at] = st
}

// addStays counts waits that are kept, or not any more. The caller holds the lock.
func (t *Tracer) addStays(n int) {
	t.stays += n
	t.kept.Store(int64(t.stays))
}

// dropStay forgets a wait. The caller holds the lock.
func (t *Tracer) dropStay(run workflow.RunID, at place) {
	b := t.books[run]
	if b == nil {
		return
	}
	if _, known := b.stays[at]; known {
		delete(b.stays, at)
		t.addStays(-1)
	}
	if len(b.stays) == 0 {
		delete(t.books, run)
	}
}

// dropBook forgets all waits of a run. The caller holds the lock.
func (t *Tracer) dropBook(run workflow.RunID) {
	if b := t.books[run]; b != nil {
		t.addStays(-len(b.stays))
		delete(t.books, run)
	}
}

// Committed makes the spans of what a commit has ended, which has told events; s is the state after it.
func (t *Tracer) Committed(s *state.State, told []decision.Told) {
	if t == nil || len(told) == 0 {
		return
	}
	run := RunBy(s.Run, s.Graph.Definition, s.Trace)
	for i := range told {
		if e := told[i].Bare(); e.Token != 0 && endsAttempt[e.Type] {
			t.sources.EndAttempt(s.Run, e.Token, decision.ErrorCode(told[i].Bare()))
		}
	}
	ended := t.noteEvents(s, told)
	var unknown []endedWait
	for i := range ended {
		if ended[i].since.IsZero() {
			unknown = append(unknown, ended[i])
			continue
		}
		t.writeWait(run, ended[i])
	}
	if len(unknown) > 0 {
		t.readSince(run, unknown, told[len(told)-1].Bare().Seq)
	}
	if s.Status.Final() {
		t.writeRun(s, run)
	}
}

// endsAttempt are the events that end the attempt of a token which is out.
var endsAttempt = map[workflow.EventType]bool{
	workflow.EventTaskCompleted: true, workflow.EventTaskFailed: true, workflow.EventTaskRetrying: true, workflow.EventTaskSnoozed: true,
	workflow.EventTaskParked: true,
}

// concernWaits reports whether events may begin or end a wait. One goroutine at a time has a run, so that nobody else adds waits of this one.
func (t *Tracer) concernWaits(s *state.State, told []decision.Told) bool {
	if t.kept.Load() > 0 {
		return true
	}
	for i := range told {
		if e := told[i].Bare(); e.Type == workflow.EventFanOutStarted || e.Token != 0 && waitNames[s.Token(e.Token).Status] != "" {
			return true
		}
	}
	return false
}

// noteEvents takes note of the waits that events have begun, and returns those that they have ended.
func (t *Tracer) noteEvents(s *state.State, told []decision.Told) (ended []endedWait) {
	if !t.concernWaits(s, told) {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	withdraws := s.Status.Final()
	for i := range told {
		e := told[i].Bare()
		if e.Token != 0 {
			ended = t.noteToken(ended, s, e)
		}
		switch e.Type {
		case workflow.EventFanOutStarted:
			if g := s.Group(e.Group); g.Name != "" && g.Phase == workflow.Gathering {
				t.keepStay(s.Run, place{group: e.Group}, stay{since: e.At})
			}
		case workflow.EventFanInCompleted, workflow.EventFanInFailed, workflow.EventFanInAbandoned:
			ended = t.endGroup(ended, s, e.Group, e.At, decision.ErrorCode(e))
			withdraws = true
		case workflow.EventTokenCancelled, workflow.EventTokenFailed, workflow.EventTokenTimedOut, workflow.EventWorkflowPatched:
			withdraws = true
		default:
		}
	}
	// Tokens that end with a join, a branch or a run have no event of their own.
	if b := t.books[s.Run]; b != nil && withdraws {
		at := told[len(told)-1].Bare().At
		for p, st := range b.stays {
			switch {
			case p.group != 0 && s.Group(p.group).Phase != workflow.Gathering:
				ended = t.endGroup(ended, s, p.group, at, "")
			case p.token != 0 && s.Token(p.token).Status != st.status:
				ended = t.endToken(ended, s, p.token, st, at, "")
			}
		}
	}
	return ended
}

// noteToken takes note of the token that an event is about. The caller holds the lock.
func (t *Tracer) noteToken(ended []endedWait, s *state.State, e *decision.Event) []endedWait {
	at, k := place{token: e.Token}, s.Token(e.Token)
	if b := t.books[s.Run]; b != nil {
		if st, known := b.stays[at]; known && st.status != k.Status {
			ended = t.endToken(ended, s, e.Token, st, e.At, decision.ErrorCode(e))
		} else if known {
			return ended
		}
	}
	if waitNames[k.Status] != "" {
		t.keepStay(s.Run, at, stay{status: k.Status, since: e.At})
	}
	return ended
}

// endToken adds a token's wait to those that are over. The caller holds the lock.
func (t *Tracer) endToken(ended []endedWait, s *state.State, id workflow.TokenID, st stay, to time.Time, code string) []endedWait {
	at := place{token: id}
	t.dropStay(s.Run, at)
	k := s.Token(id)
	a := []attribute.KeyValue{nodeKey.String(string(k.Node)), tokenKey.Int64(int64(id))}
	if k.Scope.Group != 0 {
		a = append(a, branchKey.Int(k.Scope.Branch))
	}
	return append(ended, endedWait{at: at, name: waitNames[st.status], since: st.since, to: to, code: code, attributes: a})
}

// endGroup adds a join to those that are over, if it was known. The caller holds the lock.
func (t *Tracer) endGroup(ended []endedWait, s *state.State, id workflow.GroupID, to time.Time, code string) []endedWait {
	at := place{group: id}
	b := t.books[s.Run]
	if b == nil {
		return ended
	}
	st, known := b.stays[at]
	if !known {
		return ended
	}
	t.dropStay(s.Run, at)
	g := s.Group(id)
	a := []attribute.KeyValue{nodeKey.String(string(g.Node)), groupKey.String(g.Name), branchesKey.Int(g.Total)}
	return append(ended, endedWait{at: at, name: "join", since: st.since, to: to, code: code, attributes: a})
}

// writeWait makes the span of a wait.
func (t *Tracer) writeWait(run Run, w endedWait) {
	t.late.tellLater(func() {
		endSpan(t.startSpan(&run, w.name, w.since, internal, append(run.appendAttributes(nil), w.attributes...)), w.to, w.code)
	})
}

// writeRun makes the span of a run that has ended.
func (t *Tracer) writeRun(s *state.State, run Run) {
	code := ""
	if s.Failure != nil {
		code = s.Failure.Code
	}
	a := append(run.appendAttributes(nil), statusKey.String(s.Status.String()))
	began, ended := s.StartedAt, s.EndedAt
	t.late.tellLater(func() { endSpan(t.startSpan(&run, "run "+run.Workflow, began, internal, a), ended, code) })
}

// readSince makes the spans of waits that have begun in an earlier life of the engine, in the background: the events of the run, up to a
// sequence, tell when.
func (t *Tracer) readSince(run Run, ended []endedWait, last int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.reading == maxReads || t.ctx.Err() != nil {
		return
	}
	t.reading++
	t.reads.Go(func() {
		began := t.readBegins(run.ID, last)
		for i := range ended {
			if ended[i].since = began[ended[i].at]; !ended[i].since.IsZero() {
				t.writeWait(run, ended[i])
			}
		}
		t.mu.Lock()
		defer t.mu.Unlock()
		t.reading--
		b := t.books[run.ID]
		if b == nil {
			return
		}
		for at, st := range b.stays {
			if st.since.IsZero() {
				st.since = began[at]
				b.stays[at] = st
			}
		}
	})
}

// readBegins returns when each wait of a run has begun, by its events before a sequence.
func (t *Tracer) readBegins(run workflow.RunID, before int64) map[place]time.Time {
	began := map[place]time.Time{}
	for e, err := range t.sources.Events(t.ctx, run, 0) {
		if err != nil || e.Seq >= before {
			break
		}
		switch e.Type {
		case workflow.EventTokenWaiting, workflow.EventApprovalRequested, workflow.EventTaskParked:
			began[place{token: e.Token}] = e.At
		case workflow.EventFanOutStarted:
			began[place{group: e.Group}] = e.At
		default:
		}
	}
	return began
}
