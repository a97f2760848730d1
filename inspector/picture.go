package inspector

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"html/template"
	"strconv"
	"strings"
	"sync"

	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/diagram"
	"github.com/pawl-run/pawl/workflow"
)

// The bounds of a drawn graph.
// A drawing of thousands of nodes or transitions helps nobody, and takes long to lay out: beyond wholeGraph and wholeEdges only a part is
// drawn. Each picture that is kept takes pictureBytes at most.
const (
	graphWidth   = 760     // in pixels, where it can be
	wholeGraph   = 400     // nodes up to which all are drawn
	wholeEdges   = 1200    // transitions up to which all are drawn
	drawnNodes   = 100     // of a graph that has more
	drawnEdges   = 400     // likewise
	pictureBytes = 1 << 20 // of SVG
	keptPictures = 48      // those that were drawn last
	listedRows   = 100     // lines of a list on a page
)

// A picture is a graph as SVG or, of one of many nodes or transitions, the part around what matters.
//
// Drawn of Of nodes are in it; if they are fewer, the page has a form that asks for the part around another node, with Fields to keep the
// rest of the address.
type picture struct {
	SVG    template.HTML // of package diagram, which escapes all texts
	Drawn  int
	Of     int
	Around workflow.NodeID // the node that the reader has asked for
	None   bool            // there is no such node
	Moves  bool            // the page can be asked for around another node
	Fields []formField     // with which it is
	nodes  map[workflow.NodeID]bool
}

// Part reports whether not all is drawn.
func (g picture) Part() bool { return g.Drawn < g.Of }

// drawsNode reports whether a node is in the picture.
func (g *picture) drawsNode(id workflow.NodeID) bool { return g.nodes[id] }

// A pictureKey has all that makes a picture, hashed: definitions, counts, links and the chosen node.
type pictureKey [sha256.Size]byte

// A keptPicture is drawn once, by the first page that shows it; others that ask meanwhile wait for it.
type keptPicture struct {
	once sync.Once
	picture
}

// drawGraph draws a definition with a run on it, which may be nil. Pages of the same definition and counts share one picture.
//
// link may be nil: then the nodes lead nowhere.
func (p *page) drawGraph(g *compiled.Graph, run *diagram.Run, link func(workflow.NodeID) string) picture {
	return p.drawPicture(p.keyOf(run, link, g), link, func() *diagram.Diagram { return diagram.New(g, run) })
}

// keyOf returns the key of a picture of definitions.
func (p *page) keyOf(run *diagram.Run, link func(workflow.NodeID) string, graphs ...*compiled.Graph) (key pictureKey) {
	h := sha256.New()
	for _, g := range graphs {
		fmt.Fprintf(h, "%q %d %q\n", g.Definition.Name, g.Definition.Version, g.Hash)
	}
	fmt.Fprintf(h, "%q\n", p.r.URL.Query().Get("node"))
	if link != nil { // all links of a page differ by their nodes alone
		fmt.Fprintf(h, "%q\n", link("node"))
	}
	if run != nil {
		counts := *run
		counts.Seq = 0                         // the same counts make the same picture, whatever the record
		_ = json.NewEncoder(h).Encode(&counts) // maps and numbers; maps are sorted
	}
	h.Sum(key[:0])
	return key
}

// drawPicture returns the picture of a key. It draws a picture that is not kept: the diagram, or the part of it around the node that the
// query of the page names.
func (p *page) drawPicture(key pictureKey, link func(workflow.NodeID) string, diagramOf func() *diagram.Diagram) picture {
	q := p.r.URL.Query()
	kept, ok := p.s.pictures.find(key)
	if !ok {
		kept = p.s.pictures.keepValue(key, &keptPicture{})
	}
	kept.once.Do(func() { kept.picture = paintPart(diagramOf(), workflow.NodeID(q.Get("node")), link) })
	out := kept.picture
	if out.Moves = out.Part() && !p.isForm(); out.Moves {
		// A form by GET replaces the query, so what chooses the page goes with it.
		for _, name := range []string{"id", "view", "workflow", "version", "revision", "at"} {
			if q.Get(name) != "" {
				out.Fields = append(out.Fields, formField{name, q.Get(name)})
			}
		}
	}
	return out
}

// paintPart draws a diagram, or as much of it around a node as the bounds of a picture allow.
func paintPart(d *diagram.Diagram, around workflow.NodeID, link func(workflow.NodeID) string) picture {
	nodes, edges := drawnNodes, drawnEdges
	part := d
	if d.Size() > wholeGraph || d.Edges() > wholeEdges {
		part = d.Part(nodes, edges, around)
	}
	svg := ""
	for {
		svg = part.Embed(diagram.Embedding{MaxWidth: graphWidth, Link: link, Chosen: around})
		if len(svg) <= pictureBytes || nodes == 1 {
			break
		}
		// Its texts are long: less of it is drawn.
		nodes, edges = nodes/2, edges/2
		part = d.Part(nodes, edges, around)
	}
	out := picture{
		SVG: template.HTML(svg), //nolint:gosec // package diagram escapes every text
		Of:  d.Size(), Drawn: part.Size(), Around: around, nodes: map[workflow.NodeID]bool{},
	}
	// Tables beside the picture have the same nodes.
	for _, id := range part.Nodes() {
		out.nodes[id] = true
	}
	// Part puts a chosen node into the picture if there is one.
	out.None = around != "" && !out.nodes[around]
	return out
}

// isForm reports whether the page asks whether to do something.
func (p *page) isForm() bool { return strings.Trim(p.r.URL.Path, "/") == "act" }

// A listPart is a page of a list that has many lines.
//
// From and To are counted from 1, and both are part of it.
type listPart struct {
	From, To       int // the first line counts from 1; 0 if the list is not shown from a line on
	Of             int
	Before, Behind string // lead to other parts; "" without such a part
}

// Whole reports whether all lines are shown.
func (l listPart) Whole() bool { return l.To-l.From+1 >= l.Of }

// partOf returns the part of a list of n lines that a parameter of the query chooses, by the lines before it.
// link leads to another part; nil if nothing can.
//
// A number in the address is brought within the list: of 250 lines, 200 shows 201 to 250, and 900 the last line. For an empty list From
// is 1 and To 0.
func (p *page) partOf(parameter string, n int, link func(from string) string) listPart {
	from, _ := strconv.Atoi(p.r.URL.Query().Get(parameter))
	from = max(0, min(from, n-1))
	part := listPart{From: from + 1, To: min(from+listedRows, n), Of: n}
	if link == nil {
		return part
	}
	if from > 0 {
		part.Before = link(strconv.Itoa(max(0, from-listedRows)))
	}
	if part.To < n {
		part.Behind = link(strconv.Itoa(part.To))
	}
	return part
}
