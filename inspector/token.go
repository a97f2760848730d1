package inspector

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/acts"
	"github.com/pawl-run/pawl/internal/diagram"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// A tokenRow is a token in a list.
type tokenRow struct {
	ID      workflow.TokenID
	Href    string
	Node    workflow.NodeID
	Status  any // a workflow.TokenStatus, or the word for a task that is queued
	JoinAt  workflow.NodeID
	Branch  string
	Attempt int
	Due     instant
	Failure string
	Details string
	Now     string  // of a task that is out: who performs it, or for what it is queued
	Since   instant // when that began
}

// rowOfToken describes a token. Branch is "" of one that is in none.
func (v *viewer) rowOfToken(t *pawl.Token) tokenRow {
	row := tokenRow{ID: t.ID, Href: v.tokenLink(v.id, t.ID), Node: t.Node, Status: t.Status, JoinAt: t.JoinAt, Attempt: t.Attempt, Due: v.instantOf(t.Due)}
	if t.Scope.Group != 0 {
		row.Branch = t.Scope.String()
	}
	if t.Failure != nil {
		row.Failure = v.failureAt(t.Failure)
	}
	if t.Details != nil {
		row.Details = v.valueAt(v.id, "details", t.Details, budget{1, 400, 400}).Text
	}
	switch {
	case t.Queued != nil:
		row.Status = "queued"
		row.Now, row.Since = strings.TrimPrefix(t.Queued.Reason(), "queued "), v.instantOf(t.Queued.Since)
	case t.Executing && t.Worker != "":
		row.Now, row.Since = "performed by "+t.Worker, v.instantOf(t.Since)
	case t.Executing:
		row.Now, row.Since = "performed", v.instantOf(t.Since)
	}
	return row
}

// tokensPage is how many tokens a page lists.
const tokensPage = 100

// A tokensData is a page of the tokens of a run, with links that choose among them by standing and by node.
type tokensData struct {
	Rows    []tokenRow
	Node    workflow.NodeID
	Filters []choiceRow
	Nodes   []choiceRow
	First   string
	Next    string
}

// viewTokens lists tokens of the run, of one node and one standing if the reader asks.
//
// The numbers at the filters come from the overview, so only the tokens of one page are read.
func (v *viewer) viewTokens() (any, error) {
	q := v.r.URL.Query()
	node, want := q.Get("node"), q.Get("status")
	data := tokensData{Node: workflow.NodeID(node)}
	counts := tally{}
	for _, n := range v.ov.Nodes {
		data.Nodes = append(data.Nodes, choiceRow{Value: string(n.Node), Text: string(n.Node), Chosen: string(n.Node) == node})
		// The numbers are of the node that is chosen, or of all.
		if node == "" || string(n.Node) == node {
			for s, k := range tallyOf(n.Tokens) {
				counts[s] += k
			}
		}
	}
	data.Filters = append(data.Filters, choiceRow{Value: v.link("view", "tokens", "node", node), Text: "all " + groupDigits(counts.Total()), Chosen: want == ""})
	for _, c := range counts.Counts() {
		word := c.Standing.String()
		data.Filters = append(data.Filters, choiceRow{Value: v.link("view", "tokens", "node", node, "status", word), Text: groupDigits(c.N) + " " + word, Class: word, Chosen: want == word})
	}
	after, _ := strconv.ParseInt(q.Get("after"), 10, 64)
	f := pawl.TokenFilter{Node: workflow.NodeID(node), Status: statusesOf(want), After: workflow.TokenID(max(after, 0))}
	if after > 0 {
		data.First = v.link("view", "tokens", "node", node, "status", want)
	}
	for t, err := range v.s.engine.Tokens(v.ctx, v.id, f) {
		if err != nil {
			return nil, err
		}
		// There is one more than fits: the next page begins behind the last row, by the id of its token.
		if len(data.Rows) == tokensPage {
			last := strconv.FormatInt(int64(data.Rows[tokensPage-1].ID), 10)
			data.Next = v.link("view", "tokens", "node", node, "status", want, "after", last)
			break
		}
		data.Rows = append(data.Rows, v.rowOfToken(&t))
	}
	return data, nil
}

// statusesOf returns the statuses of a standing by its word; nil, which is all, for any other.
//
// It goes through all statuses; Cancelled is the last.
func statusesOf(word string) (out []workflow.TokenStatus) {
	for s := workflow.TokenStatus(0); s <= workflow.Cancelled; s++ {
		if diagram.StandingOf(s).String() == word {
			out = append(out, s)
		}
	}
	return out
}

// An attemptRow is one call of a task.
//
// It is running until addHistory finds its end.
type attemptRow struct {
	Attempt    int
	Dispatched instant
	Began      instant // somebody has begun to perform it, as far as is known
	Took       string  // from then on, or from the dispatch if that is not known
	Class      string
	Word       string
	Text       string
}

// A tokenData is the page of a token. Child is the run that the last attempt of a subworkflow has started. Why is there if the run was
// asked about and this token is one of the reasons.
type tokenData struct {
	Token    tokenRow
	Parent   *tokenRow
	Snoozes  int
	Kind     workflow.Kind
	Input    *shownValue
	Output   *shownValue
	Details  *shownValue
	Failure  string
	Attempts []attemptRow
	Events   []eventRow
	Child    *runLink
	Why      []whyLine
	Acts     []actLink
	Group    string // of its branch
	Next     string // branch of the group that needs somebody
	called   int64  // record that has started the child
}

// findToken returns a token of the run.
//
// Tokens come by id, so the first behind id-1 is the wanted one, or the run does not have it.
func (v *viewer) findToken(id workflow.TokenID) (*pawl.Token, error) {
	for t, err := range v.s.engine.Tokens(v.ctx, v.id, pawl.TokenFilter{After: id - 1}) {
		if err != nil {
			return nil, err
		}
		if t.ID != id {
			break
		}
		return &t, nil
	}
	return nil, errNoPage
}

// viewToken shows a token: its attempts, its input and output, and why it is where it is.
func (v *viewer) viewToken() (any, error) {
	id, err := strconv.ParseInt(v.r.URL.Query().Get("token"), 10, 64)
	if err != nil || id < 1 {
		return nil, errNoPage
	}
	t, err := v.findToken(workflow.TokenID(id))
	if err != nil {
		return nil, err
	}
	data := tokenData{Token: v.rowOfToken(t), Snoozes: t.Snoozes, Failure: v.failureAt(t.Failure)}
	data.Acts = append(v.raiseLinks(t.Status, t.Failure), v.tokenActs(v.id, t)...)
	// The token whose end has made this one. It may be missing from what is kept of the run: then nothing is said of it.
	if t.Parent > 0 {
		if parent, err := v.findToken(t.Parent); err == nil {
			row := v.rowOfToken(parent)
			data.Parent = &row
		}
	}
	if t.Scope.Group != 0 {
		data.Group = v.groupLink(t.Scope.Group)
		data.Next = v.link("view", "nextfailed", "group", strconv.FormatInt(int64(t.Scope.Group), 10), "after", strconv.Itoa(t.Scope.Branch))
	}
	if t.Details != nil {
		data.Details = v.valueAt(v.id, "details", t.Details, largeValue)
	}
	if g, err := v.graphOf(); err == nil && g.Node(t.Node) != nil {
		data.Kind = g.Node(t.Node).Kind
	}
	if t.Input != nil {
		data.Input = v.valueAt(v.id, "input", t.Input, largeValue)
	}
	if err := v.addHistory(&data, t); err != nil {
		return nil, err
	}
	if data.Kind == workflow.KindSubworkflow && t.Attempt > 0 {
		if data.Child, err = v.findChild(t, data.called); err != nil {
			return nil, err
		}
	}
	if last := len(data.Attempts) - 1; t.Queued != nil && last >= 0 {
		data.Attempts[last].Word = "queued" // it has been dispatched, and nobody performs it
	} else if t.Executing && last >= 0 {
		data.Attempts[last].Began = v.instantOf(t.Since)
	}
	// The answer for the run says why a live token waits, if that is at hand or soon worked out. The page is complete without it.
	if t.Live() && !v.redacted {
		x, ok, err := v.explainNow(false)
		if err == nil && ok {
			for i := range x.Waits {
				if x.Waits[i].Token == t.ID {
					one := x
					one.Failed, one.Waits = nil, x.Waits[i:i+1]
					data.Why = v.whyLines(&one, true)
				}
			}
		}
	}
	return data, nil
}

// manyForks bounds how far back the original of a fork is looked for.
const manyForks = 16

// findChild returns the run that the last attempt of a token has started, after the record called; nil if there is none, as it was purged.
//
// The id of a child follows from its parent. A fork has no child for what it has from its original, which is a fork itself or not: there the
// child is that of the original.
func (v *viewer) findChild(t *pawl.Token, called int64) (*runLink, error) {
	of := v.id
	for range manyForks {
		child := state.ChildID(of, t.ID, t.Attempt)
		_, err := v.s.engine.Summary(v.ctx, child)
		if err == nil {
			return v.childLink(child), nil
		}
		if !errors.Is(err, pawl.ErrRunNotFound) {
			return nil, err
		}
		sum, err := v.s.engine.Summary(v.ctx, of)
		if errors.Is(err, pawl.ErrRunNotFound) || err == nil && (sum.ForkedFrom.Run == "" || called > sum.ForkedFrom.Record) {
			return nil, nil //nolint:nilnil // there is nothing to lead to
		}
		if err != nil {
			return nil, err
		}
		of = sum.ForkedFrom.Run
	}
	return nil, nil //nolint:nilnil // likewise
}

// addHistory adds what the journal says of a token.
//
// It reads all of it, since records are not indexed by tokens. Attempts begin with a decision and end with a message.
func (v *viewer) addHistory(data *tokenData, t *pawl.Token) error {
	for r, err := range acts.Records(v.s.engine.Journal(v.ctx, v.id, pawl.EventsOptions{})) {
		if err != nil {
			return err
		}
		for _, d := range r.Decisions {
			v.addDecision(data, t.ID, &r, d)
		}
		// A fork sends again what was out in the other run.
		if last := len(data.Attempts) - 1; last >= 0 && data.Attempts[last].Word == "running" && isFork(&r) {
			data.Attempts[last].Dispatched = v.instantOf(r.At)
		}
		// The message comes after the decisions of its record.
		if state.TokenOf(r.Message) == t.ID {
			v.addMessage(data, &r)
		}
	}
	// The end of the run, or of other tokens, ends an attempt as well: no record names it then.
	if last := len(data.Attempts) - 1; last >= 0 && data.Attempts[last].Word == "running" && (!t.Live() || t.Status == workflow.Retrying || t.Status == workflow.WaitingForOperator) {
		data.Attempts[last].Class, data.Attempts[last].Word = statusClass(t.Status), statusWord(t.Status)
	}
	return v.addEvents(data, t.ID)
}

// isFork reports whether a record makes a run of another one.
func isFork(r *decision.Record) bool {
	_, is := r.Message.(state.RunForked)
	return is
}

// addDecision notes the begin of an attempt, and what it got. The input of the last one is on the page.
func (v *viewer) addDecision(data *tokenData, id workflow.TokenID, r *decision.Record, d decision.Decision) {
	switch d := d.(type) {
	case decision.DispatchTask:
		if d.Token == id {
			// A fork sends again what was out in the other run.
			if last := len(data.Attempts) - 1; last >= 0 && data.Attempts[last].Word == "running" {
				data.Attempts = data.Attempts[:last]
			}
			data.Attempts = append(data.Attempts, attemptRow{Attempt: d.Attempt, Dispatched: v.instantOf(r.At), Class: "running", Word: "running"})
			data.Input = v.valueAt(v.id, "input", d.Input, largeValue)
		}
	case decision.StartChild:
		if d.Token == id {
			data.Input, data.called = v.valueAt(v.id, "input", d.Input, largeValue), r.Seq
		}
	case decision.RetryTask:
		if d.Token == id && d.Failure != nil && d.Base == 0 { // a base is for an operator's retry, or that of a fork
			v.failAttempt(data, r, d.Failure)
		}
	case decision.ParkTask:
		if d.Token == id {
			v.failAttempt(data, r, &d.Failure)
		}
	case decision.FailToken:
		if d.Token == id {
			v.failAttempt(data, r, &d.Failure)
		}
	case decision.ExpireToken:
		if d.Token == id {
			v.failAttempt(data, r, &d.Failure)
		}
	default: // is not about a call
	}
}

// failAttempt notes that the last attempt has failed, if it has not ended yet: no message tells of one whose time is up.
func (v *viewer) failAttempt(data *tokenData, r *decision.Record, f *workflow.Failure) {
	i := len(data.Attempts) - 1
	if i < 0 || data.Attempts[i].Word != "running" {
		return
	}
	a := &data.Attempts[i]
	a.Class, a.Word, a.Text = "failed", "failed", v.failureAt(f)
	if f.Code == workflow.CodeTimeout || f.Code == workflow.CodeHeartbeatTimeout {
		a.Word = "timed out"
	}
	a.Took = tookText(a.Dispatched, r.At)
}

// tookText says how long it took from an instant of the page on.
func tookText(since instant, until time.Time) string {
	from, err := parseMachine(since.Machine)
	if err != nil {
		return ""
	}
	return spanText(until.Sub(from))
}

// addMessage notes the end of an attempt.
//
// The message ends the last attempt that has begun, as a token has one at a time. Messages about a token that end none are passed over.
func (v *viewer) addMessage(data *tokenData, r *decision.Record) {
	class, word, text := "", "", ""
	switch m := r.Message.(type) {
	case state.TaskCompleted:
		class, word = "done", "done"
		data.Output = v.valueAt(v.id, "output", m.Output, largeValue)
	case state.TaskFailed:
		class, word, text = "failed", "failed", v.failureAt(&m.Failure)
	case state.TaskSnoozed:
		class, word = "waiting", "snoozed"
	case state.ChildEnded:
		if m.Failure != nil {
			class, word, text = "failed", "failed", v.failureAt(m.Failure)
		} else {
			data.Output = v.valueAt(v.id, "output", m.Output, largeValue)
		}
	case state.Skip:
		class, word = "cancelled", "skipped"
		data.Output = v.valueAt(v.id, "output", m.Output, largeValue)
	default:
		return
	}
	if i := len(data.Attempts) - 1; i >= 0 && word != "" {
		a := &data.Attempts[i]
		a.Class, a.Word, a.Text = class, word, text
		since := a.Dispatched
		if began := state.BeganOf(r.Message); !began.IsZero() {
			a.Began = v.instantOf(began)
			since = a.Began
		}
		a.Took = tookText(since, r.At)
	}
}

// tokenEvents bounds the events of one token on its page.
const tokenEvents = 100

// addEvents adds the last events of a token.
func (v *viewer) addEvents(data *tokenData, id workflow.TokenID) error {
	for e, err := range v.s.engine.Events(v.ctx, v.id, pawl.EventsOptions{}) {
		if err != nil {
			return err
		}
		if e.Token == id {
			data.Events = append(data.Events, v.rowOfEvent(&e))
		}
	}
	// The copy lets go of the others.
	if len(data.Events) > tokenEvents {
		data.Events = slices.Clone(data.Events[len(data.Events)-tokenEvents:])
	}
	return nil
}
