package retrace

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/amount"
	"github.com/pawl-run/pawl/internal/runfile"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/timing"
	"github.com/pawl-run/pawl/internal/traceparent"
	"github.com/pawl-run/pawl/internal/tracing"
	"github.com/pawl-run/pawl/replay"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/workflow"
)

// A SpanID names a span in its trace.
type SpanID [8]byte

// String returns the id in hexadecimal.
func (id SpanID) String() string { return hex.EncodeToString(id[:]) }

// A Span is one of a trace.
type Span struct {
	ID         SpanID
	Parent     SpanID // zero of a root
	Name       string
	From, To   time.Time
	Error      string // the code; "" without
	Attributes []Attribute
	Run        workflow.RunID

	token  workflow.TokenID // of the span of a token, and of what is in it
	isTask bool
}

// An Attribute is a name with a text, an int64 or a bool.
type Attribute struct {
	Name  string
	Value any
}

// A Trace is that of a run, with all runs below it.
type Trace struct {
	ID    [16]byte
	Spans []Span           // parents before children; runs as they were added
	Ends  []timing.Attempt // attempts and runs that have ended, as an engine counts them; of a fork, those since it was forked
	most  int
}

// Of returns the trace of a run. find returns the recording of a child run, nil if there is none any more; its error ends Of, as do those of
// the recordings. It ends with a *workflow.LimitError if there are more than most spans, which are counted while they are made; 0 is no bound.
func Of(rec *replay.Recording, most int, find func(workflow.RunID) (*replay.Recording, error)) (*Trace, error) {
	out := &Trace{most: most}
	b := &builder{trace: out, run: rec.Run}
	if err := b.addRun(rec); err != nil {
		return nil, err
	}
	root := rec.Run
	if p := b.state.Parent; p != nil {
		root = p.Root
	}
	sum := sha256.Sum256([]byte("pawl trace " + string(root)))
	copy(out.ID[:], sum[:])
	if of := b.state.Trace; of != nil {
		if sc := traceparent.Parse(of.Parent, of.State); sc.IsValid() {
			out.ID, out.Spans[0].Parent = sc.TraceID(), SpanID(sc.SpanID())
		}
	}
	for i := 0; i < len(out.Spans); i++ { // those of child runs are added behind
		child := out.Spans[i].childRun()
		if child == "" {
			continue
		}
		rec, err := find(child)
		if err != nil {
			return nil, err
		}
		if rec == nil {
			continue
		}
		below := &builder{trace: out, run: child, parent: out.Spans[i].ID}
		err = below.addRun(rec)
		rec.Close()
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Ends returns what has ended in a run, as the trace of it alone has it.
func Ends(rec *replay.Recording) ([]timing.Attempt, error) {
	t, err := Of(rec, 0, func(workflow.RunID) (*replay.Recording, error) { return nil, nil })
	if err != nil {
		return nil, err
	}
	return t.Ends, nil
}

// childKey is the attribute of the span of a wait for a child run, with its id.
const childKey = "pawl.child.run.id"

// childRun returns the child run that a span has waited for; "" without.
func (s *Span) childRun() workflow.RunID {
	for _, a := range s.Attributes {
		if a.Name == childKey {
			id, _ := a.Value.(string)
			return workflow.RunID(id)
		}
	}
	return ""
}

// A builder makes the spans of one run.
type builder struct {
	trace  *Trace
	run    workflow.RunID
	parent SpanID
	state  *state.State

	first  int                         // place of the span of the run
	ends   int                         // place of its first end
	tokens map[workflow.TokenID]int    // places of spans
	groups map[workflow.GroupID]int    // likewise
	open   map[workflow.TokenID]status // how tokens stand that live
}

// A status is how a token stands, since when, with the place of its span; -1 if that has none.
type status struct {
	status  workflow.TokenStatus
	attempt int
	span    int
	since   time.Time
	outcome tracing.Outcome // "" if the attempt goes on, or is not wanted any more
	code    string          // of its error
}

// isAttempt reports whether a task is performed, of a node that there is.
func (st *status) isAttempt() bool { return st.status == workflow.Dispatched && st.span >= 0 }

// addRun adds the spans of a recording. It makes an error of a panic over records that no planner decides.
func (b *builder) addRun(rec *replay.Recording) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("run %q: %w: its records do not fit each other: %v", string(b.run), store.ErrCorrupt, p)
		}
	}()
	b.state = state.NewState(rec.Run, rec.Graph())
	b.tokens, b.groups, b.open = map[workflow.TokenID]int{}, map[workflow.GroupID]int{}, map[workflow.TokenID]status{}
	b.first, b.ends = len(b.trace.Spans), len(b.trace.Ends)
	name := rec.Definition().Name
	b.addSpan(Span{ID: b.idOf("run"), Parent: b.parent, Name: "run " + name, Attributes: []Attribute{
		{"pawl.run.id", string(rec.Run)}, {"pawl.workflow.name", name}, {"pawl.workflow.version", int64(max(rec.Definition().Version, 1))},
	}})
	last := time.Time{}
	for r, err := range rec.Records() {
		if err != nil {
			return err
		}
		if err := b.addRecord(&r); err != nil {
			return err
		}
		if most := b.trace.most; most > 0 && len(b.trace.Spans) > most {
			return &workflow.LimitError{Limit: "spans of a trace", Max: int64(most)}
		}
		last = r.At
	}
	b.endSpans(last)
	return nil
}

// addSpan adds a span, and returns its place.
func (b *builder) addSpan(s Span) int {
	s.Run = b.run
	b.trace.Spans = append(b.trace.Spans, s)
	return len(b.trace.Spans) - 1
}

// idOf returns the id of a span: a hash of its run and of what it is, which is never zero.
func (b *builder) idOf(what string, numbers ...int64) (id SpanID) {
	h := sha256.New()
	fmt.Fprintf(h, "%s\x00%s", b.run, what)
	for _, n := range numbers {
		_ = binary.Write(h, binary.BigEndian, n)
	}
	copy(id[:], h.Sum(nil))
	if id == (SpanID{}) {
		id[7] = 1
	}
	return id
}

// addRecord applies a record, and adds what has begun and ended with it.
func (b *builder) addRecord(r *decision.Record) error {
	began := state.BeganOf(r.Message)
	if st, open := b.open[state.TokenOf(r.Message)]; open && st.isAttempt() && !began.IsZero() {
		s := &b.trace.Spans[st.span]
		s.From = laterOf(s.From, began)
	}
	var events []decision.Event
	if err := runfile.ApplyRecord(b.state, r, func(told []decision.Event) { events = append(events, told...) }); err != nil {
		return err
	}
	codes := map[workflow.TokenID]string{}
	for i := range events {
		if code := decision.ErrorCode(&events[i]); code != "" && events[i].Token != 0 {
			codes[events[i].Token] = code
		}
		b.addEnd(r, &events[i], began)
	}
	changes := b.state.TakeChanges()
	slices.SortFunc(changes.Groups, func(x, y *state.Group) int { return cmp.Compare(x.ID, y.ID) })
	slices.SortFunc(changes.Tokens, func(x, y *state.Token) int { return cmp.Compare(x.ID, y.ID) })
	for _, g := range changes.Groups {
		b.moveGroup(g, r.At)
	}
	for _, t := range changes.Tokens {
		b.moveToken(t, r.At, codes[t.ID])
	}
	if _, forked := r.Message.(state.RunForked); forked {
		b.sendAgain(r.At)
		b.trace.Ends = b.trace.Ends[:b.ends]
	}
	if s := &b.trace.Spans[b.first]; r.Seq == 1 {
		s.From = r.At
	}
	return nil
}

// addEnd adds the end of an attempt or of the run that an event tells, unless it was cancelled. began is when somebody began to perform the
// attempt; zero if nobody has.
func (b *builder) addEnd(r *decision.Record, e *decision.Event, began time.Time) {
	switch e.Type {
	case workflow.EventTaskCompleted, workflow.EventTaskSnoozed, workflow.EventTaskFailed, workflow.EventTaskRetrying, workflow.EventTaskParked:
		st, open := b.open[e.Token]
		if !open || !st.isAttempt() || st.outcome != "" {
			return // nobody was to perform it any more, as where an operator has given up on it
		}
		st.outcome, st.code = tracing.OutcomeOf(e.Type), decision.ErrorCode(e)
		b.open[e.Token] = st
		_, metadata := state.MetadataOf(r.Message)
		if state.TokenOf(r.Message) != e.Token {
			began, metadata = st.since, nil // its time was up: no result says when somebody began, and most of it was work
		}
		b.trace.Ends = append(b.trace.Ends, st.endedAt(r.At, began, timing.Attempt{
			Of:       timing.Name{Workflow: b.state.Graph.Definition.Name, Node: string(e.Node), Type: strings.TrimPrefix(b.trace.Spans[st.span].Name, taskPrefix)},
			Failed:   st.outcome == tracing.Failed,
			Reported: amount.Of(metadata, b.state.MetaLimits()...),
		}))
	case workflow.EventWorkflowCompleted, workflow.EventWorkflowFailed, workflow.EventWorkflowTimedOut:
		b.trace.Ends = append(b.trace.Ends, timing.Attempt{
			Of: timing.Name{Workflow: b.state.Graph.Definition.Name}, At: r.At, Worked: b.state.EndedAt.Sub(b.state.StartedAt), Begun: true, Failed: e.Type != workflow.EventWorkflowCompleted,
		})
	default: // nothing has ended
	}
}

// endedAt returns an attempt with its times. It has waited until somebody began to perform it.
func (st *status) endedAt(at, began time.Time, a timing.Attempt) timing.Attempt {
	if a.Begun = !began.IsZero(); !a.Begun {
		began = at
	}
	a.At, a.Queued = at, max(began.Sub(st.since), 0)
	a.Worked = max(at.Sub(laterOf(st.since, began)), 0)
	return a
}

// scopeOf returns the span that encloses a scope: that of its group, or of the run.
func (b *builder) scopeOf(sc workflow.Scope) SpanID {
	if i, ok := b.groups[sc.Group]; ok {
		return b.trace.Spans[i].ID
	}
	return b.trace.Spans[b.first].ID
}

// moveGroup takes note of a group: its span ends when its branches have met, and not before they have all ended.
func (b *builder) moveGroup(g *state.Group, at time.Time) {
	i, known := b.groups[g.ID]
	if !known {
		name := "join"
		if g.Name == "" {
			name = "branches"
		}
		i = b.addSpan(Span{ID: b.idOf("group", int64(g.ID)), Parent: b.scopeOf(g.Scope), Name: name, From: at, Attributes: []Attribute{
			{"pawl.run.id", string(b.run)}, {"pawl.node.id", string(g.Node)}, {"pawl.group.name", g.Name}, {"pawl.group.branches", int64(g.Total)},
		}})
		b.groups[g.ID] = i
	}
	if s := &b.trace.Spans[i]; s.To.IsZero() && g.Phase != workflow.Gathering {
		s.To = at
	}
}

// waits are the names of spans, by how a token stands.
var waits = map[workflow.TokenStatus]string{
	workflow.WaitingForTimer: "wait timer", workflow.WaitingForEvent: "wait event", workflow.WaitingForApproval: "wait approval", workflow.WaitingForOperator: "wait operator",
	workflow.WaitingForLock: "wait lock", workflow.WaitingForJoin: "wait join", workflow.WaitingForSiblings: "wait siblings", workflow.WaitingForChild: "wait child",
	workflow.Retrying: "wait retry", workflow.WaitingForBudget: "wait budget",
}

// moveToken takes note of how a token stands now.
func (b *builder) moveToken(t *state.Token, at time.Time, code string) {
	before, open := b.open[t.ID]
	if open && before.status == t.Status && before.attempt == t.Attempt {
		return
	}
	i, known := b.tokens[t.ID]
	if !known {
		i = b.addSpan(Span{ID: b.idOf("token", int64(t.ID)), Parent: b.scopeOf(t.Scope), Name: "node " + string(t.Node), From: at, token: t.ID, Attributes: b.placeOf(t)})
		b.tokens[t.ID] = i
	}
	if open && before.span >= 0 {
		b.endStanding(before, at, code)
	}
	if !t.Live() {
		delete(b.open, t.ID)
		b.endSpan(i, at, code)
		return
	}
	b.open[t.ID] = status{status: t.Status, attempt: t.Attempt, span: b.addStanding(t, at, b.trace.Spans[i].ID), since: at}
}

// placeOf returns the attributes of a token.
func (b *builder) placeOf(t *state.Token) []Attribute {
	a := []Attribute{{"pawl.run.id", string(b.run)}, {"pawl.node.id", string(t.Node)}, {"pawl.token.id", int64(t.ID)}}
	if t.Scope.Group != 0 {
		a = append(a, Attribute{"pawl.branch.index", int64(t.Scope.Branch)})
	}
	return a
}

// taskPrefix begins the name of the span of an attempt, before its type.
const taskPrefix = "task "

// addStanding adds the span of how a token stands; -1 if that has none.
func (b *builder) addStanding(t *state.Token, at time.Time, parent SpanID) int {
	s := Span{Parent: parent, From: at, token: t.ID, Attributes: b.placeOf(t)}
	n := b.state.Graph.Node(t.Node)
	switch {
	case t.Status == workflow.Dispatched && n != nil:
		kind := t.TaskAt(n)
		s.ID, s.Name, s.isTask = b.idOf("attempt", int64(t.ID), int64(t.Attempt)), taskPrefix+kind, true
		s.Attributes = append(s.Attributes, Attribute{"pawl.attempt", int64(t.Attempt)}, Attribute{"pawl.task.type", kind})
	case waits[t.Status] != "":
		s.ID, s.Name = b.idOf(waits[t.Status], int64(t.ID), int64(t.Attempt), at.UnixMilli()), waits[t.Status]
		if t.Status == workflow.WaitingForChild {
			s.Attributes = append(s.Attributes, Attribute{childKey, string(state.ChildID(b.state.Run, t.ID, t.Attempt))})
		}
	default:
		return -1
	}
	return b.addSpan(s)
}

// endStanding ends the span of how a token has stood. That of an attempt tells the end of that, whatever has become of the token then.
func (b *builder) endStanding(st status, at time.Time, code string) {
	if s := &b.trace.Spans[st.span]; s.isTask {
		code = st.code
		s.Attributes = append(s.Attributes, Attribute{"pawl.task.outcome", string(cmp.Or(st.outcome, tracing.Cancelled))})
	}
	b.endSpan(st.span, at, code)
}

// endSpan ends a span, unless it has ended.
func (b *builder) endSpan(i int, at time.Time, code string) {
	if s := &b.trace.Spans[i]; s.To.IsZero() {
		s.To, s.Error = laterOf(s.From, at), code
	}
}

// sendAgain lets what was out in the run that is forked begin anew, in the fork.
func (b *builder) sendAgain(at time.Time) {
	for _, st := range b.open {
		if st.span >= 0 && b.trace.Spans[st.span].isTask {
			b.trace.Spans[st.span].From = at
		}
	}
}

// endSpans ends what goes on, with the last record, and lets each span be as long as those in it.
func (b *builder) endSpans(last time.Time) {
	run := &b.trace.Spans[b.first]
	if s := b.state; s.Status.Final() {
		run.To = laterOf(run.From, last)
		if s.Failure != nil {
			run.Error = s.Failure.Code
		}
	}
	run.Attributes = append(run.Attributes, Attribute{"pawl.run.status", b.state.Status.String()})
	places := map[SpanID]int{}
	for i := b.first; i < len(b.trace.Spans); i++ {
		s := &b.trace.Spans[i]
		places[s.ID] = i
		if s.To.IsZero() {
			s.To = laterOf(s.From, last)
			if !b.state.Status.Final() {
				s.Attributes = append(s.Attributes, Attribute{"pawl.unfinished", true})
			}
		}
	}
	for i := len(b.trace.Spans) - 1; i > b.first; i-- { // children come behind their parents
		s := &b.trace.Spans[i]
		if p, ok := places[s.Parent]; ok && b.trace.Spans[p].To.Before(s.To) {
			b.trace.Spans[p].To = s.To
		}
	}
}

func laterOf(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// kindOf says what a span is, for filters: the first word of its name.
func (s *Span) kindOf() string {
	kind, _, _ := strings.Cut(s.Name, " ")
	return kind
}
