// Package history has the types that describe a run: its events, the notes of its planner, and why it stands where it stands.
package history

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/workflow"
)

// An Event reports what a decision changed. Events of a run are
// numbered from 1 without gaps.
//
// An event is derived from a decision and the state before that, so that a replay of the
// journal gives the same events again; no decision depends on events.
type Event struct {
	Seq    int64              `json:"seq"`            // set when the event is stored
	Record int64              `json:"record"`         // sequence of the journal record that it belongs to
	At     time.Time          `json:"at"`             // instant of that record
	Type   workflow.EventType `json:"type"`           // what happened
	Token  workflow.TokenID   `json:"token,omitzero"` // the token, if the event concerns one
	Node   workflow.NodeID    `json:"node,omitzero"`  // the node, if the event concerns one
	Group  workflow.GroupID   `json:"group,omitzero"` // the group, if the event concerns one
	Data   map[string]any     `json:"data,omitzero"`  // particulars, by type; nil if none
}

// A Note gives a reason for a plan: a condition with the values it has read, a
// limit, the counts of a join.
type Note struct {
	Token      workflow.TokenID      `json:"token,omitzero"`
	Transition workflow.TransitionID `json:"transition,omitzero"`
	Tier       int                   `json:"tier,omitzero"`       // priority of the transition
	Expression string                `json:"expression,omitzero"` // the evaluated expression; "" if the note is a text
	Reads      []Reading             `json:"reads,omitzero"`      // the values read, by path
	Result     bool                  `json:"result,omitzero"`     // result of the expression
	Cost       int                   `json:"cost,omitzero"`       // cost of its evaluation, in units of CEL
	Text       string                `json:"text,omitzero"`       // text of a note without an expression
}

// A Reading is a value that an expression may have read.
type Reading struct {
	Path  string `json:"path"`  // such as nodes.quote.output.price
	Value string `json:"value"` // as JSON, shortened to some 200 bytes; "" if there was none
}

// String returns the note in one line. A condition that fails, for example, gives "t3
// check->pay: state.sum > 100 is false with state.sum = 7"; a note of no particular
// transition begins with the token alone.
func (n Note) String() string {
	text := n.Text
	if n.Expression != "" {
		text = fmt.Sprintf("%s is %t", n.Expression, n.Result)
	}
	before := " with "
	for _, r := range n.Reads {
		text, before = text+before+r.Path+" = "+cmp.Or(r.Value, "absent"), ", "
	}
	text = value.EscapeControls(text)
	if n.Transition == "" {
		return fmt.Sprintf("%v: %s", n.Token, text)
	}
	return fmt.Sprintf("%v %s [tier %d]: %s", n.Token, n.Transition, n.Tier, text)
}

// An Explanation says why a run stands where it stands.
// Either Failed or Waits has entries, or neither: a run that has completed or was cancelled has none.
// Both are bounded by replay.MaxExplained.
type Explanation struct {
	Run      workflow.RunID     `json:"run"`
	Workflow string             `json:"workflow"` // name of the definition
	Status   workflow.RunStatus `json:"status"`
	Seq      int64              `json:"record"`           // sequence of the last record
	At       time.Time          `json:"at"`               // of the last record
	Failure  *workflow.Failure  `json:"failure,omitzero"` // set if the run has failed, timed out, was cancelled or is suspended
	Failed   []FailedToken      `json:"failed,omitzero"`  // for a failed run: the uncaught failures, the first one first
	Waits    []Wait             `json:"waits,omitzero"`   // for a run that has not ended: what its tokens wait for
}

// A FailedToken is a token that failed or timed out.
// Child is set for a subworkflow node, whether or not the child run is recorded; ExplainBelow looks
// for the child run.
type FailedToken struct {
	Token   workflow.TokenID  `json:"token"`
	Place   string            `json:"place"` // its node, with the branches that it is in
	Attempt int               `json:"attempt,omitzero"`
	Failure *workflow.Failure `json:"failure,omitzero"`
	Child   workflow.RunID    `json:"child,omitzero"` // the child run that failed, if the token waited for one
	Below   []FailedBelow     `json:"below,omitzero"` // the failed token in the child run, in its child run, and so on; see ExplainBelow
	Came    *Arrival          `json:"came,omitzero"`
	Try     []string          `json:"try,omitzero"` // commands to look further or to try again
}

// A FailedBelow is the token that made a child run fail.
type FailedBelow struct {
	Run     workflow.RunID    `json:"run"`
	Token   workflow.TokenID  `json:"token"`
	Place   string            `json:"place"` // its node, with the branches that it is in
	Attempt int               `json:"attempt,omitzero"`
	Failure *workflow.Failure `json:"failure,omitzero"`
}

// A Wait is what one token waits for, or several at one node that wait for the same.
type Wait struct {
	Token    workflow.TokenID     `json:"token"` // the first of them
	Count    int                  `json:"count"` // how many tokens wait in the same way
	Place    string               `json:"place"` // its node, with the branches that it is in
	Status   workflow.TokenStatus `json:"status"`
	For      string               `json:"for"`               // what it waits for, and what it has and lacks, in one line
	Until    time.Time            `json:"until,omitzero"`    // the earliest instant at which time alone changes one of them; zero if never
	Hopeless bool                 `json:"hopeless,omitzero"` // nothing live in the run can still end the wait
	Failure  *workflow.Failure    `json:"failure,omitzero"`  // failure of its last attempt
	Rejected *workflow.Failure    `json:"rejected,omitzero"` // for an event: the last error of a condition, if signals are kept that did not match
	Child    workflow.RunID       `json:"child,omitzero"`    // the child run that it waits for
	Running  int                  `json:"running,omitzero"`  // for dispatched tasks: how many are performed now, if the engine of the run was asked
	Since    time.Time            `json:"since,omitzero"`    // when the first of those began
	Worker   string               `json:"worker,omitzero"`   // the worker that performs it; "" if unknown
	Waiting  int                  `json:"waiting,omitzero"`  // for dispatched tasks: how many are not yet being performed
	Queued   *workflow.Queued     `json:"queued,omitzero"`   // how the first of those waits
	Came     *Arrival             `json:"came,omitzero"`     // nil if the run began with it
	Try      []string             `json:"try,omitzero"`      // commands that would end the wait; none if time or the run ends it
}

// An Arrival is how a token came to its node.
// Transitions is empty, and Tier is 0, if a join made the token. From is a place if the token that it
// grew from is in the state, and a node otherwise.
type Arrival struct {
	Seq         int64                   `json:"record"`
	At          time.Time               `json:"at"`
	Message     string                  `json:"message"` // the message that the run got
	From        string                  `json:"from"`    // the place of the token that it grew from
	Transitions []workflow.TransitionID `json:"transitions,omitzero"`
	Tier        int                     `json:"tier"`           // tier of the transitions
	Notes       []Note                  `json:"notes,omitzero"` // the conditions that were evaluated, with the values read
}

// String returns the explanation in some lines.
func (x Explanation) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s of %s is %v after record %d, %s\n", x.Run, x.Workflow, x.Status, x.Seq, x.At.Format(timeForm))
	if x.Failure != nil {
		fmt.Fprintf(&b, "failure: %v\n", x.Failure)
	}
	for i := range x.Failed {
		f := &x.Failed[i]
		fmt.Fprintf(&b, "%s (%v) failed: %v\n", f.Place, f.Token, f.Failure)
		if f.Child != "" {
			fmt.Fprintf(&b, "  its child run is %s\n", string(f.Child))
		}
		for _, below := range f.Below {
			fmt.Fprintf(&b, "  in %s, %s (%v) failed: %v\n", string(below.Run), below.Place, below.Token, below.Failure)
		}
		f.Came.writeArrival(&b)
		writeCommands(&b, f.Try)
	}
	for i := range x.Waits {
		x.Waits[i].writeWait(&b)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// maxShown bounds a message in a text, in bytes.
const maxShown = 400

const timeForm = "2006-01-02 15:04:05.000"

// writeWait writes one Wait, its details indented below it, as pawl why prints it.
func (w *Wait) writeWait(b *strings.Builder) {
	fmt.Fprintf(b, "%s (%v", w.Place, w.Token)
	if w.Count > 1 {
		fmt.Fprintf(b, " and %d more", w.Count-1)
	}
	if strings.HasPrefix(w.For, "to ") {
		fmt.Fprintf(b, ") waits %s\n", w.For)
	} else {
		fmt.Fprintf(b, ") waits for %s\n", w.For)
	}
	if w.Hopeless {
		b.WriteString("  nothing in the run can bring that any more\n")
	}
	if !w.Until.IsZero() {
		fmt.Fprintf(b, "  until %s\n", w.Until.Format(timeForm))
	}
	if w.Failure != nil {
		fmt.Fprintf(b, "  its last attempt: %v\n", w.Failure)
	}
	if w.Rejected != nil {
		fmt.Fprintf(b, "  the last error of its condition: %v\n", w.Rejected)
	}
	w.Came.writeArrival(b)
	writeCommands(b, w.Try)
}

func writeCommands(b *strings.Builder, commands []string) {
	for _, command := range commands {
		fmt.Fprintf(b, "  try: %s\n", command)
	}
}

// writeArrival writes nothing for nil, which stands for a token that the run began with.
func (a *Arrival) writeArrival(b *strings.Builder) {
	if a == nil {
		return
	}
	names := make([]string, len(a.Transitions))
	for i, id := range a.Transitions {
		names[i] = string(id)
	}
	by := "a join"
	if len(names) > 0 {
		by = fmt.Sprintf("%s [tier %d]", strings.Join(names, " "), a.Tier)
	}
	fmt.Fprintf(b, "  it came from %s by %s in record %d: %s\n", a.From, by, a.Seq, value.Shorten(a.Message, maxShown))
	for _, n := range a.Notes {
		fmt.Fprintf(b, "    %v\n", n)
	}
}
