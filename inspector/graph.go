package inspector

import (
	"maps"
	"net/url"
	"slices"
	"strconv"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/diagram"
	"github.com/pawl-run/pawl/workflow"
)

// A graphKey is a definition of a run.
//
// A revision of a run never changes, so what is compiled of it is good as long as the run is there.
type graphKey struct {
	life     runLife
	revision int
}

// A nodeRow is a node in the table beside the graph.
//
// Kind is "" of a node that the definition has no more. Total counts all tokens that are or were there.
type nodeRow struct {
	Node   workflow.NodeID
	Kind   workflow.Kind
	Href   string
	Counts []count
	Total  int
	Chosen bool
	Queued int // how many of those that run nobody performs yet, if that is at hand

	Reported string    // by the results of its tasks
	Acts     []actLink // what can be done from there on, once the run has ended
}

// A graphData is what the graph of a run shows, now or after a record. For the run as it is, Moment is nil and Slider is set; for the run
// as it was, it is the other way round, and there are no Groups.
type graphData struct {
	picture

	Nodes  []nodeRow
	Listed *listPart // which of them, by their order; nil of those that are drawn
	All    string    // leads to a list of all, if only those are listed that are drawn
	Groups []groupRow
	More   int // groups that are not listed
	Live   int
	Moment *moment // nil of the run as it is
	Slider *moment // where it may be looked at as it was
}

// graphOf returns the compiled definition that the run has now.
//
// It must not be changed: other pages have the same, and of revision 1 the engine itself.
func (v *viewer) graphOf() (*compiled.Graph, error) {
	key := graphKey{v.lifeOf(), v.ov.Revision}
	if g, ok := v.s.graphs.find(key); ok {
		return g, nil
	}
	if v.ov.Revision == 1 { // the engine has it compiled
		rec, err := v.recording(v.ctx, v.id)
		if err != nil {
			return nil, err
		}
		return v.s.graphs.keepValue(key, rec.Graph()), nil
	}
	// A patch may have come since the overview was read: the revision that was returned is the key, and not the one that was asked for.
	d, revision, err := v.s.engine.Definition(v.ctx, v.id)
	if err != nil {
		return nil, err
	}
	g, err := compiled.Compile(compiled.Boundless(), d)
	if err != nil {
		return nil, err
	}
	key.revision = revision
	return v.s.graphs.keepValue(key, g), nil
}

// diagramRun returns a run in numbers as a diagram has it.
//
// The maps of the overview are shared, and only read.
func (p *page) diagramRun(ov *pawl.Overview) *diagram.Run {
	run := &diagram.Run{
		ID: ov.Run, Status: ov.Status, Seq: ov.Seq, Tokens: map[workflow.NodeID]map[workflow.TokenStatus]int{}, Reported: map[workflow.NodeID]string{},
	}
	for _, n := range ov.Nodes {
		run.Tokens[n.Node] = n.Tokens
		if text := p.reportText(n.Meta, nil, nil); text != "" {
			run.Reported[n.Node] = text
		}
	}
	return run
}

// viewGraph shows the graph of a run with the tokens on it.
//
// Everything but the strips of fan-outs comes from the overview: its cost does not grow with the tokens of the run.
func (v *viewer) viewGraph() (any, error) {
	g, err := v.graphOf()
	if err != nil {
		return nil, err
	}
	link := func(id workflow.NodeID) string { return v.link("view", "tokens", "node", string(id)) }
	run := v.diagramRun(&v.ov)
	data := graphData{picture: v.drawGraph(g, run, link), Live: v.ov.Live}
	known := map[workflow.NodeID]tally{}
	for _, n := range v.ov.Nodes {
		known[n.Node] = tallyOf(n.Tokens)
	}
	v.addNodes(&data, g, known, link)
	for i := range data.Nodes {
		n := &data.Nodes[i]
		if n.Reported = run.Reported[n.Node]; v.ov.Status.Final() && n.Total > 0 && (n.Kind == workflow.KindTask || n.Kind == workflow.KindSubworkflow) {
			n.Acts = v.rerunLinks(n.Node)
		}
	}
	data.Slider = &moment{Seq: v.ov.Seq, Of: v.ov.Seq, Steps: v.link("view", "steps"), Status: v.ov.Status, Hidden: hiddenID(v.id)}
	if v.ov.Seq > 1 {
		data.Slider.Back = v.atLink(v.ov.Seq - 1)
	}
	// Gather counts all groups that gather; the overview may list fewer.
	groups := v.ov.Groups[:min(len(v.ov.Groups), shownGroups)]
	data.More = v.ov.Gather - len(groups)
	data.Groups, err = v.groupRows(groups)
	return data, err
}

// rerunLinks returns the link to perform a run that has ended again from a node on.
func (v *viewer) rerunLinks(id workflow.NodeID) (links []actLink) {
	for _, l := range v.actLinks(pawl.Target{Run: v.id}, "rerun") {
		links = append(links, actLink{Text: "Rerun from here…", Href: l.Href + "&node=" + url.QueryEscape(string(id))})
	}
	return links
}

// addNodes adds the table of nodes: those of the definition in its order, then those that a
// patch has removed. If the graph is drawn in part, the table has the nodes that are drawn, or a page of all nodes.
//
// It comes after the picture was drawn, since it depends on what is in it. A node without tokens has a row as well.
func (v *viewer) addNodes(data *graphData, g *compiled.Graph, known map[workflow.NodeID]tally, link func(workflow.NodeID) string) {
	var order []workflow.NodeID
	for i := range g.Definition.Nodes {
		order = append(order, g.Definition.Nodes[i].ID)
	}
	// Nodes that a patch has removed, and at which tokens were before.
	for _, id := range slices.Sorted(maps.Keys(known)) {
		if g.Node(id) == nil {
			order = append(order, id)
		}
	}
	// The table has as many rows as one can read: those of the picture, until the reader asks for all, by the parameter nodes.
	if data.Part() {
		q := v.r.URL.Query()
		page := func(from string) string { return v.link("at", q.Get("at"), "node", q.Get("node"), "nodes", from) }
		// The reader has asked for all nodes, page by page.
		if q.Has("nodes") {
			part := v.partOf("nodes", len(order), page)
			data.Listed, order = &part, order[part.From-1:part.To]
		} else {
			data.All, order = page("0"), slices.DeleteFunc(order, func(id workflow.NodeID) bool { return !data.drawsNode(id) })
		}
	}
	for _, id := range order {
		row := nodeRow{Node: id, Href: link(id), Counts: known[id].Counts(), Total: known[id].Total(), Chosen: id == data.Around}
		if n := g.Node(id); n != nil {
			row.Kind = n.Kind
		}
		data.Nodes = append(data.Nodes, row)
	}
}

// groupLink leads to the page of a fan-out.
func (v *viewer) groupLink(id workflow.GroupID, pairs ...string) string {
	return v.link(append([]string{"view", "group", "group", strconv.FormatInt(int64(id), 10)}, pairs...)...)
}
