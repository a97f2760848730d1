package inspector

import (
	"html/template"
	"maps"
	"slices"
	"strconv"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/diagram"
	"github.com/pawl-run/pawl/workflow"
)

// A graphKey is a definition of a run.
type graphKey struct {
	life     runLife
	revision int
}

// A nodeRow is a node in the table beside the graph.
type nodeRow struct {
	Node   workflow.NodeID
	Kind   workflow.Kind
	Href   string
	Counts []count
	Total  int
	Chosen bool
}

type graphData struct {
	SVG    template.HTML // of package diagram, which escapes all texts
	Nodes  []nodeRow
	Groups []groupRow
	More   int // groups that are not listed
	Live   int
	Moment *moment // nil of the run as it is
	Slider *moment // where it may be looked at as it was
}

// graphOf returns the compiled definition that the run has now.
func (v *viewer) graphOf() (*workflow.Graph, error) {
	key := graphKey{v.lifeOf(), v.ov.Revision}
	if g, ok := v.s.graphs.find(key); ok {
		return g, nil
	}
	d, revision, err := v.s.engine.Definition(v.ctx, v.id)
	if err != nil {
		return nil, err
	}
	g, err := workflow.Compile(d)
	if err != nil {
		return nil, err
	}
	key.revision = revision
	return v.s.graphs.keepValue(key, g), nil
}

// graphWidth is how wide a drawn graph is at most, in pixels, where it can be.
const graphWidth = 760

func drawGraph(g *workflow.Graph, run *diagram.Run, link func(workflow.NodeID) string, chosen workflow.NodeID) template.HTML {
	svg := diagram.New(g, run).Embed(diagram.Embedding{MaxWidth: graphWidth, Link: link, Chosen: chosen})
	return template.HTML(svg) //nolint:gosec // package diagram escapes every text
}

// diagramRun returns a run in numbers as a diagram has it.
func diagramRun(ov *pawl.Overview) *diagram.Run {
	run := &diagram.Run{ID: ov.Run, Status: ov.Status, Seq: ov.Seq, Tokens: map[workflow.NodeID]map[workflow.TokenStatus]int{}}
	for _, n := range ov.Nodes {
		run.Tokens[n.Node] = n.Tokens
	}
	return run
}

// viewGraph shows the graph of a run with the tokens on it.
func (v *viewer) viewGraph() (any, error) {
	g, err := v.graphOf()
	if err != nil {
		return nil, err
	}
	chosen := workflow.NodeID(v.r.URL.Query().Get("node"))
	link := func(id workflow.NodeID) string { return v.link("view", "tokens", "node", string(id)) }
	data := graphData{SVG: drawGraph(g, diagramRun(&v.ov), link, chosen), Live: v.ov.Live}
	known := map[workflow.NodeID]tally{}
	for _, n := range v.ov.Nodes {
		known[n.Node] = tallyOf(n.Tokens)
	}
	data.addNodes(g, known, link, chosen)
	data.Slider = &moment{Seq: v.ov.Seq, Of: v.ov.Seq, Steps: v.link("view", "steps"), Status: v.ov.Status, Hidden: hiddenID(v.id)}
	if v.ov.Seq > 1 {
		data.Slider.Back = v.atLink(v.ov.Seq - 1)
	}
	groups := v.ov.Groups[:min(len(v.ov.Groups), shownGroups)]
	data.More = v.ov.Gather - len(groups)
	data.Groups, err = v.groupRows(groups)
	return data, err
}

// addNodes adds the table of nodes: those of the definition in its order, then those that a
// patch has removed.
func (data *graphData) addNodes(g *workflow.Graph, known map[workflow.NodeID]tally, link func(workflow.NodeID) string, chosen workflow.NodeID) {
	var order []workflow.NodeID
	for i := range g.Definition.Nodes {
		order = append(order, g.Definition.Nodes[i].ID)
	}
	for _, id := range slices.Sorted(maps.Keys(known)) {
		if g.Node(id) == nil {
			order = append(order, id)
		}
	}
	for _, id := range order {
		row := nodeRow{Node: id, Href: link(id), Counts: known[id].Counts(), Total: known[id].Total(), Chosen: id == chosen}
		if n := g.Node(id); n != nil {
			row.Kind = n.Kind
		}
		data.Nodes = append(data.Nodes, row)
	}
}

func (v *viewer) groupLink(id workflow.GroupID, pairs ...string) string {
	return v.link(append([]string{"view", "group", "group", strconv.FormatInt(int64(id), 10)}, pairs...)...)
}
