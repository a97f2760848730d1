package replay

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// A Coverage counts what many runs went through, by definition. The zero value is empty.
type Coverage struct {
	byHash map[string]*DefinitionCoverage
}

// A DefinitionCoverage counts what the runs of one definition went through. A definition that
// a patch has made counts apart.
type DefinitionCoverage struct {
	Workflow    string               `json:"workflow"`
	Version     int                  `json:"version"`
	Hash        string               `json:"hash"`
	Runs        int                  `json:"runs"`
	Nodes       []NodeCoverage       `json:"nodes"`       // in definition order
	Transitions []TransitionCoverage `json:"transitions"` // in definition order
	Joins       []JoinCoverage       `json:"joins,omitempty"`

	graph       *workflow.Graph
	nodes       map[workflow.NodeID]*NodeCoverage
	transitions map[workflow.TransitionID]*TransitionCoverage
	joins       map[string]*JoinCoverage
}

// A NodeCoverage counts the stays at a node, by their end.
type NodeCoverage struct {
	Node      workflow.NodeID `json:"node"`
	Reached   int             `json:"reached"` // tokens that came there
	Completed int             `json:"completed"`
	Failed    int             `json:"failed"` // timed out included
	Cancelled int             `json:"cancelled"`

	Choices []ChoiceCoverage `json:"choices,omitempty"` // of a node where an expression chooses, in the order of its list
}

// A ChoiceCoverage counts how often an expression chose a task type or a subworkflow.
type ChoiceCoverage struct {
	Name   string `json:"name"`
	Chosen int    `json:"chosen"`
}

// A TransitionCoverage counts how often a transition was taken.
type TransitionCoverage struct {
	Transition workflow.TransitionID `json:"transition"`
	Node       workflow.NodeID       `json:"node"`            // that it leaves
	Tier       int                   `json:"tier"`            // its priority
	Error      bool                  `json:"error,omitempty"` // its tier is one for failures
	Taken      int                   `json:"taken"`
	Branches   int                   `json:"branches,omitempty"` // that it made
	Empty      int                   `json:"empty,omitempty"`    // fan-outs without a branch
	fans       bool
	always     bool // it is in a tier for completions as well as in one for failures
}

// A JoinCoverage counts how the joins of a sibling group were decided, or those of a node.
type JoinCoverage struct {
	Group     string          `json:"group,omitempty"`
	Node      workflow.NodeID `json:"node"` // where the join leads, or that has it
	Fired     int             `json:"fired"`
	Shortfall int             `json:"shortfall,omitempty"` // of these, with fewer than the quorum
	TimedOut  int             `json:"timedOut,omitempty"`  // fired or failed because its time was up
	Failed    int             `json:"failed,omitempty"`
	Abandoned int             `json:"abandoned,omitempty"` // every branch ended by choice
	times     bool            // it has a timeout
}

// Add adds a run. An error says that it cannot be read: it may be counted in part.
func (c *Coverage) Add(rec *Recording) (err error) {
	defer rec.explainPanic(&err)
	p := newPlayer(rec)
	next := workflow.TokenID(1)
	var d *DefinitionCoverage
	counted := map[string]bool{}
	for r, err := range rec.eachRecord() {
		if err != nil {
			return err
		}
		step, err := p.playRecord(&r)
		if err != nil {
			return err
		}
		d = c.coverageOf(p.state.Graph)
		if !counted[d.Hash] {
			counted[d.Hash] = true
			d.Runs++
		}
		for ; next < p.state.NextToken; next++ {
			if n := d.nodes[p.state.Token(next).Node]; n != nil {
				n.Reached++
			}
		}
		for _, route := range step.routes {
			for _, id := range route.Transitions {
				if t := d.transitions[id]; t != nil {
					t.Taken++
				}
			}
		}
		for _, x := range r.Decisions {
			d.count(p.state, x)
		}
	}
	for id := workflow.TokenID(1); id < next; id++ {
		t := p.state.Token(id)
		if n := d.nodes[t.Node]; n != nil && t.Status == workflow.Cancelled {
			n.Cancelled++
		}
	}
	return nil
}

// count counts a decision, which s has seen.
func (d *DefinitionCoverage) count(s *state.State, x decision.Decision) {
	if id, _ := endOfStay(x); id != 0 {
		if n := d.nodes[s.Token(id).Node]; n != nil {
			countEnd(n, x)
		}
		return
	}
	switch x := x.(type) {
	case decision.DispatchTask:
		if x.Evaluated && x.Attempt == 1 {
			d.noteChoice(s, x.Token, x.Task)
		}
	case decision.StartChild:
		if x.Attempt == 1 {
			d.noteChoice(s, x.Token, x.Chosen)
		}
	case decision.RenewInput:
		d.noteChoice(s, x.Token, x.Chosen)
	case decision.CreateBranches:
		d.countBranches(&x.Group)
	case decision.FireGroup:
		if j := d.joinOf(s, x.Group); j != nil {
			j.Fired++
			j.noteCause(x.Shortfall, x.TimedOut)
		}
	case decision.FailGroup:
		if j := d.joinOf(s, x.Group); j != nil {
			j.Failed++
			j.noteCause(x.Shortfall, x.TimedOut)
		}
	case decision.AbandonGroup:
		if j := d.joinOf(s, x.Group); j != nil {
			j.Abandoned++
		}
	case decision.FireJoin:
		if j := d.joins[joinKey("", x.Node)]; j != nil {
			j.Fired++
		}
	default: // is counted elsewhere, or not at all
	}
}

func countEnd(n *NodeCoverage, x decision.Decision) {
	switch x.(type) {
	case decision.CancelToken: // counted in the end, with those that the end of something cancelled
	case decision.FailToken, decision.ExpireToken:
		n.Failed++
	default:
		n.Completed++
	}
}

// noteChoice counts what an expression has chosen for a token.
func (d *DefinitionCoverage) noteChoice(s *state.State, id workflow.TokenID, name string) {
	n := d.nodes[s.Token(id).Node]
	if n == nil {
		return
	}
	if i := slices.IndexFunc(n.Choices, func(c ChoiceCoverage) bool { return c.Name == name }); i >= 0 {
		n.Choices[i].Chosen++
	}
}

func (d *DefinitionCoverage) countBranches(g *state.Group) {
	for _, spawn := range g.Spawns {
		t := d.transitions[spawn.Transition]
		if t == nil {
			continue
		}
		if t.Branches += spawn.Count; spawn.Count == 0 {
			t.Empty++
		}
	}
}

func (d *DefinitionCoverage) joinOf(s *state.State, id workflow.GroupID) *JoinCoverage {
	g := s.Group(id)
	spec := d.graph.Groups[g.Name]
	if spec == nil {
		return nil
	}
	return d.joins[joinKey(g.Name, spec.To)]
}

func (j *JoinCoverage) noteCause(shortfall, timedOut bool) {
	if timedOut {
		j.TimedOut++
	} else if shortfall {
		j.Shortfall++
	}
}

func joinKey(group string, node workflow.NodeID) string { return group + "\x00" + string(node) }

// coverageOf returns what is counted of a definition.
func (c *Coverage) coverageOf(g *workflow.Graph) *DefinitionCoverage {
	if d := c.byHash[g.Hash]; d != nil {
		return d
	}
	d := &DefinitionCoverage{
		Workflow: g.Definition.Name, Version: max(g.Definition.Version, 1), Hash: g.Hash, graph: g,
		nodes: map[workflow.NodeID]*NodeCoverage{}, transitions: map[workflow.TransitionID]*TransitionCoverage{}, joins: map[string]*JoinCoverage{},
	}
	for i := range g.Definition.Nodes {
		n := g.Node(g.Definition.Nodes[i].ID)
		d.nodes[n.ID] = &NodeCoverage{Node: n.ID}
		for _, name := range n.Choices() {
			d.nodes[n.ID].Choices = append(d.nodes[n.ID].Choices, ChoiceCoverage{Name: name})
		}
		if n.Join == workflow.JoinAll || n.Join == workflow.JoinSynchronize {
			d.joins[joinKey("", n.ID)] = &JoinCoverage{Node: n.ID}
		}
		for _, t := range n.Outgoing {
			_, succeeds := tierOf(g, n.ID, t.ID, false)
			x := &TransitionCoverage{Transition: t.ID, Node: n.ID, Tier: t.Priority, Error: !succeeds, fans: t.Fans(), always: t.Outcome == workflow.OnAlways}
			d.transitions[t.ID] = x
		}
	}
	for name, spec := range g.Groups {
		if spec.Sync != nil {
			d.joins[joinKey(name, spec.To)] = &JoinCoverage{Group: name, Node: spec.To, times: spec.Sync.Timeout > 0}
		}
	}
	if c.byHash == nil {
		c.byHash = map[string]*DefinitionCoverage{}
	}
	c.byHash[g.Hash] = d
	return d
}

// Definitions returns what was counted, by workflow, version and hash.
func (c *Coverage) Definitions() []*DefinitionCoverage {
	var out []*DefinitionCoverage
	for _, d := range c.byHash {
		out = append(out, d)
		d.listCounts()
	}
	slices.SortFunc(out, func(a, b *DefinitionCoverage) int {
		return cmp.Or(cmp.Compare(a.Workflow, b.Workflow), cmp.Compare(a.Version, b.Version), cmp.Compare(a.Hash, b.Hash))
	})
	return out
}

// listCounts brings the counts into definition order.
func (d *DefinitionCoverage) listCounts() {
	d.Nodes, d.Transitions, d.Joins = nil, nil, nil
	for i := range d.graph.Definition.Nodes {
		id := d.graph.Definition.Nodes[i].ID
		d.Nodes = append(d.Nodes, *d.nodes[id])
		if j := d.joins[joinKey("", id)]; j != nil {
			d.Joins = append(d.Joins, *j)
		}
		for _, t := range d.graph.Node(id).Outgoing {
			d.Transitions = append(d.Transitions, *d.transitions[t.ID])
		}
	}
	var groups []JoinCoverage
	for _, j := range d.joins {
		if j.Group != "" {
			groups = append(groups, *j)
		}
	}
	slices.SortFunc(groups, func(a, b JoinCoverage) int { return cmp.Compare(a.Group, b.Group) })
	d.Joins = append(d.Joins, groups...)
}

// Never lists what no run went through, a line each: nodes, what their expressions may choose,
// transitions, whole tiers, joins and branches, in definition order. What leaves a node that was never reached goes without
// saying.
func (d *DefinitionCoverage) Never() (out []string) {
	if d.graph == nil {
		return nil
	}
	if len(d.Nodes) == 0 {
		d.listCounts()
	}
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	for i := range d.Nodes {
		n := &d.Nodes[i]
		if n.Reached == 0 {
			add("node %s was never reached", n.Node)
			continue
		}
		for _, c := range n.Choices {
			if c.Chosen == 0 {
				add("node %s never chose %s", n.Node, c.Name)
			}
		}
		d.addTiers(n, add)
	}
	for i := range d.Joins {
		switch j := &d.Joins[i]; {
		case j.Group == "" && d.nodes[j.Node].Reached > 0 && j.Fired == 0:
			add("the join of node %s never fired", j.Node)
		case j.Group != "" && j.Fired == 0 && j.Failed+j.Abandoned > 0:
			add("the join of %s at %s never fired", j.Group, j.Node)
		case j.Group != "" && j.Fired == 0:
			add("the join of %s at %s was never decided", j.Group, j.Node)
		case j.times && j.TimedOut == 0:
			add("the join of %s at %s never timed out", j.Group, j.Node)
		}
	}
	return out
}

// addTiers adds the transitions and tiers of a node that were never taken, and the fan-outs
// that never had a branch.
func (d *DefinitionCoverage) addTiers(n *NodeCoverage, add func(string, ...any)) {
	g := d.graph.Node(n.Node)
	for i, tiers := range [][][]*workflow.GraphTransition{g.Success, g.Failure} {
		word := ""
		if i == 1 {
			word = "error "
		}
		for _, tier := range tiers {
			number, never := tier[0].Priority, 0
			for _, t := range tier {
				if d.transitions[t.ID].Taken == 0 {
					never++
				}
			}
			if never == len(tier) && len(tier) > 1 {
				add("no transition of %stier %d of node %s was ever taken", word, number, n.Node)
				continue
			}
			for _, t := range tier {
				x := d.transitions[t.ID]
				switch {
				case x.Taken == 0 && (!x.always || i == 0):
					add("transition %s [%stier %d] was never taken", t.ID, word, number)
				case x.Taken > 0 && x.fans && x.Branches == 0 && i == 0:
					add("transition %s never made a branch", t.ID)
				}
			}
		}
	}
}
