package state

import (
	"github.com/pawl-run/pawl/internal/pace"
	"github.com/pawl-run/pawl/workflow"
)

// branchRows are the rows of branches in which something has happened. A row is immutable. In a State they are dense, by
// the branch, as the branches of a group are numbered from 0; an overlay holds those that it changed.
type branchRows struct {
	dense map[workflow.GroupID][]*Branch // without base
	own   map[workflow.Scope]*Branch     // with base
}

// branchRow returns the row of a branch, here or beneath; nil if it has none: nothing has happened to it, nor is it
// being restored.
func (s *State) branchRow(sc workflow.Scope) *Branch {
	for s.base != nil {
		if b := s.branches.own[sc]; b != nil {
			return b
		}
		s = s.base
	}
	if rows := s.branches.dense[sc.Group]; sc.Branch >= 0 && sc.Branch < len(rows) {
		return rows[sc.Branch]
	}
	return nil
}

// putBranch replaces the row of a branch. From then on the branch is no longer derived from its first token.
func (s *State) putBranch(sc workflow.Scope, b Branch) {
	if s.base != nil {
		if s.branches.own == nil {
			s.branches.own = map[workflow.Scope]*Branch{}
		}
		s.branches.own[sc] = &b
		return
	}
	if s.branches.dense == nil {
		s.branches.dense = map[workflow.GroupID][]*Branch{}
	}
	rows := s.branches.dense[sc.Group]
	for sc.Branch >= len(rows) {
		rows = pace.Push(rows, nil)
	}
	rows[sc.Branch] = &b
	s.branches.dense[sc.Group] = rows
}
