package inspector

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/internal/acts"
	"github.com/pawl-run/pawl/workflow"
)

// runsPage is how many runs a page lists.
const runsPage = 50

// A choiceRow is one of several things to choose from: an option of a form, a filter, a link. Value is what is sent, or where it leads.
type choiceRow struct {
	Value, Text, Class string
	Chosen             bool
}

// A runsBody is the list of runs with the form of its filter, in which everything stands as the reader has chosen it.
type runsBody struct {
	Rows      []runRow
	Workflows []choiceRow
	MoreFlows int // that are not offered
	Statuses  []choiceRow
	Prefix    string
	Tenant    string
	Labels    string
	Where     string // a condition
	Wrong     string // why Where is not a condition; then there are no rows
	Roots     bool
	MayAct    bool      // some of the rows can be chosen
	AllActs   []actLink // what can be done to all that fit
	Filtered  bool
	First     string // the first page; "" on it
	Next      string // the next one; "" on the last
	Stopped   bool   // looking at runs has taken as long as it may: the next page goes on
	Clear     string
	Help      conditionHelp
}

// allStatuses are those of runs.
//
// A run is created and running in the same commit, so nobody looks for created ones.
var allStatuses = []workflow.RunStatus{
	workflow.RunRunning, workflow.RunPaused, workflow.RunSuspended, workflow.RunCompleted, workflow.RunFailed, workflow.RunTimedOut, workflow.RunCancelled,
}

// showRuns lists runs, newest first.
//
// The next page begins behind the last run of this one, by its instant and its id, and not by a number: runs that begin meanwhile move
// nothing.
func (s *server) showRuns(p *page) (err error) {
	q := p.r.URL.Query()
	f, err := readRunFilter(q)
	if err != nil {
		return err
	}
	f.Newest = true
	b := runsBody{Labels: q.Get("labels"), Prefix: f.Prefix, Tenant: f.Tenant, Roots: f.Roots, Where: f.Where, Clear: p.pageLink("runs"), Help: conditionHelpAt(p.now)}
	// The form offers all of them, and marks those that are chosen.
	for _, status := range allStatuses {
		b.Statuses = append(b.Statuses, choiceRow{status.String(), statusWord(status), statusClass(status), slices.Contains(f.Status, status)})
	}
	b.Filtered = f.Workflow != "" || f.Prefix != "" || f.Tenant != "" || f.Roots || f.Labels != nil || f.Status != nil || f.Where != ""
	if err := s.addWorkflows(p, &b, f.Workflow); err != nil {
		return err
	}
	if err := acts.CheckWhere(f.Where); err != nil {
		b.Wrong = wrongText(err)
		return p.showStatus(http.StatusBadRequest, "runs.html", "Runs", "runs", b)
	}
	if err := p.takeWhere(f.Where); err != nil {
		return err
	}
	f.Effort = p.s.effort
	before, after := q.Get("before"), workflow.RunID(q.Get("after"))
	if before != "" {
		t, err := time.Parse(time.RFC3339Nano, before)
		if err != nil {
			return errNoPage
		}
		// Several runs may have begun in the same millisecond, and the last page may have ended among them: it is the run that counts.
		f.Until = t // if that was purged those of the same instant are passed over
		if at, err := s.engine.Summary(p.r.Context(), after); err == nil && at.StartedAt.Equal(t) {
			f.Until, f.After = time.Time{}, after
		}
		b.First = p.root + "runs" + queryOf(withoutPage(q), nil)
	}
	err = s.addRuns(p, &b, f)
	if f.After != "" && errors.Is(err, pawl.ErrRunNotFound) { // it was purged just now
		return p.goTo("runs" + queryOf(withoutPage(q), nil))
	}
	if errors.As(err, new(*pawl.WhereError)) { // it cannot be said of one run
		b.Rows, b.Wrong = nil, wrongText(err)
		return p.showStatus(http.StatusBadRequest, "runs.html", "Runs", "runs", b)
	}
	if err != nil {
		return err
	}
	if b.MayAct || b.Next != "" { // else none of them goes on
		b.AllActs = p.allActLinks(q, &f)
	}
	// Only the first page changes by itself; later ones would move under their reader.
	p.markLive(after == "", false, 0)
	return p.showPage("runs.html", "Runs", "runs", b)
}

// addRuns lists the runs of a page, and says where the next one begins.
func (s *server) addRuns(p *page, b *runsBody, f pawl.RunFilter) error {
	var last pawl.RunSummary
	for r, err := range s.engine.Runs(p.r.Context(), f) {
		if stopped := stoppedAt(err); stopped != nil {
			b.Stopped = true
			b.Next = p.runsBehindStop(stopped.Run)
			break
		}
		if err != nil {
			return err
		}
		// There is one more than fits, so there is a next page.
		if len(b.Rows) == runsPage {
			b.Next = p.runsBehind(&last)
			break
		}
		row := p.placedRow(&r)
		// Nothing is done to runs that have ended, so they have no check box.
		if p.rights&api.Act != 0 && !r.Status.Final() && r.Trouble == "" {
			row.Target, b.MayAct = targetText(pawl.Target{Run: r.Run}), true
		}
		b.Rows = append(b.Rows, row)
		last = r
	}
	return nil
}

// A conditionHelp is what the field of a condition offers: whole ones to begin with and, as somebody writes, what may stand next.
type conditionHelp struct {
	Hints    []string
	Fields   string // with spaces between them, as in Statuses
	Statuses string
}

// conditionHelpAt returns what a condition can be made of. The names of workflows are in the form of the list.
func conditionHelpAt(now time.Time) conditionHelp {
	h := conditionHelp{Hints: conditionHints(now), Fields: strings.Join(acts.ConditionFields(), " ")}
	for _, status := range allStatuses {
		h.Statuses += " " + status.String()
	}
	return h
}

// conditionHints returns conditions that readers may begin with.
func conditionHints(now time.Time) []string {
	hour, day := now.Add(-time.Hour).UTC().Format(time.RFC3339), now.Add(-24*time.Hour).UTC().Truncate(time.Hour).Format(time.RFC3339)
	return []string{
		`labels.customer == "7"`, `tenant == "acme"`, `code == "timeout"`, `status == "failed" && code != ""`, `forkedFrom != ""`, `parent == ""`,
		fmt.Sprintf("started > timestamp(%q)", hour), fmt.Sprintf("ended > timestamp(%q)", day),
	}
}

// maxPlaces bounds how long a page looks where runs stand: those after it have none.
const maxPlaces = 100 * time.Millisecond

// placedRow is rowOf, and says where the run stands.
func (p *page) placedRow(r *pawl.RunSummary) runRow {
	row := p.rowOf(r)
	row.Where = p.placeOf(r)
	return row
}

// placeOf says at which nodes a run stands that goes on: those that need people first. It is kept for a run as long as it does
// not move, but not for a fork: a list does not tell one life of it from another.
func (p *page) placeOf(r *pawl.RunSummary) string {
	if r.Status.Final() || r.Trouble != "" || p.s.now().Sub(p.now) > maxPlaces {
		return ""
	}
	key := placeKey{runLife{r.Run, r.StartedAt.UnixMilli()}, r.Seq}
	if text, ok := p.s.places.find(key); ok {
		return text
	}
	ov, err := p.s.engine.Overview(p.r.Context(), r.Run)
	if err != nil { // it was purged, or is damaged: its page says so
		return ""
	}
	var texts []string
	for s := range standings {
		if s >= done {
			break
		}
		for _, n := range ov.Nodes {
			if k := tallyOf(n.Tokens)[s]; k > 0 {
				texts = append(texts, fmt.Sprintf("%s: %s %v", n.Node, groupDigits(k), s))
			}
		}
	}
	text := strings.Join(texts[:min(len(texts), 3)], ", ")
	if len(texts) > 3 {
		text += fmt.Sprintf(", and %d more", len(texts)-3)
	}
	if ov.Seq != r.Seq || r.ForkedFrom.Run != "" {
		return text
	}
	return p.s.places.keepValue(key, text)
}

// A placeKey is a run after one of its records.
type placeKey struct {
	life runLife
	seq  int64
}

// keptPlaces is how many of them are remembered.
const keptPlaces = 2048

// runsBehind leads to the page of the list that begins behind a run.
func (p *page) runsBehind(last *pawl.RunSummary) string {
	next := withoutPage(p.r.URL.Query())
	next.Set("before", last.StartedAt.Format(time.RFC3339Nano))
	next.Set("after", string(last.Run))
	return p.root + "runs" + queryOf(next, nil)
}

// runsBehindStop leads to the page that goes on where a list has stopped; nowhere if that run was purged meanwhile.
func (p *page) runsBehindStop(id workflow.RunID) string {
	last, err := p.s.engine.Summary(p.r.Context(), id)
	if err != nil {
		return ""
	}
	return p.runsBehind(&last)
}

// wrongText says what is wrong with a condition.
//
// The text of a WhereError has the place in the condition, and none of what wraps it.
func wrongText(err error) string {
	if wrong := (*pawl.WhereError)(nil); errors.As(err, &wrong) {
		return wrong.Error()
	}
	return err.Error()
}

// readRunFilter reads which runs the parameters of a list choose. The condition is not checked.
//
// Lists and acts on all runs of a list read the same parameters by it: filterFields are their names.
func readRunFilter(q url.Values) (f pawl.RunFilter, err error) {
	f = pawl.RunFilter{
		Workflow: q.Get("workflow"), Prefix: q.Get("prefix"), Tenant: q.Get("tenant"), Roots: q.Get("roots") != "", Where: strings.TrimSpace(q.Get("where")),
	}
	for _, text := range q["status"] {
		var status workflow.RunStatus
		if err := status.UnmarshalText([]byte(text)); err != nil {
			return f, fmt.Errorf("%w: %w", errNoPage, err)
		}
		f.Status = append(f.Status, status)
	}
	f.Labels, err = readLabels(q.Get("labels"))
	return f, err
}

// readLabels reads what people write: customer=7, kind=large.
//
// It returns nil without labels, which is no condition. If a key is given twice, its last value counts.
func readLabels(text string) (map[string]string, error) {
	var labels map[string]string
	for _, part := range strings.Split(text, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		key, value, ok := strings.Cut(part, "=")
		if !ok {
			return nil, fmt.Errorf("%w: labels are written as customer=7, kind=large", errAct)
		}
		if labels == nil {
			labels = map[string]string{}
		}
		labels[strings.TrimSpace(key)] = strings.TrimSpace(value)
	}
	return labels, nil
}

// withoutPage returns the parameters of a list without those that say which page it is, and what was done, which is told once.
//
// It is a copy.
func withoutPage(q url.Values) url.Values {
	out := url.Values{}
	for name, values := range q {
		if name != "before" && name != "after" && name != "told" {
			out[name] = values
		}
	}
	return out
}

// addWorkflows offers the names of the workflows that have runs: of many the first listedFlows, and the one that is chosen.
//
// Definitions that are published and have no runs are not among them.
func (s *server) addWorkflows(p *page, b *runsBody, chosen string) error {
	rows, err := s.listWorkflows(p)
	if err != nil {
		return err
	}
	shown, isChosen := cutWorkflows(rows, listedFlows), func(row workflowRow) bool { return row.Name == chosen }
	if i := slices.IndexFunc(rows, isChosen); i >= 0 && !slices.ContainsFunc(shown, isChosen) {
		shown = append(shown, rows[i])
	}
	b.MoreFlows = len(rows) - len(shown)
	slices.SortFunc(shown, func(a, b workflowRow) int { return strings.Compare(a.Name, b.Name) })
	for _, row := range shown {
		b.Workflows = append(b.Workflows, choiceRow{Value: row.Name, Text: row.Name, Chosen: row.Name == chosen})
	}
	return nil
}
