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
const (
	shownGroups  = 12
	listedGroups = 200
	cellsTokens  = 200_000 // of a run whose branches are told apart
	branchesPage = 100
	stripCells   = 200
	linkedCells  = 400 // up to which each cell of a group is a link
)

// A groupRow is a fan-out.
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
type cell struct {
	Class    string
	X, Width int
}

// A branches is how the branches of a group stand.
type branches struct {
	group    *pawl.Group
	standing []standing // by branch; standings for those that have no token yet
	token    []workflow.TokenID
}

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
func (v *viewer) branchesOf(groups []pawl.Group) (map[workflow.GroupID]*branches, error) {
	out := map[workflow.GroupID]*branches{}
	for i := range groups {
		g := &groups[i]
		b := &branches{group: g, standing: make([]standing, g.Total), token: make([]workflow.TokenID, g.Total)}
		for k := range b.standing {
			b.standing[k] = standings
		}
		out[g.ID] = b
	}
	live := map[workflow.GroupID][]bool{}
	for id, b := range out {
		live[id] = make([]bool, b.group.Total)
	}
	scopes := []workflow.Scope{{}} // by token: the innermost branch of these groups that it is in
	for t, err := range v.s.engine.Tokens(v.ctx, v.id, pawl.TokenFilter{}) {
		if err != nil {
			return nil, err
		}
		if len(scopes) > cellsTokens {
			return nil, nil
		}
		for len(scopes) <= int(t.ID) {
			scopes = append(scopes, workflow.Scope{})
		}
		in := v.enclosingBranch(out, scopes, &t)
		scopes[t.ID] = in
		for in.Group != 0 {
			b := out[in.Group]
			if in.Branch < len(b.standing) {
				b.addToken(in.Branch, &t, live[in.Group])
			}
			in = v.outerBranch(out, scopes, b.group)
		}
	}
	return out, nil
}

// enclosingBranch returns the innermost branch of the groups that a token is in.
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

// outerBranch returns the branch that a group is in, of the groups that are known.
func (v *viewer) outerBranch(known map[workflow.GroupID]*branches, scopes []workflow.Scope, g *pawl.Group) workflow.Scope {
	if known[g.Scope.Group] != nil {
		return g.Scope
	}
	if g.Scope.Group != 0 && int(g.Origin) < len(scopes) {
		return scopes[g.Origin]
	}
	return workflow.Scope{}
}

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

func hasAll(known map[workflow.GroupID]*branches, groups []pawl.Group) bool {
	return !slices.ContainsFunc(groups, func(g pawl.Group) bool { return known[g.ID] == nil })
}

// groupRows shows groups with a strip of cells each.
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
func (v *viewer) findGroup() (*pawl.Group, error) {
	text, _, _ := strings.Cut(v.r.URL.Query().Get("group"), "?") // what follows is a place in the picture
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return nil, errNoPage
	}
	for i := range v.ov.Groups {
		if v.ov.Groups[i].ID == workflow.GroupID(id) {
			return &v.ov.Groups[i], nil
		}
	}
	snapshot, err := v.s.engine.Inspect(v.ctx, v.id)
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

// viewGroups lists the fan-outs of a run, those that gather first.
func (v *viewer) viewGroups() (any, error) {
	snapshot, err := v.s.engine.Inspect(v.ctx, v.id)
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
