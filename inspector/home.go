package inspector

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/acts"
	"github.com/pawl-run/pawl/workflow"
)

// A runRow is a run in a list.
//
// Target is set by lists in which runs can be chosen, and only for those who may act on them.
type runRow struct {
	ID       workflow.RunID
	Href     string
	Workflow string
	Version  int
	Status   workflow.RunStatus
	Started  instant
	Took     string // until its end; "" while it goes on
	Failure  string
	Where    string   // at which nodes it stands, in lists that say so
	Labels   []string // customer=7
	Target   string   // with which something can be done to it with others; "" if not
}

// rowOf describes a run. Labels are sorted by key. A failure is shown as far as the reader may see it.
func (p *page) rowOf(r *pawl.RunSummary) runRow {
	row := runRow{ID: r.Run, Href: p.runLink(r.Run), Workflow: r.Workflow, Version: r.Version, Status: r.Status, Started: p.instantOf(r.StartedAt)}
	if !r.EndedAt.IsZero() {
		row.Took = spanText(r.EndedAt.Sub(r.StartedAt))
	}
	for _, key := range slices.Sorted(maps.Keys(r.Labels)) {
		row.Labels = append(row.Labels, key+"="+r.Labels[key])
	}
	if r.Failure != nil {
		row.Failure = shortText(p.failureAt(r.Failure), 160)
	}
	if r.Trouble != "" {
		row.Failure = shortText(r.Trouble, 160)
	}
	return row
}

// shortText cuts a text to so many characters.
//
// The last of them is then an ellipsis. It cuts characters and not bytes.
func shortText(text string, most int) string {
	n, end := 0, 0
	for i := range text {
		if n == most-1 {
			end = i
		}
		if n++; n > most {
			return text[:end] + "…"
		}
	}
	return text
}

// A need is one kind of what waits for people.
//
// Count may be 1,000+; Any says that it is not 0, for the colour.
type need struct {
	Word  string // parked tasks
	Class string
	Count string
	Any   bool
	Href  string
	Hint  string
}

// newNeed returns a need of n things that are called so.
func newNeed(n int, noun, class, href, hint string) need {
	if n != 1 {
		noun += "s"
	}
	return need{noun, class, countText(n), n > 0, href, hint}
}

// A workflowRow says how many runs a workflow has.
type workflowRow struct {
	Name   string
	Href   string // its definition
	Runs   string // its runs
	Total  int
	Counts []count
	Parts  []statusCount
}

// A statusCount is how many runs of a workflow have a status.
type statusCount struct {
	Status workflow.RunStatus
	N      int64
	Href   string
}

// A homeBody is the first page: what needs people, with the first of each kind, then all workflows and the newest runs.
type homeBody struct {
	Needs     []need
	Quiet     bool // nothing needs anybody
	Workflows workflowList
	Recent    []runRow
	Failed    []runRow
	Suspended []runRow
	Incidents []runRow // in which a join can no longer be met
	Damaged   []runRow // that cannot be loaded
	Letters   []inboxGroup
	Approvals []inboxGroup
	All       string
	Inbox     string
	Times     *timesPanel // nil if no task has ended within a month, or runs or waits
	Workers   string
}

// The bounds of the first page.
// Lists are read up to these numbers and no further, so that the page of an engine with a million failures is as quick as that of another.
const (
	countedNeeds = 1000 // of each kind; more are 1,000+
	shownNeeds   = 5
	shownRecent  = 12
	shownFlows   = 12
	listedFlows  = 200 // where all workflows are listed, or can be chosen
)

// showHome answers the first page. Failures of children are those of their roots again, so only roots are counted.
func (s *server) showHome(p *page) error {
	b := homeBody{All: p.pageLink("runs"), Inbox: p.pageLink("inbox"), Workers: p.pageLink("workers") + "#process"}
	ctx := p.r.Context()
	// The needs, which wait for people, come first.
	needs, err := s.listNeeds(p, &b)
	if err != nil {
		return err
	}
	// counts, filters and the lists below are in the same order: suspended, failed, unmet joins.
	var counts [3]int
	since := p.now.Add(-24 * time.Hour).Truncate(time.Minute) // so that the link stays as it is for a while
	filters := [3]pawl.RunFilter{
		{Status: []workflow.RunStatus{workflow.RunSuspended}, Newest: true, Limit: countedNeeds},
		{Status: []workflow.RunStatus{workflow.RunFailed, workflow.RunTimedOut}, Newest: true, Limit: countedNeeds, EndedSince: since, Roots: true},
		acts.IncidentFilter(pawl.RunFilter{Newest: true, Limit: countedNeeds}),
	}
	for i, rows := range [3]*[]runRow{&b.Suspended, &b.Failed, &b.Incidents} {
		for r, err := range s.engine.Runs(ctx, filters[i]) {
			if err != nil {
				return err
			}
			if counts[i]++; counts[i] <= shownNeeds {
				*rows = append(*rows, p.rowOf(&r))
			}
		}
	}
	// Each need leads to the list of what it counts, by a filter that finds the same.
	b.Needs = []need{
		newNeed(needs[0], "parked task", "parked", p.pageLink("inbox")+"#letters", "with no attempts left"),
		newNeed(needs[1], "approval", "waiting", p.pageLink("inbox")+"#approvals", "for people to answer"),
		newNeed(counts[0], "suspended run", "parked", p.pageLink("runs", "status", "suspended"), "met an internal fault"),
		newNeed(counts[2], "blocked run", "failed", p.blockedLink(&filters[2]), "waiting for branches that cannot come any more"),
		newNeed(counts[1], "failed run", "failed", p.pageLink("runs", "roots", "1", "where", failedSince(since)), "within the last 24 hours"),
	}
	b.Quiet = needs[0]+needs[1]+counts[0]+counts[1]+counts[2] == 0
	stats, err := s.engine.Stats(ctx)
	if err != nil {
		return err
	}
	if stats.DiskFull {
		b.Needs, b.Quiet = slices.Insert(b.Needs, 0, newNeed(1, "full disk", "failed", p.pageLink("engine"), "nothing begins, and results wait")), false
	}
	if n := stats.Damaged; n > 0 {
		b.Needs, b.Quiet = slices.Insert(b.Needs, 0, newNeed(n, "damaged run", "failed", "#damaged", "cannot be loaded: pawl verify tells")), false
		b.Damaged = s.listDamaged(p, stats.DamagedRuns)
	}
	if n := stats.SchedulesFailed; n > 0 {
		b.Needs, b.Quiet = append(b.Needs, newNeed(n, "paused schedule", "failed", p.pageLink("schedules"), "since its runs failed")), false
	}
	workflows, err := s.listWorkflows(p)
	if err != nil {
		return err
	}
	b.Workflows = p.firstWorkflows(workflows)
	if b.Times, err = s.readTimes(p, ""); err != nil {
		return err
	}
	// Children are left out, or the fan-out of one run would fill the list.
	for r, err := range s.engine.Runs(ctx, pawl.RunFilter{Newest: true, Roots: true, Limit: shownRecent}) {
		if err != nil {
			return err
		}
		b.Recent = append(b.Recent, p.rowOf(&r))
	}
	// It is never over: new runs may come.
	p.markLive(true, false, 0)
	return p.showPage("home.html", "Overview", "home", b)
}

// listNeeds lists the first parked tasks and approvals, and returns how many of each there are, up to countedNeeds.
func (s *server) listNeeds(p *page, b *homeBody) (n [2]int, err error) {
	letters, err := s.groupLetters(p, pawl.DeadLetterFilter{}, "")
	if err != nil {
		return n, err
	}
	approvals, err := s.groupApprovals(p, pawl.ApprovalFilter{}, "")
	b.Letters, b.Approvals = p.rowsOf(allOfLetters, "", &letters, shownNeeds), p.rowsOf(allOfApprovals, "", &approvals, shownNeeds)
	return [2]int{letters.N, approvals.N}, err
}

// listDamaged describes runs that cannot be loaded, as far as the index knows them.
func (s *server) listDamaged(p *page, ids []workflow.RunID) (rows []runRow) {
	for _, id := range ids {
		row := runRow{ID: id, Href: p.runLink(id)}
		if r, err := s.engine.Summary(p.r.Context(), id); err == nil {
			row = p.rowOf(&r)
		}
		row.Failure = "it stands still: its file is damaged, or of another version" // the index has its status from before
		rows = append(rows, row)
	}
	return rows
}

// countText says at countedNeeds that there may be more, as counting ends there.
func countText(n int) string {
	if n >= countedNeeds {
		return groupDigits(countedNeeds) + "+"
	}
	return groupDigits(n)
}

// failedSince is the condition that finds the runs that failed or timed out since an instant.
//
// It is the filter of the first page in words of Where, in which it stands in the address of the list, where readers may change it.
func failedSince(since time.Time) string {
	return fmt.Sprintf("status in [%q, %q] && ended >= timestamp(%q)", workflow.RunFailed, workflow.RunTimedOut, since.UTC().Format(time.RFC3339))
}

// listWorkflows counts the runs of each workflow.
//
// The counts come sorted by workflow, so each row is complete before the next one begins.
func (s *server) listWorkflows(p *page) (rows []workflowRow, err error) {
	counts, err := s.engine.Counts(p.r.Context())
	if err != nil {
		return nil, err
	}
	tallies := map[string]*tally{}
	for _, c := range counts {
		// The first status of the next workflow begins its row.
		if len(rows) == 0 || rows[len(rows)-1].Name != c.Workflow {
			rows = append(rows, workflowRow{Name: c.Workflow, Href: p.pageLink("definitions", "workflow", c.Workflow), Runs: p.pageLink("runs", "workflow", c.Workflow)})
			tallies[c.Workflow] = &tally{}
		}
		row := &rows[len(rows)-1]
		row.Total += int(c.Runs)
		row.Parts = append(row.Parts, statusCount{c.Status, c.Runs, p.pageLink("runs", "workflow", c.Workflow, "status", c.Status.String())})
		tallies[c.Workflow][runStanding(c.Status)] += int(c.Runs)
	}
	for i := range rows {
		rows[i].Counts = tallies[rows[i].Name].Counts()
		slices.SortStableFunc(rows[i].Parts, func(a, b statusCount) int { return statusOrder(a.Status) - statusOrder(b.Status) })
	}
	return rows, nil
}

// A workflowList are the first workflows of all, which another page lists.
type workflowList struct {
	Rows []workflowRow
	Of   int
	All  string // where they are listed
}

// firstWorkflows returns the first shownFlows workflows.
func (p *page) firstWorkflows(rows []workflowRow) workflowList {
	return workflowList{cutWorkflows(rows, shownFlows), len(rows), p.pageLink("definitions")}
}

// cutWorkflows returns so many workflows; of more, those of which the most runs have not ended.
func cutWorkflows(rows []workflowRow, most int) []workflowRow {
	if len(rows) <= most {
		return rows
	}
	rows = slices.Clone(rows)
	slices.SortStableFunc(rows, func(a, b workflowRow) int { return b.countLive() - a.countLive() })
	return rows[:most]
}

// countLive returns how many runs of a workflow have not ended.
func (r *workflowRow) countLive() (n int) {
	for _, part := range r.Parts {
		if !part.Status.Final() {
			n += int(part.N)
		}
	}
	return n
}

// runStanding returns what people want to know of a run, as of a token.
//
// It is the standing whose word is the class of the status.
func runStanding(s workflow.RunStatus) standing {
	for i := range standings {
		if i.String() == statusClass(s) {
			return i
		}
	}
	return waiting
}

// statusOrder puts what lives first.
// The constants of package workflow have that order.
func statusOrder(s workflow.RunStatus) int { return int(s) }
