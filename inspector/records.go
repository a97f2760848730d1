package inspector

import (
	"strconv"
	"strings"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/history"
	"github.com/pawl-run/pawl/internal/acts"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// An eventRow is an event in a list.
//
// Href is "" of an event that is not about a token. Journal leads to the record that the event belongs to. Data are in one line.
type eventRow struct {
	Seq     int64
	Record  int64
	At      instant
	Clock   string
	Type    workflow.EventType
	Class   string
	Node    workflow.NodeID
	Token   workflow.TokenID
	Href    string // of the token
	Data    string
	Journal string
}

// rowOfEvent describes an event, with its data as far as the reader may see them.
func (v *viewer) rowOfEvent(e *history.Event) eventRow {
	row := eventRow{Seq: e.Seq, Record: e.Record, At: v.instantOf(e.At), Clock: clockText(e.At), Type: e.Type, Class: eventClass(e.Type), Node: e.Node, Token: e.Token}
	row.Journal = v.journalLink(e.Record)
	if e.Token != 0 {
		row.Href = v.tokenLink(v.id, e.Token)
	}
	row.Data = shortText(v.eventData(v.id, e), 300)
	return row
}

// clockText returns the time of day, in UTC: within a run that is mostly enough, and the title of an element has the rest.
func clockText(t time.Time) string { return t.UTC().Format("15:04:05.000") }

// eventClass returns how an event looks.
//
// It goes by the end of the type, as types of tokens, tasks, branches and runs end alike. A type that nobody has foreseen looks as if
// something ran.
func eventClass(t workflow.EventType) string {
	switch name := string(t); {
	case strings.HasSuffix(name, "failed"), strings.HasSuffix(name, "timed_out"), strings.HasSuffix(name, "rejected"), strings.HasSuffix(name, "lost"):
		return "failed"
	case strings.HasSuffix(name, "parked"), strings.HasSuffix(name, "suspended"), strings.HasSuffix(name, "shortfall"):
		return "parked"
	case strings.HasSuffix(name, "retrying"), strings.HasSuffix(name, "snoozed"):
		return "retrying"
	case strings.HasSuffix(name, "completed"), strings.HasSuffix(name, "committed"):
		return "done"
	case strings.HasSuffix(name, "cancelled"), strings.HasSuffix(name, "skipped"), strings.HasSuffix(name, "abandoned"):
		return "cancelled"
	case strings.HasSuffix(name, "waiting"), strings.HasSuffix(name, "requested"), strings.HasSuffix(name, "paused"):
		return "waiting"
	}
	return "running"
}

// The bounds of a page of events and of records.
const (
	eventsPage = 200
	recordPage = 50
	shownSteps = 40 // decisions of one record
)

// An eventsData is a page of the events of a run. Tail says that these are the last ones; else Next leads on, and is "" at the end.
type eventsData struct {
	Rows   []eventRow
	Types  []choiceRow
	Nodes  []choiceRow
	First  string
	Next   string
	Latest string
	Tail   bool
}

// viewEvents lists events of the run, the last ones unless the reader asks for others.
//
// The parameter type is the beginning of a type, node a node, after the number of the event behind which the page begins. Without after it
// reads all events and keeps the last, as there is no index from the end.
func (v *viewer) viewEvents() (any, error) {
	q := v.r.URL.Query()
	kind, node := q.Get("type"), q.Get("node")
	from, err := strconv.ParseInt(q.Get("after"), 10, 64)
	data := eventsData{
		First: v.link("view", "events", "type", kind, "node", node, "after", "0"), Latest: v.link("view", "events", "type", kind, "node", node), Tail: err != nil,
	}
	for _, prefix := range []string{"workflow", "token", "task", "fan_", "subworkflow", "signal", "approval"} {
		data.Types = append(data.Types, choiceRow{Value: prefix, Text: strings.TrimSuffix(prefix, "_"), Chosen: prefix == kind})
	}
	for _, n := range v.ov.Nodes {
		data.Nodes = append(data.Nodes, choiceRow{Value: string(n.Node), Text: string(n.Node), Chosen: string(n.Node) == node})
	}
	var rows []history.Event
	for e, err := range v.s.engine.Events(v.ctx, v.id, pawl.EventsOptions{After: max(from, 0)}) {
		if err != nil {
			return nil, err
		}
		if !strings.HasPrefix(string(e.Type), kind) || node != "" && string(e.Node) != node {
			continue
		}
		rows = append(rows, e)
		// One more than fits shows that there is a next page.
		if !data.Tail && len(rows) > eventsPage {
			rows = rows[:eventsPage]
			data.Next = v.link("view", "events", "type", kind, "node", node, "after", strconv.FormatInt(rows[eventsPage-1].Seq, 10))
			break
		}
		// Moved down only now and then, so that each event is moved about once.
		if len(rows) > 2*eventsPage { // the last ones are enough
			rows = append(rows[:0], rows[len(rows)-eventsPage:]...)
		}
	}
	rows = rows[max(len(rows)-eventsPage, 0):]
	for i := range rows {
		data.Rows = append(data.Rows, v.rowOfEvent(&rows[i]))
	}
	return data, nil
}

// A recordRow is a record of the journal.
//
// More counts the decisions that are not listed: a fan-out of 10,000 branches is one record.
type recordRow struct {
	Seq       int64
	At        instant
	Clock     string
	Message   string
	By        string
	Decisions []string
	More      int
	Class     string
}

// A journalData is a page of the journal: the records From to To of All. Older and Newer are "" at the ends.
type journalData struct {
	Rows          []recordRow
	Newer, Older  string
	From, To, All int64
}

// journalLink leads to a record in the journal, with the page scrolled to it.
func (v *viewer) journalLink(seq int64) string {
	return v.link("view", "journal", "record", strconv.FormatInt(seq, 10)) + "#r" + strconv.FormatInt(seq, 10)
}

// viewJournal lists the records around one, or the last ones.
//
// The record that is asked for is in the middle of the page, so that what led to it and what came of it are in view.
func (v *viewer) viewJournal() (any, error) {
	last := v.ov.Seq
	if seq, err := strconv.ParseInt(v.r.URL.Query().Get("record"), 10, 64); err == nil {
		last = min(min(max(seq, 1), v.ov.Seq)+recordPage/2, v.ov.Seq)
	}
	first := max(last-recordPage+1, 1)
	data := journalData{From: first, To: last, All: v.ov.Seq}
	if first > 1 {
		data.Older = v.link("view", "journal", "record", strconv.FormatInt(max(first-recordPage/2-1, 1), 10))
	}
	if last < v.ov.Seq {
		data.Newer = v.link("view", "journal", "record", strconv.FormatInt(min(last+recordPage/2, v.ov.Seq), 10))
	}
	for r, err := range acts.Records(v.s.engine.Journal(v.ctx, v.id, pawl.EventsOptions{})) {
		if err != nil {
			return nil, err
		}
		// The journal is read from the beginning as far as the page.
		if r.Seq > last {
			break
		}
		if r.Seq >= first {
			data.Rows = append(data.Rows, v.rowOfRecord(&r))
		}
	}
	return data, nil
}

// rowOfRecord describes a record, also one that was only decided in a copy of the run.
func (v *viewer) rowOfRecord(r *decision.Record) recordRow {
	row := recordRow{Seq: r.Seq, At: v.instantOf(r.At), Clock: clockText(r.At), Message: v.decisionAt(state.DescribeMessage(r.Message))}
	for i, d := range r.Decisions {
		if i == shownSteps {
			row.More = len(r.Decisions) - i
			break
		}
		row.Decisions = append(row.Decisions, v.decisionAt(d.String()))
	}
	return row
}
