package workflow

// unsupported are the features of the format that the engine does not run yet.
// A definition with one of them is parsed, written and checked like any other,
// and then refused.
var unsupported = []struct {
	field, feature string
	definition     func(*Definition) bool
	node           func(*Node) bool
	transition     func(*Transition) bool
}{
	{field: "mode", feature: "mode: dag", definition: func(d *Definition) bool { return d.Mode == ModeDAG }},
	{field: "subworkflow", feature: "subworkflow", node: func(n *Node) bool { return n.Subworkflow != nil }},
	{field: "approval", feature: "approval", node: func(n *Node) bool { return n.Approval != nil }},
	{field: "wait.event", feature: "wait for an event", node: func(n *Node) bool { return n.Wait != nil && n.Wait.Event != "" }},
	{field: "wait.any", feature: "wait for any of several", node: func(n *Node) bool { return n.Wait != nil && n.Wait.Any != nil }},
	{field: "lock", feature: "lock", node: func(n *Node) bool { return n.Lock != "" }},
	{field: "join", feature: "join", node: func(n *Node) bool { return n.Join != JoinNone }},
	{field: "cancels", feature: "cancels", node: func(n *Node) bool { return len(n.Cancels) > 0 }},
	{field: "needs", feature: "needs", node: func(n *Node) bool { return len(n.Needs) > 0 }},
	{field: "open", feature: "open", transition: func(t *Transition) bool { return t.Open }},
	{field: "synchronization.remaining", feature: "remaining: block", transition: func(t *Transition) bool {
		return t.Synchronization != nil && t.Synchronization.Remaining == RemainingBlock
	}},
	{field: "synchronization.errors", feature: "errors of a synchronization", transition: func(t *Transition) bool {
		return t.Synchronization != nil && t.Synchronization.Errors != ""
	}},
}

// supported finds features that the engine does not run yet.
func (c *checker) supported() {
	for _, u := range unsupported {
		refuse := func(s site) {
			c.report(s, u.field, ProblemUnsupported, "the engine does not run this feature yet: %s", u.feature)
		}
		if u.definition != nil && u.definition(c.def) {
			refuse(c.atDefinition())
		}
		for i := range c.def.Nodes {
			if u.node != nil && u.node(&c.def.Nodes[i]) {
				refuse(c.atNode(i))
			}
		}
		for i := range c.def.Transitions {
			if u.transition != nil && u.transition(&c.def.Transitions[i]) {
				refuse(c.atTransition(i))
			}
		}
	}
}
