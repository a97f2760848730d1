package build

import "github.com/pawl-run/pawl/workflow"

// A Transition leaves a node. Its methods say more of it, and return it; those of its node go on with the node:
//
//	b.Gateway("check").To("pay").When("input.cents > 0").Else("ship")
type Transition struct {
	Node     // that it leaves
	t    int // its place in the definition; -1 is in none
}

// ID names the transition, in place of FROM->TO.
func (t Transition) ID(id workflow.TransitionID) Transition {
	return t.setPart("id", func(w *workflow.Transition) { w.ID = id })
}

// When sets the condition, a boolean expression.
func (t Transition) When(condition string) Transition {
	return t.setSource("condition", condition, func(w *workflow.Transition) { w.Condition = condition })
}

// Tier sets the priority: of the transitions of a node, those of the lowest tier with a match are followed.
func (t Transition) Tier(n int) Transition {
	return t.setPart("priority", func(w *workflow.Transition) { w.Priority = n })
}

// ForEach makes a branch for each element of a list, which is item, and as if that is not "".
func (t Transition) ForEach(collection, as string) Transition {
	return t.setSource("foreach.collection", collection, func(w *workflow.Transition) {
		w.Foreach = &workflow.Foreach{Collection: collection, As: as}
	})
}

// Spawn makes n branches.
func (t Transition) Spawn(n int) Transition {
	return t.setPart("spawnCount", func(w *workflow.Transition) { w.SpawnCount = n })
}

// InGroup names the group that the branches form.
func (t Transition) InGroup(name string) Transition {
	return t.setPart("siblingGroup", func(w *workflow.Transition) { w.SiblingGroup = name })
}

// AtOnce bounds how many branches of the group run at once.
func (t Transition) AtOnce(n int) Transition {
	return t.setPart("maxConcurrency", func(w *workflow.Transition) { w.MaxConcurrency = n })
}

// Open lets the group take further branches until it is closed.
func (t Transition) Open() Transition {
	return t.setPart("open", func(w *workflow.Transition) { w.Open = true })
}

// Loop bounds how often a thread of execution takes the transition.
func (t Transition) Loop(most int) Transition {
	return t.setPart("loop", func(w *workflow.Transition) { w.Loop = &workflow.Loop{MaxIterations: most} })
}

// Joins lets the branches of a group meet here, and go on as one token. [Builder.Group] says how; without it all of them meet, and nothing is
// merged.
func (t Transition) Joins(group string) Transition {
	return t.setPart("synchronization", func(w *workflow.Transition) {
		y := &workflow.Synchronization{SiblingGroup: group}
		if w.Synchronization != nil { // Source came first
			y.Merge = w.Synchronization.Merge
		}
		w.Synchronization = y
	})
}

// Source sets the expression of the value that a branch joining here contributes, if it differs from that of the group.
func (t Transition) Source(expression string) Transition {
	return t.setSource("synchronization.merge.source", expression, func(w *workflow.Transition) {
		y := workflow.Synchronization{Merge: &workflow.Merge{Source: expression}}
		if w.Synchronization != nil {
			y.SiblingGroup = w.Synchronization.SiblingGroup
		}
		w.Synchronization = &y
	})
}

// setPart lets a call say something of the transition.
func (t Transition) setPart(field string, set func(w *workflow.Transition)) Transition {
	if t.b != nil && t.t >= 0 && t.t < len(t.b.definition.Transitions) && t.b.notePlace(partOfTransition(t.t), field) {
		set(&t.b.definition.Transitions[t.t])
	}
	return t
}

func (t Transition) setSource(field, source string, set func(w *workflow.Transition)) Transition {
	return t.setPart(field, func(w *workflow.Transition) {
		set(w)
		t.b.checkSource(partOfTransition(t.t), field, source)
	})
}
