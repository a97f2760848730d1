package tracing

import (
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// maxStays bounds how many waits are known whose ends make spans, maxReads the runs whose events are read at a time, and maxUnread the waits
// for which that is still to be done.
const (
	maxStays  = 500_000
	maxReads  = 64
	maxUnread = 50_000
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
	scope  workflow.Scope       // where it is
	since  time.Time            // zero if it is older than this life of the engine
}

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
	if t == nil {
		return
	}
	if s.Status.Final() || s.Status == workflow.RunCreated {
		t.Forget(s.Run)
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
				found[place{token: id}] = stay{status: k.Status, scope: k.Scope}
			}
		}
	}
	for id := workflow.GroupID(1); id < s.NextGroup; id++ {
		if g := s.Group(id); g.Phase == workflow.Gathering && g.Name != "" {
			found[place{group: id}] = stay{scope: g.Scope}
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
		t.keepStay(s, at, st)
	}
}

// Forget forgets the waits of a run that is not there any more.
func (t *Tracer) Forget(run workflow.RunID) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.dropBook(run)
}

// keepStay keeps a wait, unless so many are kept that there is no room. The caller holds the lock.
func (t *Tracer) keepStay(s *state.State, at place, st stay) {
	if t.stays == maxStays {
		return
	}
	b := t.books[s.Run]
	if b == nil {
		b = newBook()
		t.books[s.Run] = b
	}
	if _, known := b.stays[at]; !known {
		t.addStays(1)
	}
	b.putStay(s, at, st)
}

// addStays counts waits that are kept, or not any more. The caller holds the lock.
func (t *Tracer) addStays(n int) {
	t.stays += n
	t.kept.Store(int64(t.stays))
}

// dropStay forgets a wait, if it is kept. The caller holds the lock.
func (t *Tracer) dropStay(s *state.State, at place) {
	b := t.books[s.Run]
	if b == nil {
		return
	}
	if st, known := b.stays[at]; known {
		b.takeStay(s, at, st)
		t.addStays(-1)
	}
	if len(b.stays) == 0 {
		delete(t.books, s.Run)
	}
}

// dropBook forgets all waits of a run. The caller holds the lock.
func (t *Tracer) dropBook(run workflow.RunID) {
	if b := t.books[run]; b != nil {
		t.addStays(-len(b.stays))
		delete(t.books, run)
	}
}

// Committed makes the spans of what a commit of records has ended, which has told events; s is the state after it.
func (t *Tracer) Committed(s *state.State, records []decision.Record, told []decision.Told) {
	if t == nil || len(told) == 0 {
		return
	}
	run := RunBy(s.Run, s.Graph.Definition, s.Trace)
	for i := range told {
		e := told[i].Bare()
		if o := OutcomeOf(e.Type); o != "" && e.Token != 0 {
			t.sources.EndAttempt(s.Run, e.Token, End{o, decision.ErrorCode(e), messageOf(records, e)})
		}
	}
	ended := t.noteEvents(s, records, told)
	var unknown []endedWait
	for i := range ended {
		if ended[i].since.IsZero() {
			unknown = append(unknown, ended[i])
			continue
		}
		t.writeWait(run, ended[i])
	}
	if len(unknown) > 0 {
		t.readSince(waitRead{run, unknown, told[len(told)-1].Bare().Seq})
	}
	if s.Status.Final() {
		t.writeRun(s, run)
	}
}

// OutcomeOf returns how the attempt of a token that is out has ended by an event of a type; "" if such events end none.
func OutcomeOf(t workflow.EventType) Outcome {
	switch t {
	case workflow.EventTaskCompleted:
		return Completed
	case workflow.EventTaskFailed, workflow.EventTaskRetrying, workflow.EventTaskParked:
		return Failed
	case workflow.EventTaskSnoozed:
		return Snoozed
	default:
		return ""
	}
}

// messageOf returns the message of the record that has told an event; nil if that is not among the records.
func messageOf(records []decision.Record, e *decision.Event) state.Message {
	if i := int(e.Record - records[0].Seq); i >= 0 && i < len(records) {
		return records[i].Message
	}
	return nil
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

// noteEvents takes note of the waits that a commit of records, which has told events, has begun, and returns those that it has
// ended.
func (t *Tracer) noteEvents(s *state.State, records []decision.Record, told []decision.Told) (ended []endedWait) {
	if !t.concernWaits(s, told) {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range told {
		e := told[i].Bare()
		if e.Token != 0 {
			ended = t.noteToken(ended, s, e)
		}
		switch e.Type {
		case workflow.EventFanOutStarted:
			if g := s.Group(e.Group); g.Name != "" && g.Phase == workflow.Gathering {
				t.keepStay(s, place{group: e.Group}, stay{scope: g.Scope, since: e.At})
			}
		case workflow.EventFanInCompleted, workflow.EventFanInFailed, workflow.EventFanInAbandoned:
			ended = t.endIfOver(ended, s, place{group: e.Group}, e.At, decision.ErrorCode(e))
		default:
		}
	}
	// Tokens that end with a join, a branch or a run have no event of their own, nor have groups.
	b := t.books[s.Run]
	switch {
	case b == nil:
	case s.Status.Final():
		t.dropBook(s.Run) // a group that gathers does so for ever
		for at, st := range b.stays {
			ended = t.endStay(ended, s, at, st, told[len(told)-1].Bare().At, "")
		}
	default:
		b.visitEnds(s, records, func(at place, to time.Time) { ended = t.endIfOver(ended, s, at, to, "") })
	}
	return ended
}

// noteToken takes note of the token that an event is about. The caller holds the lock.
func (t *Tracer) noteToken(ended []endedWait, s *state.State, e *decision.Event) []endedWait {
	at, k := place{token: e.Token}, s.Token(e.Token)
	ended = t.endIfOver(ended, s, at, e.At, decision.ErrorCode(e))
	if waitNames[k.Status] == "" {
		return ended
	}
	if b := t.books[s.Run]; b != nil {
		if _, known := b.stays[at]; known {
			return ended
		}
	}
	t.keepStay(s, at, stay{status: k.Status, scope: k.Scope, since: e.At})
	return ended
}

// endIfOver adds a wait to those that are over, if it is, and was known. The caller holds the lock.
func (t *Tracer) endIfOver(ended []endedWait, s *state.State, at place, to time.Time, code string) []endedWait {
	b := t.books[s.Run]
	if b == nil {
		return ended
	}
	st, known := b.stays[at]
	if k := s.Token(at.token); !known || k != nil && k.Status == st.status {
		return ended
	}
	if g := s.Group(at.group); g != nil && g.Phase == workflow.Gathering {
		return ended
	}
	return t.endStay(ended, s, at, st, to, code)
}

// endStay adds a wait to those that are over. The caller holds the lock.
func (t *Tracer) endStay(ended []endedWait, s *state.State, at place, st stay, to time.Time, code string) []endedWait {
	t.dropStay(s, at)
	w := endedWait{at: at, name: "join", since: st.since, to: to, code: code}
	if k := s.Token(at.token); k != nil {
		w.name, w.attributes = waitNames[st.status], []attribute.KeyValue{nodeKey.String(string(k.Node)), tokenKey.Int64(int64(at.token))}
		if st.scope.Group != 0 {
			w.attributes = append(w.attributes, branchKey.Int(st.scope.Branch))
		}
	} else if g := s.Group(at.group); g != nil {
		w.attributes = []attribute.KeyValue{nodeKey.String(string(g.Node)), groupKey.String(g.Name), branchesKey.Int(g.Total)}
	} else {
		return ended // it is of a run that had the id before
	}
	return append(ended, w)
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

// A waitRead is a run whose events are to be read, up to a sequence, since waits of it are over that have begun in an earlier life of the
// engine.
type waitRead struct {
	run   Run
	ended []endedWait
	last  int64
}

// readSince makes the spans of waits that have begun in an earlier life of the engine, in the background: the events of the run tell when.
// Many runs may wait for the same instant, so that most reads wait for others.
func (t *Tracer) readSince(r waitRead) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.ctx.Err() != nil, t.unread+len(r.ended) > maxUnread:
		return
	case t.reading == maxReads:
		t.queue = append(t.queue, r)
	default:
		t.reading++
		t.reads.Go(func() { t.readAll(r) })
	}
	t.unread += len(r.ended)
}

// readAll makes the spans of the waits of a run, and then those of others, until none is left.
func (t *Tracer) readAll(r waitRead) {
	for more := true; more; r, more = t.nextRead(r) {
		began := t.readBegins(r.run.ID, r.last)
		for i := range r.ended {
			if r.ended[i].since = began[r.ended[i].at]; !r.ended[i].since.IsZero() {
				t.writeWait(r.run, r.ended[i])
			}
		}
		t.noteBegins(r.run.ID, began)
	}
}

// nextRead returns what is to be read after a run; false if there is nothing, or the tracer is closed.
func (t *Tracer) nextRead(done waitRead) (next waitRead, more bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.unread -= len(done.ended)
	if len(t.queue) == 0 || t.ctx.Err() != nil {
		t.reading--
		return next, false
	}
	next, t.queue[0] = t.queue[0], next
	t.queue = t.queue[1:]
	return next, true
}

// noteBegins notes when waits of a run have begun that last.
func (t *Tracer) noteBegins(run workflow.RunID, began map[place]time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	b := t.books[run]
	if b == nil {
		return
	}
	for at, st := range b.stays {
		if st.since.IsZero() {
			st.since = began[at]
			b.stays[at] = st
		}
	}
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
