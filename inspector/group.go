package inspector

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/diagram"
	"github.com/pawl-run/pawl/workflow"
)

// The bounds of what is shown of fan-outs.
// branchesOf reads all tokens of a run, so for a run of more than cellsTokens only the numbers of a group are shown.
const (
	shownGroups  = 12
	listedGroups = 200
	cellsTokens  = 200_000 // of a run whose branches are told apart
	branchesPage = 100
	stripCells   = 200
	linkedCells  = 400 // up to which each cell of a group is a link
)

// A groupRow is a fan-out.
//
// Counts and Strip show the branches one by one if they are known; else Counts come from the numbers of the group, and there is no Strip.
type groupRow struct {
	ID      workflow.GroupID
	Name    string
	Node    workflow.NodeID
	Branch  string // that it is in
	Href    string
	Phase   string
	Total   int
	Arrived int
	Counts  []count // of branches
	Strip   []cell
	Due     instant
}

// A cell is a run of neighbours in a strip that look the same.
//
// X and Width are in a strip that is 1,000 wide.
type cell struct {
	Class    string
	X, Width int
}

// A branches is how the branches of a group stand.
//
// Both slices are by branch, counted from 0, with an element for each. token is the token by which the branch stands: the most pressing
// live one, else the last; 0 for a branch without tokens. A branches is not changed once branchesOf has returned it, as viewers may share
// it.
type branches struct {
	group    *pawl.Group
	standing []standing // by branch; standings for those that have no token yet
	token    []workflow.TokenID
}

// tally counts branches; branches that have not begun count as waiting, since for people both are yet to come.
func (b *branches) tally() (t tally) {
	for _, s := range b.standing {
		if s == standings {
			s = waiting
		}
		t[s]++
	}
	return t
}

// branchesOf tells how the branches of some groups stand: each as the most pressing of its live
// tokens, or as its last one. It looks at all tokens of the run once.
//
// A token counts in its branch, and in all branches around that one of the groups that are asked about: a failure deep within a nested
// fan-out makes the outer branch red as well. The result is nil, without an error, if the run has too many tokens.
func (v *viewer) branchesOf(groups []pawl.Group) (map[workflow.GroupID]*branches, error) {
	out := map[workflow.GroupID]*branches{}
	for i := range groups {
		g := &groups[i]
		// Branches that have no token yet are not told by any: they are so from the beginning.
		b := &branches{group: g, standing: make([]standing, g.Total), token: make([]workflow.TokenID, g.Total)}
		for k := range b.standing {
			b.standing[k] = standings
		}
		out[g.ID] = b
	}
	// live says which branches have a live token: the tokens that have ended do not count for these.
	live := map[workflow.GroupID][]bool{}
	for id, b := range out {
		live[id] = make([]bool, b.group.Total)
	}
	scopes := []workflow.Scope{{}} // by token: the innermost branch of these groups that it is in
	for t, err := range v.s.engine.Tokens(v.ctx, v.id, pawl.TokenFilter{}) {
		if err != nil {
			return nil, err
		}
		if len(scopes) > v.s.tokens {
			return nil, nil
		}
		// Tokens come by id, parents before what they have made, so the scope of the parent is known.
		for len(scopes) <= int(t.ID) {
			scopes = append(scopes, workflow.Scope{})
		}
		// From the innermost branch outwards, the token counts in each.
		in := v.enclosingBranch(out, scopes, &t)
		scopes[t.ID] = in
		for in.Group != 0 {
			b := out[in.Group]
			// A branch may have been added since the group was read.
			if in.Branch < len(b.standing) {
				b.addToken(in.Branch, &t, live[in.Group])
			}
			in = v.outerBranch(out, scopes, b.group)
		}
	}
	return out, nil
}

// enclosingBranch returns the innermost branch of the groups that a token is in.
//
// If the group of its own scope is not asked about, it is where its parent was, unless it has left that branch by a join: then it is in a
// branch further out. The zero Scope is the run itself.
func (v *viewer) enclosingBranch(known map[workflow.GroupID]*branches, scopes []workflow.Scope, t *pawl.Token) workflow.Scope {
	if t.Scope.Group == 0 {
		return workflow.Scope{}
	}
	if known[t.Scope.Group] != nil {
		return t.Scope
	}
	if t.Parent <= 0 || int(t.Parent) >= len(scopes) {
		return workflow.Scope{}
	}
	in := scopes[t.Parent]
	for in.Group != 0 && known[in.Group].group.Scope == t.Scope { // it has left that group
		in = v.outerBranch(known, scopes, known[in.Group].group)
	}
	return in
}

// outerBranch returns the branch of a known group that a group is in.
//
// Where the group around it is not known, the token from which the group was made tells where that was.
func (v *viewer) outerBranch(known map[workflow.GroupID]*branches, scopes []workflow.Scope, g *pawl.Group) workflow.Scope {
	if known[g.Scope.Group] != nil {
		return g.Scope
	}
	if g.Scope.Group != 0 && int(g.Origin) < len(scopes) {
		return scopes[g.Origin]
	}
	return workflow.Scope{}
}

// addToken lets a token count in branch i. A live token counts more than any that has ended, and a more pressing one more than another
// live one; if all have ended the last one counts.
func (b *branches) addToken(i int, t *pawl.Token, live []bool) {
	s := diagram.StandingOf(t.Status)
	if t.Status == workflow.Pending && !live[i] { // it has not begun
		s = standings
	}
	switch {
	case t.Live() && (!live[i] || s < b.standing[i]):
		b.standing[i], b.token[i], live[i] = s, t.ID, true
	case !t.Live() && !live[i]:
		b.standing[i], b.token[i] = s, t.ID
	}
}

// A keptBranches is how the branches of a run stood.
//
// It belongs to one life of a run, and mu guards all of it. mu is held while the tokens are read, so that several pages of a run read them
// once.
type keptBranches struct {
	mu    sync.Mutex
	known map[workflow.GroupID]*branches
	at    time.Time // when they were looked at
	seen  int64     // the record of the run after which they were last shown
}

// How a page that is watched looks at many branches: to look at all of them makes garbage for the whole process.
const (
	manyBranches   = 2000
	branchesWithin = 4 * time.Second // how old they may be while the run moves
)

// keptBranchesOf is branchesOf; in the frames of a run that moves and has many branches they may be older.
//
// A frame that shows older ones says so by stale: then another frame follows when the run rests, which has what is true. Pages that are not
// frames are asked for by a reader, and are never older.
func (v *viewer) keptBranchesOf(groups []pawl.Group) (map[workflow.GroupID]*branches, error) {
	all := 0
	for i := range groups {
		all += groups[i].Total
	}
	if !v.framed || all <= manyBranches {
		return v.branchesOf(groups)
	}
	life := v.lifeOf()
	kept, ok := v.s.strips.find(life)
	if !ok {
		kept = v.s.strips.keepValue(life, &keptBranches{})
	}
	kept.mu.Lock()
	defer kept.mu.Unlock()
	// Shown again at the same record: the run has not moved since the last frame, and this one is to be right.
	rests := kept.seen == v.ov.Seq || v.ov.Status.Final()
	kept.seen = v.ov.Seq
	if kept.known != nil && !rests && v.now.Sub(kept.at) < branchesWithin && hasAll(kept.known, groups) {
		v.stale = true
		return kept.known, nil
	}
	known, err := v.branchesOf(groups)
	if err == nil {
		kept.known, kept.at = known, v.now
	}
	return known, err
}

// hasAll reports whether all groups are among those that are known: a fan-out that has just begun is not.
func hasAll(known map[workflow.GroupID]*branches, groups []pawl.Group) bool {
	return !slices.ContainsFunc(groups, func(g pawl.Group) bool { return known[g.ID] == nil })
}

// groupRows shows groups with a strip of cells each.
//
// It looks at the tokens once for all groups, and not at all if there are none.
func (v *viewer) groupRows(groups []pawl.Group) (rows []groupRow, err error) {
	var known map[workflow.GroupID]*branches
	if len(groups) > 0 {
		if known, err = v.keptBranchesOf(groups); err != nil {
			return nil, err
		}
	}
	for i := range groups {
		g := &groups[i]
		row := groupRow{
			ID: g.ID, Name: cmp.Or(g.Name, g.ID.String()), Node: g.Node, Href: v.groupLink(g.ID), Phase: g.Phase.String(), Total: g.Total, Arrived: g.Arrived, Due: v.instantOf(g.Due),
		}
		if g.Scope.Group != 0 {
			row.Branch = g.Scope.String()
		}
		if b := known[g.ID]; b != nil {
			row.Counts, row.Strip = b.tally().Counts(), b.cellStrip()
		} else {
			// There are too many tokens: the numbers that the engine keeps for each group have to do.
			t := tally{done: g.Arrived + g.Ended, failed: g.Failed, running: g.Running}
			t[waiting] = g.Total - t.Total()
			row.Counts = t.Counts()
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// cellStrip returns at most stripCells cells, each as the most pressing of its share, and those
// that are alike together.
//
// With 10,000 branches each cell stands for 50, and is red if one of these has failed. Up to 60 cells stand apart, with a gap behind each;
// more are bands of colour.
func (b *branches) cellStrip() (cells []cell) {
	n := len(b.standing)
	k := min(n, stripCells)
	for i := range k {
		worst := standings
		for _, s := range b.standing[i*n/k : (i+1)*n/k] {
			worst = min(worst, s)
		}
		x, end := i*1000/k, (i+1)*1000/k
		if last := len(cells) - 1; k > 60 && last >= 0 && cells[last].Class == worst.String() {
			cells[last].Width = end - cells[last].X
			continue
		}
		gap := 0
		if k <= 60 && end-x > 4 {
			gap = 3
		}
		cells = append(cells, cell{worst.String(), x, end - x - gap})
	}
	return cells
}

// findGroup returns a group of the run: one that gathers from its numbers, else from its state.
//
// The overview only has groups that gather; to find another one the state of the run is read, which costs more.
func (v *viewer) findGroup() (*pawl.Group, error) {
	text, _, _ := strings.Cut(v.r.URL.Query().Get("group"), "?") // what follows is a place in the picture
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return nil, errNoPage
	}
	for i := range v.ov.Groups {
		// It gathers still: its numbers are in the overview.
		if v.ov.Groups[i].ID == workflow.GroupID(id) {
			return &v.ov.Groups[i], nil
		}
	}
	snapshot, err := v.snapshot(v.ctx, v.id)
	if err != nil {
		return nil, err
	}
	for i := range snapshot.Groups {
		if snapshot.Groups[i].ID == workflow.GroupID(id) {
			return &snapshot.Groups[i], nil
		}
	}
	return nil, errNoPage
}

// viewGroups lists the fan-outs of a run, by id, whether or not they gather still.
//
// More counts those that are not listed.
func (v *viewer) viewGroups() (any, error) {
	snapshot, err := v.snapshot(v.ctx, v.id)
	if err != nil {
		return nil, err
	}
	groups := snapshot.Groups
	more := max(len(groups)-listedGroups, 0)
	rows, err := v.groupRows(groups[:len(groups)-more])
	return struct {
		Groups []groupRow
		More   int
	}{rows, more}, err
}
