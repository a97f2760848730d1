package replay

import (
	"slices"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// A Coverage counts what many runs went through, by definition. The zero value is empty.
// byHash has definitions by the hash of their content, so that runs of equal definitions count
// together, whatever they are called.
type Coverage struct {
	byHash map[string]*DefinitionCoverage
}

// A DefinitionCoverage counts what the runs of one definition went through. A definition that
// a patch has made counts apart.
//
// The lists are what Definitions hands out; Definitions makes them anew from the maps, in which Add
// counts. A value that was decoded from JSON has the lists alone, and Never finds nothing in it.
type DefinitionCoverage struct {
	Workflow    string               `json:"workflow"`
	Version     int                  `json:"version"`
	Hash        string               `json:"hash"`
	Runs        int                  `json:"runs"`
	Nodes       []NodeCoverage       `json:"nodes"`       // in definition order
	Transitions []TransitionCoverage `json:"transitions"` // in definition order
	Joins       []JoinCoverage       `json:"joins,omitempty"`

	graph       *compiled.Graph
	nodes       map[workflow.NodeID]*NodeCoverage
	transitions map[workflow.TransitionID]*TransitionCoverage
	joins       map[string]*JoinCoverage
}

// A NodeCoverage counts the stays at a node, by their end.
// A token that lives when its run is recorded is reached and nothing else, so that Reached may be more
// than the sum of the others. A cancelled token counts under Cancelled only after the last record.
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
// Taken counts choices of the transition: one fan-out into ten branches is taken once and has ten
// Branches. A fan-out over an empty list is taken, makes no branch and counts under Empty.
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
// Group is "" for the join of a node (all or synchronize), where Fired alone counts. A decision by
// time-out counts in TimedOut only, even if it is a shortfall as well.
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
//
// The run counts under each definition that it had in turn: a patch changes the graph of its state,
// and what follows counts under the new one. A planner that decides otherwise today is no error here:
// what is counted are the recorded decisions; only the transitions come from planning again, since no
// decision names them.
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
		// The record was applied before this, so a record that is a patch counts under the definition
		// that it makes.
		d = c.coverageOf(p.state.Graph)
		if !counted[d.Hash] {
			counted[d.Hash] = true
			d.Runs++
		}
		// Ids of tokens are given out in sequence and never again, so every token is seen once, when it
		// is new.
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
	// A token is cancelled by a decision of its own, or with the group or the run around it, which
	// names no token; the statuses at the end have both.
	for id := workflow.TokenID(1); id < next; id++ {
		t := p.state.Token(id)
		if n := d.nodes[t.Node]; n != nil && t.Status == workflow.Cancelled {
			n.Cancelled++
		}
	}
	return nil
}

// count counts a decision, which s has seen.
// The tokens and groups that the decision names must be in s. Choices count at the first attempt only,
// or every retry would count as a choice; RenewInput is an operator's retry that evaluates again.
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

// countEnd counts the end of a stay. endOfStay yields few types of decisions: what neither fails nor
// cancels completes, also one that goes on to wait for its siblings.
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
//
// Only names that the definition lists are counted, since Never asks which of these were not chosen; a
// node without an expression has none.
func (d *DefinitionCoverage) noteChoice(s *state.State, id workflow.TokenID, name string) {
	n := d.nodes[s.Token(id).Node]
	if n == nil {
		return
	}
	if i := slices.IndexFunc(n.Choices, func(c ChoiceCoverage) bool { return c.Name == name }); i >= 0 {
		n.Choices[i].Chosen++
	}
}

// countBranches counts the branches of a new group by the transition that spawned them. Several
// transitions of one tier may spawn into one group.
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

// joinOf returns the counts of the join of a group; nil if the definition has no such group, or it has
// no join. A patch may have removed it while the group was open.
func (d *DefinitionCoverage) joinOf(s *state.State, id workflow.GroupID) *JoinCoverage {
	g := s.Group(id)
	spec := d.graph.Groups[g.Name]
	if spec == nil {
		return nil
	}
	return d.joins[joinKey(g.Name, spec.To)]
}

// noteCause counts why a join fired or failed before all branches had arrived. A join that times out
// mostly falls short as well: the time-out is the cause.
func (j *JoinCoverage) noteCause(shortfall, timedOut bool) {
	if timedOut {
		j.TimedOut++
	} else if shortfall {
		j.Shortfall++
	}
}

// joinKey names a join within its definition: that of a sibling group by name and target, that of a
// node with the group "". A zero byte parts them, so that no two joins are alike.
func joinKey(group string, node workflow.NodeID) string { return group + "\x00" + string(node) }

// coverageOf returns what is counted of a definition.
//
// It lists all nodes, transitions, joins and choices with a count of 0 when it first sees the
// definition: what is never counted must be there to be told. always marks a transition that stands in
// a tier for completions and in one for failures.
func (c *Coverage) coverageOf(g *compiled.Graph) *DefinitionCoverage {
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
		for _, name := range state.ChoicesOf(n.Node) {
			d.nodes[n.ID].Choices = append(d.nodes[n.ID].Choices, ChoiceCoverage{Name: name})
		}
		if g.Definition.Mode != workflow.ModeDAG && (n.Join == workflow.JoinAll || n.Join == workflow.JoinSynchronize) {
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
