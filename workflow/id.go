package workflow

import "strconv"

// A TokenID identifies a token within its run. Ids are dense from 1 and
// allocated by the planner in creation order.
type TokenID int64

// String returns the text form, t7.
func (id TokenID) String() string { return "t" + strconv.FormatInt(int64(id), 10) }

// A GroupID identifies one occurrence of a fan-out within its run: dense from
// 1, in creation order. 0 is the run itself, outside any group.
type GroupID int64

// String returns the text form, g2.
func (id GroupID) String() string { return "g" + strconv.FormatInt(int64(id), 10) }

// A Scope names one branch of one group: where data is visible and what a
// token belongs to. The zero Scope is the run itself.
type Scope struct {
	Group  GroupID `json:"group,omitzero"`
	Branch int     `json:"branch,omitzero"` // counts from 0
}

// String returns the text form: root, or g2:5.
func (s Scope) String() string {
	if s.Group == 0 {
		return "root"
	}
	return s.Group.String() + ":" + strconv.Itoa(s.Branch)
}
