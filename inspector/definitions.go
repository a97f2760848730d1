package inspector

import (
	"os"
	"runtime"
	"strconv"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/diagram"
	"github.com/pawl-run/pawl/workflow"
)

// gridRuns is how many runs of a workflow the grid compares.
const gridRuns = 25

// A gridColumn is a run in the grid, a gridRow a node.
type gridColumn struct {
	Href, Label, Class string
}

// A gridRow has a cell for each column, in the same order.
type gridRow struct {
	Node  workflow.NodeID
	Cells []gridCell
}

// A gridCell says how one run stands at one node; Label says it in words, with all counts. Href is "" if the run was never there.
type gridCell struct {
	Class, Label, Href string
}

// A gridRun is a run in the grid, and when it began: see readBegin.
type gridRun struct {
	pawl.Overview

	began time.Time
}

// A definitionsBody is a list of all workflows, or one of them with its last runs: then Chosen is not nil, and the fields behind it are
// set.
type definitionsBody struct {
	picture

	Workflows []workflowRow
	Unlisted  int // workflows
	Published []publishedRow
	More      bool // names under which others are published
	Chosen    *workflowRow
	Versions  []choiceRow // that are published of it
	Version   int
	Times     *timesTable // of its nodes
	Panel     *timesPanel // of all of it; nil if no task has ended within a month
	Columns   []gridColumn
	Grid      []gridRow
	Newest    runLink
	All       string
	Counted   int                     // runs whose transitions were counted
	Never     []workflow.TransitionID // that none of these took
	Rest      int                     // of those, how many more
}

// showDefinitions lists the workflows that have runs and the definitions that are published, or shows one of them.
//
// A name alone shows the workflow with its runs, a name and a version a published definition.
func (s *server) showDefinitions(p *page) error {
	query := p.r.URL.Query()
	name, version := query.Get("workflow"), query.Get("version")
	if name != "" && version != "" {
		return s.showVersion(p, name, version)
	}
	rows, err := s.listWorkflows(p)
	if err != nil {
		return err
	}
	b := definitionsBody{Workflows: rows, All: p.pageLink("definitions")}
	if name == "" {
		if b.Published, b.More, err = s.listPublished(p); err != nil {
			return err
		}
		b.Workflows = cutWorkflows(rows, listedFlows)
		b.Unlisted = len(rows) - len(b.Workflows)
		return p.showPage("definitions.html", "Definitions", "definitions", b)
	}
	return s.showWorkflow(p, name, &b)
}

// showWorkflow shows what the last runs of a workflow have come to; for a workflow without runs, what is published.
//
// The page of a workflow that has runs also links to the versions that are published of it.
func (s *server) showWorkflow(p *page, name string, b *definitionsBody) error {
	for i := range b.Workflows {
		if b.Workflows[i].Name == name {
			b.Chosen = &b.Workflows[i]
		}
	}
	if b.Chosen == nil {
		return s.showVersion(p, name, latestVersion)
	}
	versions, err := s.versionsOf(p, name)
	if err != nil {
		return err
	}
	b.Versions = p.chooseVersions(name, versions, -1)
	if b.Times, err = s.readNodeTimes(p, name); err != nil {
		return err
	}
	if b.Panel, err = s.readTimes(p, name); err != nil {
		return err
	}
	if err := s.addGrid(p, b); err != nil {
		return err
	}
	return p.showPage("definition.html", name, "definitions", b)
}

// addGrid draws the definition of the newest run with what the last runs have come to, and
// how each of them stands at each node.
//
// Older runs may have other versions with other nodes. They are in the sums and columns by the ids of nodes: a node that the newest
// definition has no more is in none.
func (s *server) addGrid(p *page, b *definitionsBody) error {
	ctx := p.r.Context()
	var runs []gridRun
	for r, err := range s.engine.Runs(ctx, pawl.RunFilter{Workflow: b.Chosen.Name, Newest: true, Limit: gridRuns}) {
		if err != nil {
			return err
		}
		// The overview of a run has its tokens by node in numbers: no token is read.
		ov, err := s.engine.Overview(ctx, r.Run)
		if err != nil {
			continue // it was purged meanwhile, or is damaged: its own page says so
		}
		since, err := p.readBegin(&r)
		if err != nil {
			continue
		}
		if len(runs) == 0 {
			b.Version, b.Newest = r.Version, runLink{r.Run, p.runLink(r.Run)}
		}
		runs = append(runs, gridRun{ov, since})
	}
	if len(runs) == 0 {
		return errNoPage
	}
	// The definition is that of the newest run, with its patches.
	v := &viewer{page: p, id: runs[0].Run, ov: runs[0].Overview, began: runs[0].began, ctx: ctx}
	g, err := v.graphOf()
	if err != nil {
		return err
	}
	sum := diagram.Run{Tokens: map[workflow.NodeID]map[workflow.TokenStatus]int{}, Reached: map[workflow.NodeID]int{}, Runs: len(runs), Reported: b.Times.nodes}
	for i := range runs {
		ov := &runs[i]
		b.Columns = append(b.Columns, gridColumn{p.runLink(ov.Run), string(ov.Run) + ": " + statusWord(ov.Status), statusClass(ov.Status)})
		for _, n := range ov.Nodes {
			if sum.Tokens[n.Node] == nil {
				sum.Tokens[n.Node] = map[workflow.TokenStatus]int{}
			}
			came := 0
			for status, k := range n.Tokens {
				sum.Tokens[n.Node][status] += k
				came += k
			}
			if came > 0 {
				sum.Reached[n.Node]++
			}
		}
	}
	if err := b.countTaken(p, g, &sum, runs); err != nil {
		return err
	}
	// The sums are drawn as if they were those of one run.
	b.picture = p.drawGraph(g, &sum, nil)
	b.Rest = max(0, len(b.Never)-listedRows)
	b.Never = b.Never[:len(b.Never)-b.Rest]
	for i := range g.Definition.Nodes {
		row := gridRow{Node: g.Definition.Nodes[i].ID}
		// For a large definition the grid has the nodes that are drawn.
		if !b.drawsNode(row.Node) {
			continue
		}
		for k := range runs {
			row.Cells = append(row.Cells, p.gridCellOf(&runs[k].Overview, row.Node))
		}
		b.Grid = append(b.Grid, row)
	}
	return nil
}

// gridCellOf says how a run stands at a node.
//
// Its class is the most pressing standing of the tokens there: the first of a tally that is not 0.
func (p *page) gridCellOf(ov *pawl.Overview, node workflow.NodeID) gridCell {
	for _, n := range ov.Nodes {
		if n.Node != node {
			continue
		}
		t := tallyOf(n.Tokens)
		label := string(ov.Run) + " at " + string(node) + ":"
		for _, c := range t.Counts() {
			label += " " + groupDigits(c.N) + " " + c.Standing.String()
		}
		for s, k := range t {
			if k > 0 {
				return gridCell{standing(s).String(), label, p.runLink(ov.Run, "view", "tokens", "node", string(node))}
			}
		}
	}
	return gridCell{Class: "none", Label: string(ov.Run) + " at " + string(node) + ": not reached"}
}

// A fact is a line of the page of the engine.
type fact struct{ Name, Text string }

// An engineBody is the page of the engine: what it does now, what it and its process are, and its workflows.
type engineBody struct {
	Now       []fact // what it does
	Facts     []fact
	Workflows workflowList
	Disk      diskTable
}

// began is about when the process began: this package is initialized then.
var began = time.Now()

// showEngine says what is known of the engine and its process.
func (s *server) showEngine(p *page) error {
	rows, err := s.listWorkflows(p)
	if err != nil {
		return err
	}
	stats, err := s.engine.Stats(p.r.Context())
	if err != nil {
		return err
	}
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	runs := 0
	for _, row := range rows {
		runs += row.Total
	}
	disk, err := s.readDisk(p)
	if err != nil {
		return err
	}
	return p.showPage("engine.html", "Engine", "engine", engineBody{[]fact{
		{"runs in memory", groupDigits(stats.Active)},
		{"tasks performed now", groupDigits(stats.Running)},
		{"tasks in a queue", groupDigits(stats.Queued)},
		{"results that come from outside", groupDigits(stats.Pending)},
		{"results to be saved", groupDigits(stats.Waiting)},
		{"commits since it was opened", groupDigits(int(stats.Commits))},
	}, []fact{
		{"runs", groupDigits(runs)},
		{"workflows", groupDigits(len(rows))},
		{"pawl", s.build},
		{"Go", runtime.Version()},
		{"process", "pid " + strconv.Itoa(os.Getpid())},
		{"up for", spanText(p.now.Sub(began))},
		{"goroutines", groupDigits(runtime.NumGoroutine())},
		{"memory in use", groupDigits(int(memory.HeapInuse>>20)) + " MiB"},
		{"clock", p.now.UTC().Format("2006-01-02 15:04:05 UTC")},
	}, p.firstWorkflows(rows), disk})
}
