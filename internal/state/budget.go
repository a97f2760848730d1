package state

import (
	"github.com/pawl-run/pawl/internal/amount"
	"github.com/pawl-run/pawl/workflow"
)

// MetaLimits returns what the run and all below it may report together, by name: by its definition, or by its start or
// an operator in place of that. It is nil for a run without such limits.
func (s *State) MetaLimits() amount.Sums {
	if len(s.OwnLimits) == 0 && len(s.Graph.Limits.Meta) == 0 {
		return nil
	}
	return amount.FromFloats(s.Graph.Limits.Meta).With(s.OwnLimits)
}

// Reserved returns what the attempts that run have set aside together, child runs among them.
func (s *State) Reserved() amount.Sums { return s.reserved }

// BudgetOf returns what the attempt of a token has set aside; nil if none runs. It is given back when the attempt ends,
// however that is: what the attempt has reported is counted then.
func BudgetOf(t *Token) amount.Sums {
	if t == nil || t.Memory == nil || t.Status != workflow.Dispatched && t.Status != workflow.WaitingForChild {
		return nil
	}
	return t.Memory.Budget
}

// moveBudget brings what is reserved up to date when t replaces old.
func (s *State) moveBudget(old, t *Token) {
	was, is := BudgetOf(old), BudgetOf(t)
	if len(was) == 0 && len(is) == 0 || len(was) == len(is) && &was[0] == &is[0] {
		return
	}
	s.reserved = s.reserved.Minus(was).Plus(is)
}
