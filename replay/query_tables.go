package replay

import (
	"database/sql/driver"
	"time"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/runfile"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/workflow"
)

// The statements that fill the tables of a Query.
const (
	insertRun     = `INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	insertRecord  = `INSERT INTO journal VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	insertEvent   = `INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`
	insertToken   = `INSERT INTO tokens VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	insertAttempt = `INSERT INTO attempts VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	insertBranch  = `INSERT INTO branches VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
)

// A tableWriter adds the rows of one run.
// rec names the run in errors and in the first column of every row. open has the attempts that have
// begun and not ended, by token: a token has one attempt at a time. last is the sequence of the record
// that was added last.
type tableWriter struct {
	*Query
	rec   *Recording
	state *state.State // before the record that is added
	open  map[workflow.TokenID]*attempt
	last  int64 // record
}

// An attempt at a task.
// sent counts its dispatches: an engine that is opened again dispatches an attempt again, under the
// same number.
type attempt struct {
	number int64
	node   workflow.NodeID
	task   string
	sent   int64 // how often it was dispatched

	dispatched time.Time // first; in a fork, when that dispatched it
	began      time.Time // when somebody began to perform it; zero if nobody knows
}

// addTables adds the rows of a run to the tables that the question reads.
//
// The records are applied and not planned again, so runs that were exported without values can be
// asked too. The caller has begun a transaction and takes everything back after an error.
func addTables(q *Query, rec *Recording) (err error) {
	defer rec.explainPanic(&err)
	w := &tableWriter{Query: q, rec: rec, open: map[workflow.TokenID]*attempt{}}
	p := newPlayer(rec)
	for r, err := range rec.eachRedacted() {
		if err != nil {
			return err
		}
		p.begin(&r)
		w.state = p.state
		if err := w.addRecord(&r); err != nil {
			return err
		}
	}
	return w.addEnd()
}

// addRecord applies a record, and adds its rows.
//
// The row of the journal is made before the record is applied, because it names the node at which the
// token of the message stands then. Events come out of applying: the journal does not have them, they
// are derived from messages and decisions.
func (w *tableWriter) addRecord(r *decision.Record) error {
	w.last = r.Seq
	if w.in["journal"] {
		lines := make([]any, len(r.Decisions))
		for i, d := range r.Decisions {
			lines[i] = d.String()
		}
		token, node, act := state.TokenOf(r.Message), any(nil), state.ActOf(r.Message)
		if t := w.state.Token(token); t != nil {
			node = string(t.Node)
		}
		if err := w.insert(insertRecord, r.Seq, timeValue(r.At), state.MessageName(r.Message), messageText(w.state, r.Message), positive(int64(token)), node,
			filled(act.By), filled(act.Reason), string(value.Encode(lines)), int64(r.Planner)); err != nil {
			return err
		}
	}
	if a := w.open[state.TokenOf(r.Message)]; a != nil {
		a.began = state.BeganOf(r.Message)
	}
	if _, forks := r.Message.(state.RunForked); forks { // what was out in the other run the fork dispatches itself
		for _, a := range w.open {
			a.dispatched = r.At
		}
	}
	var events []decision.Event
	if err := runfile.ApplyRecord(w.state, r, func(told []decision.Event) { events = append(events, told...) }); err != nil {
		return w.rec.withSource(err)
	}
	for i := range events {
		if err := w.addEvent(&events[i]); err != nil {
			return err
		}
	}
	return nil
}

// addEvent adds the row of an event, and follows the attempt that it is about. Attempts are a table
// that no file has: they are read off the events.
func (w *tableWriter) addEvent(e *decision.Event) error {
	if w.in["attempts"] {
		if err := w.followAttempt(e); err != nil {
			return err
		}
	}
	if !w.in["events"] {
		return nil
	}
	return w.insert(insertEvent, e.Seq, e.Record, timeValue(e.At), string(e.Type), positive(int64(e.Token)), filled(string(e.Node)), positive(int64(e.Group)), object(e.Data))
}

// attemptOutcomes says what an attempt comes to with an event of its token.
// An event that is not among these, of a token with an open attempt, leaves the attempt open.
var attemptOutcomes = map[workflow.EventType]string{
	workflow.EventTaskCompleted:  "completed",
	workflow.EventTaskFailed:     "failed",
	workflow.EventTaskRetrying:   "retrying",
	workflow.EventTaskSnoozed:    "snoozed",
	workflow.EventTaskParked:     "parked",
	workflow.EventTokenTimedOut:  "timed_out",
	workflow.EventTokenCancelled: "cancelled",
}

// followAttempt notes an attempt that begins, and adds one that has ended.
//
// A dispatch with the number of the open attempt is the same attempt sent again. The failure of an
// attempt is under "error" in the data of its event, or is the data, depending on the type of the
// event.
func (w *tableWriter) followAttempt(e *decision.Event) error {
	a := w.open[e.Token]
	if e.Type == workflow.EventTaskDispatched {
		number, _ := e.Data["attempt"].(int64)
		if a != nil && a.number == number {
			a.sent++
			return nil
		}
		task, _ := e.Data["task"].(string)
		w.open[e.Token] = &attempt{number: number, node: e.Node, task: task, sent: 1, dispatched: e.At}
		return nil
	}
	outcome := attemptOutcomes[e.Type]
	if a == nil || outcome == "" {
		return nil
	}
	delete(w.open, e.Token)
	failure, ok := e.Data["error"].(map[string]any)
	if !ok && e.Type != workflow.EventTaskCompleted {
		failure = e.Data
	}
	code, _ := failure["code"].(string)
	message, _ := failure["message"].(string)
	return w.addAttempt(e.Token, a, e.At, outcome, code, message)
}

// addAttempt adds the row of an attempt. ended is zero while it runs, and also if its group or its run
// ended around it, which has no event of its own; then there is no elapsed time either.
func (w *tableWriter) addAttempt(id workflow.TokenID, a *attempt, ended time.Time, outcome, code, message string) error {
	return w.insert(insertAttempt, int64(id), a.number, string(a.node), a.task, timeValue(a.dispatched), timeValue(a.began), a.sent, timeValue(ended),
		span(a.dispatched, a.began), span(a.began, ended), span(a.dispatched, ended), outcome, filled(code), filled(message))
}

// addEnd adds the rows that tell how the run stands after its last record.
//
// Rows of runs, tokens and branches tell one state, the last; how they came there is in journal and
// events. Attempts that are still open are added here, as running, or as cancelled if their token does
// not live any more.
func (w *tableWriter) addEnd() error {
	s := w.state
	for id := workflow.TokenID(1); id < s.NextToken; id++ {
		if a := w.open[id]; a != nil {
			outcome := "running"
			if !s.Token(id).Live() { // with its group, or with the run
				outcome = "cancelled"
			}
			if err := w.addAttempt(id, a, time.Time{}, outcome, "", ""); err != nil {
				return err
			}
		}
		if w.in["tokens"] {
			if err := w.addToken(s.Token(id)); err != nil {
				return err
			}
		}
	}
	for id := workflow.GroupID(1); id < s.NextGroup && w.in["branches"]; id++ {
		if err := w.addBranches(s.Group(id)); err != nil {
			return err
		}
	}
	if !w.in["runs"] {
		return nil
	}
	code, message := failureColumns(s.Failure)
	parent := driver.Value(nil)
	if s.Parent != nil {
		parent = string(s.Parent.Run)
	}
	labels := make(map[string]any, len(s.Labels))
	for k, v := range s.Labels {
		labels[k] = v
	}
	d := w.rec.Definition()
	return w.insert(insertRun, d.Name, int64(max(d.Version, 1)), w.rec.graph.Hash, int64(s.Revision()), s.Status.String(), w.last,
		timeValue(s.StartedAt), timeValue(s.EndedAt), span(s.StartedAt, s.EndedAt), code, message, parent, filled(s.Tenant), filled(string(s.ForkedFrom.Run)),
		string(value.Encode(labels)), string(value.Encode(notNil(s.Input))), string(value.Encode(notNil(s.Section("state")))), object(s.Output), w.rec.Source)
}

// addToken adds the row of a token; its scope is there as a path for people, and as group and branch
// to join tables by.
func (w *tableWriter) addToken(t *state.Token) error {
	code, message := failureColumns(t.Failure)
	input := driver.Value(nil)
	if t.Input != nil {
		input = string(value.Encode(t.Input))
	}
	return w.insert(insertToken, int64(t.ID), string(t.Node), t.Status.String(), positive(int64(t.Parent)), w.state.PathOf(t.Scope),
		int64(t.Scope.Group), int64(t.Scope.Branch), int64(t.Attempt), timeValue(t.Due), code, message, input)
}

// addBranches adds a row for each branch of a group, by index from 0. A branch that has not begun has
// no element yet if the list of elements is shorter.
func (w *tableWriter) addBranches(g *state.Group) error {
	items := w.state.BranchItems(g.ID)
	for i := range g.Total {
		b := w.state.Branch(workflow.Scope{Group: g.ID, Branch: i})
		code, _ := failureColumns(b.Failure)
		item := driver.Value(nil)
		if i < len(items) {
			item = string(value.Encode(items[i]))
		}
		if err := w.insert(insertBranch, int64(g.ID), int64(i), g.Name, string(g.Node), g.Phase.String(), b.Status.String(), int64(g.TokenOf(i)), code, item); err != nil {
			return err
		}
	}
	return nil
}

// insert adds a row of the run.
func (w *tableWriter) insert(statement string, columns ...driver.Value) error {
	_, err := w.db.Exec(statement, append([]driver.Value{string(w.rec.Run)}, columns...)...)
	if err != nil {
		return w.rec.withSource(err)
	}
	return nil
}

// timeValue returns a time as the tables have it, nil for none.
func timeValue(at time.Time) driver.Value {
	if at.IsZero() {
		return nil
	}
	return at.UTC().Format("2006-01-02T15:04:05.000Z")
}

// span returns the milliseconds between two times, nil if one of them is missing.
func span(from, to time.Time) driver.Value {
	if from.IsZero() || to.IsZero() {
		return nil
	}
	return to.Sub(from).Milliseconds()
}

// filled returns a text, nil for none.
func filled(text string) driver.Value {
	if text == "" {
		return nil
	}
	return text
}

// positive returns a number, nil for 0.
func positive(n int64) driver.Value {
	if n == 0 {
		return nil
	}
	return n
}

// object returns an object as JSON, nil for none.
func object(m map[string]any) driver.Value {
	if m == nil {
		return nil
	}
	return string(value.Encode(m))
}

// notNil returns an empty object for nil: the columns input and state are never NULL, so that ->>
// needs no case for it.
func notNil(m map[string]any) map[string]any {
	if m == nil {
		return map[string]any{}
	}
	return m
}

// failureColumns returns the code and the message of a failure, nil without.
func failureColumns(f *workflow.Failure) (code, message driver.Value) {
	if f == nil {
		return nil, nil
	}
	return f.Code, filled(f.Message)
}
