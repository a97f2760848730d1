package planning_test

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/internal/testing/reference"
	"github.com/pawl-run/pawl/workflow"
)

// Any graph, whose tasks end in any order and way, does the same in the planner
// as in the reference interpreter: after every message the same tasks are out,
// the same tokens wait at the same joins, and in the end both say the same.
// It looks at the same graphs every time; with -rapid.checks=N at 4 N others.
func TestReference(t *testing.T) {
	for i := range 4 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			seed, checks := flag.Lookup("rapid.seed"), flag.Lookup("rapid.checks")
			if given := seed.Value.String(); given == seed.DefValue && checks.Value.String() == checks.DefValue {
				require.NoError(t, seed.Value.Set(fmt.Sprint(i+1)))
				t.Cleanup(func() { require.NoError(t, seed.Value.Set(given)) })
			}
			harness.CheckProperty(t, playBoth)
		})
	}
}

func playBoth(t *rapid.T) {
	def := drawGraph(t)
	g, err := compiled.Compile(workflow.Bounds{}, translate(def))
	if err != nil {
		t.Fatalf("%v", err)
	}
	l := &lockstep{player: newPlayer(t, g), ids: map[string]int{}, planned: map[workflow.TokenID]int{}, made: map[*reference.Token]int{}, alike: [2]map[int]int{{}, {}}}
	l.quick = rapid.IntRange(0, 3).Draw(t, "quick") > 0
	l.play(t, def)
	if !l.quick {
		l.replay()
	}
}

// A lockstep plays a run in the planner and in the reference interpreter. A
// token is known in both by where it comes from, and by how many came from there
// before it: ids numbers that.
type lockstep struct {
	*player
	run     *reference.Run
	ids     map[string]int
	planned map[workflow.TokenID]int
	made    map[*reference.Token]int
	alike   [2]map[int]int // tokens that come from the same, so far: of the planner, of the reference
	log     []string
}

// maxEnds bounds the tasks of a run that end before it is cancelled.
const maxEnds = 40

func (l *lockstep) play(t *rapid.T, def *reference.Definition) {
	defer func() {
		if t.Failed() {
			t.Logf("%s\n%s", shown(l.graph.Definition), strings.Join(l.log, "\n"))
		}
	}()
	l.tell(t, state.Start{})
	l.run = reference.New(def)
	failures := rapid.SampledFrom([]int{0, 0, 1, 4}).Draw(t, "failures") // of 16 tasks
	for ends := 0; ; ends++ {
		l.compare()
		out := l.out()
		if l.run.Status != reference.Going {
			return
		}
		if ends == maxEnds || len(out) > 100 {
			l.tell(t, state.Cancel{})
			return
		}
		// which of several groups that one message frees from stragglers comes
		// first is not asked
		if b := (&net{t: t}); len(out) == 0 || !leaves(def, reference.Block) && b.one("operate", 10) {
			l.operate(b)
		} else {
			l.endTask(b, out, failures)
		}
	}
}

// endTask ends a task, in both.
func (l *lockstep) endTask(b *net, out map[int][]workflow.TokenID, failures int) {
	next := rapid.SampledFrom(slices.Sorted(maps.Keys(out))).Draw(b.t, "next")
	tok, other := l.state.Token(out[next][0]), l.of(next)
	result := b.upTo("result", 4) - 1
	if b.upTo("fails", 16) <= failures {
		result = -b.upTo("how", 2)
	}
	switch result {
	case -2:
		code := rapid.SampledFrom([]string{"e1", "e2"}).Draw(b.t, "code")
		l.tell(b.t, state.TaskFailed{Token: tok.ID, Attempt: 1, Epoch: epoch0, Failure: workflow.Failure{Code: code}})
		l.run.Fail(other, code)
	case -1:
		l.tell(b.t, state.TaskCompleted{Token: tok.ID, Attempt: 1, Epoch: epoch0, Output: "text"})
		l.run.Complete(other, result)
	default:
		l.tell(b.t, state.TaskCompleted{Token: tok.ID, Attempt: 1, Epoch: epoch0, Output: int64(result)})
		l.run.Complete(other, result)
	}
}

// operate cancels the tokens at a node, or adds a branch to a group or closes
// it, in both.
func (l *lockstep) operate(b *net) {
	groups := l.run.Gathering()
	if len(groups) == 0 || len(l.out()) > 0 && b.one("cancel", 3) {
		node := b.upTo("node", len(l.graph.Definition.Nodes)) - 1
		err := l.try(state.CancelNodes{Nodes: []workflow.NodeID{graphID(node)}})
		if found := l.run.CancelNodes(node); found != (err == nil) {
			b.t.Fatalf("cancel n%d: %v, the reference says %t", node, err, found)
		}
		return
	}
	g := rapid.SampledFrom(groups).Draw(b.t, "group")
	name, origin := l.addressed(g)
	if b.one("add", 2) {
		l.tell(b.t, state.AddBranch{Group: name, Origin: origin})
		l.run.AddBranch(g)
		return
	}
	l.tell(b.t, state.CloseGroup{Group: name, Origin: origin})
	l.run.CloseGroup(g)
}

// addressed returns the name and the origin of the planner's group that comes
// from the same as one of the reference.
func (l *lockstep) addressed(g *reference.Group) (string, workflow.TokenID) {
	for id := workflow.GroupID(1); id < l.state.NextGroup; id++ {
		x := l.state.Group(id)
		if x.Phase == workflow.Gathering && x.Spawns[0].Transition == edgeID(g.First) && l.planned[x.Origin] == l.made[g.Origin] {
			return x.Name, x.Origin
		}
	}
	panic("the planner has no such group")
}

// shown is a definition, a line each node and transition.
func shown(d *workflow.Definition) string {
	var out strings.Builder
	for i := range d.Nodes {
		line(&out, d.Nodes[i])
	}
	for i := range d.Transitions {
		line(&out, d.Transitions[i])
	}
	return out.String()
}

func line(out *strings.Builder, x any) {
	v := reflect.ValueOf(x)
	for i := range v.NumField() {
		if f := v.Field(i); f.CanInterface() && !f.IsZero() {
			fmt.Fprintf(out, "%s:%+v ", v.Type().Field(i).Name, reflect.Indirect(f))
		}
	}
	out.WriteString("\n")
}

// tell sends a message and learns the tokens that it makes.
func (l *lockstep) tell(t *rapid.T, m state.Message) {
	if err := l.try(m); err != nil {
		t.Fatalf("%#v: %v", m, err)
	}
}

func (l *lockstep) try(m state.Message) error {
	l.log = append(l.log, fmt.Sprintf("%#v", m))
	plan, err := l.send(m)
	if err != nil {
		return err
	}
	l.log = append(l.log, text(decision.Plan{Decisions: plan.Decisions}))
	joined := false
	for _, d := range plan.Decisions {
		if made, ok := d.(decision.CreateToken); ok {
			l.learn(made.Token, joined)
		}
		if made, ok := d.(decision.CreateBranches); ok {
			l.learnBranches(*l.state.Group(made.Group.ID), 0, made.Group.Total)
		}
		if made, ok := d.(decision.AddBranch); ok {
			g := l.state.Group(made.Group)
			l.learnBranches(*g, g.Total-1, g.Total)
		}
		_, joined = d.(decision.FireJoin)
	}
	return nil
}

// learnBranches notes where the first tokens of branches come from.
func (l *lockstep) learnBranches(g state.Group, from, to int) {
	for i := from; i < to; i++ {
		id, _ := g.SpawnOf(i)
		tr := l.graph.Transition(id)
		l.learn(state.Token{
			ID: g.TokenOf(i), Node: tr.To, Parent: g.Origin, Scope: workflow.Scope{Group: g.ID, Branch: i},
			Counts: decision.Traverse(l.graph, g.Counts, tr),
		}, false)
	}
}

// identity numbers an origin.
func (l *lockstep) identity(format string, args ...any) int {
	key := fmt.Sprintf(format, args...)
	if _, ok := l.ids[key]; !ok {
		l.ids[key] = len(l.ids) + 1
	}
	return l.ids[key]
}

// learn notes where a token of the planner comes from. Which of several tokens
// that met at a node's join came last is not asked.
func (l *lockstep) learn(t state.Token, joined bool) {
	parent := 0
	if !joined {
		parent = l.planned[t.Parent]
	}
	l.planned[t.ID] = l.next(0, "token %d %t %s %d %v", parent, joined, t.Node, l.branch(t.Scope), counted(t.Counts))
}

func counted(c state.Counts) map[string]int {
	out := map[string]int{}
	for id, n := range c {
		out[string(id)] = n
	}
	return out
}

func counts(t *reference.Token) map[string]int {
	out := map[string]int{}
	for e, n := range t.Counts {
		out[string(edgeID(e))] = n
	}
	return out
}

func (l *lockstep) branch(sc workflow.Scope) int {
	if sc.Group == 0 {
		return 0
	}
	g := l.state.Group(sc.Group)
	return l.identity("branch %d %s %d", l.planned[g.Origin], g.Spawns[0].Transition, sc.Branch)
}

// next numbers a token by its origin and those that came from there before it.
func (l *lockstep) next(side int, format string, args ...any) int {
	id := l.identity(format, args...)
	l.alike[side][id]++
	return l.identity("%d of %d", l.alike[side][id], id)
}

// learnTwins is learn for the tokens of the reference.
func (l *lockstep) learnTwins() {
	for _, t := range l.run.Made[len(l.made):] {
		parent := 0
		if !t.Joined {
			parent = l.made[t.Parent]
		}
		l.made[t] = l.next(1, "token %d %t %s %d %v", parent, t.Joined, graphID(t.Node), l.twinBranch(t.Born()), counts(t))
	}
}

func (l *lockstep) twinBranch(b *reference.Branch) int {
	if b == nil {
		return 0
	}
	return l.identity("branch %d %s %d", l.made[b.Group.Origin], edgeID(b.Group.First), b.Index)
}

// out returns the tokens whose tasks are out, by where they come from.
func (l *lockstep) out() map[int][]workflow.TokenID {
	out := map[int][]workflow.TokenID{}
	for _, id := range l.state.LiveTokens() {
		if l.state.Token(id).Status == workflow.Dispatched {
			out[l.planned[id]] = append(out[l.planned[id]], id)
		}
	}
	return out
}

// of returns the token of the reference that comes from the same.
func (l *lockstep) of(id int) *reference.Token {
	for _, t := range l.run.Tokens {
		if t.State == reference.Running && l.made[t] == id {
			return t
		}
	}
	panic("the reference has no such token")
}

// compare fails unless the planner's run stands as the reference's.
func (l *lockstep) compare() {
	l.t.Helper()
	l.learnTwins()
	want := map[reference.Status]workflow.RunStatus{
		reference.Going: workflow.RunRunning, reference.Completed: workflow.RunCompleted, reference.Failed: workflow.RunFailed,
	}[l.run.Status]
	code := ""
	if l.state.Failure != nil {
		code = l.state.Failure.Code
	}
	if l.state.Status != want || code != l.run.Code {
		l.t.Fatalf("the run is %v %s, the reference says %v %s", l.state.Status, code, want, l.run.Code)
	}
	if got, want := l.live(), l.twins(); !slices.Equal(got, want) {
		l.t.Fatalf("planner: %v\nreference: %v", got, want)
	}
}

// live lists what lives in the planner's run. For tokens that wait at a node's
// join it lists only what matters there: it leaves out which of several tokens
// of one instant came first.
func (l *lockstep) live() []string {
	var out []string
	for _, id := range l.state.LiveTokens() {
		switch t := l.state.Token(id); t.Status {
		case workflow.WaitingForJoin:
			out = append(out, fmt.Sprintf("%s in #%d waits by %s with %v", t.Node, l.branch(t.Scope), t.Via, counted(t.Counts)))
		case workflow.WaitingForSiblings:
			out = append(out, fmt.Sprintf("#%d has arrived by %s", l.branch(t.Scope), t.Via))
		case workflow.Pending:
			out = append(out, fmt.Sprintf("%s #%d has not begun", t.Node, l.planned[id]))
		case workflow.Dispatched:
			out = append(out, fmt.Sprintf("%s #%d is out", t.Node, l.planned[id]))
		default:
			l.t.Fatalf("%v is %v", id, t.Status)
		}
	}
	slices.SortFunc(out, cmp.Compare)
	return out
}

func (l *lockstep) twins() []string {
	var out []string
	for _, t := range l.run.Tokens {
		switch t.State {
		case reference.AtJoin:
			out = append(out, fmt.Sprintf("%s in #%d waits by %s with %v", graphID(t.Node), l.twinBranch(t.Branch), edgeID(t.Via), counts(t)))
		case reference.AtGroup:
			out = append(out, fmt.Sprintf("#%d has arrived by %s", l.twinBranch(t.Branch), edgeID(t.Via)))
		case reference.Unbegun:
			out = append(out, fmt.Sprintf("%s #%d has not begun", graphID(t.Node), l.made[t]))
		case reference.Running:
			out = append(out, fmt.Sprintf("%s #%d is out", graphID(t.Node), l.made[t]))
		case reference.Fresh, reference.Gone:
			l.t.Fatalf("the reference has left %+v", t)
		}
	}
	slices.SortFunc(out, cmp.Compare)
	return out
}

func graphID(i int) workflow.NodeID { return workflow.NodeID(fmt.Sprintf("n%d", i)) }

func edgeID(i int) workflow.TransitionID { return workflow.TransitionID(fmt.Sprintf("e%d", i)) }

// translate writes a definition of the reference as the engine's.
func translate(def *reference.Definition) *workflow.Definition {
	d := &workflow.Definition{Name: "graph", Start: graphID(def.Start)}
	for i, n := range def.Nodes {
		x := workflow.Node{ID: graphID(i), Join: [...]workflow.Join{workflow.JoinNone, workflow.JoinAll, workflow.JoinSynchronize}[n.Join]}
		if n.Task {
			x.Task = "work"
		}
		if n.End {
			x.End = &workflow.EndSpec{}
		}
		if n.FailUnmatched {
			x.Unmatched = workflow.UnmatchedFail
		}
		for _, c := range n.Cancels {
			x.Cancels = append(x.Cancels, graphID(c))
		}
		d.Nodes = append(d.Nodes, x)
	}
	for i, e := range def.Edges {
		d.Transitions = append(d.Transitions, translateEdge(i, e))
	}
	return d
}

func translateEdge(i int, e reference.Edge) workflow.Transition {
	x := workflow.Transition{
		ID: edgeID(i), From: graphID(e.From), To: graphID(e.To), Priority: e.Tier,
		Outcome:      [...]workflow.On{workflow.OnSuccess, workflow.OnError, workflow.OnAlways}[e.Outcome],
		SiblingGroup: e.Group, MaxConcurrency: e.Most, Open: e.Open,
	}
	if e.Code != "" {
		x.Errors = []string{e.Code}
	}
	if e.AtLeast > 0 {
		x.Condition = fmt.Sprintf("result >= %d", e.AtLeast)
	}
	if e.Loop > 0 {
		x.Loop = &workflow.Loop{MaxIterations: e.Loop}
	}
	switch {
	case e.Fan && e.Count == 0:
		x.Foreach = &workflow.Foreach{Collection: "[]"}
	case e.Fan && (e.Count > 1 || e.Group == ""):
		x.SpawnCount = e.Count
	}
	if s := e.Sync; s != nil {
		y := &workflow.Synchronization{SiblingGroup: s.Group}
		y.Remaining = [...]workflow.Remaining{workflow.RemainingCancel, workflow.RemainingIgnore, workflow.RemainingBlock}[s.Remaining]
		if s.Quorum > 0 {
			y.Strategy = workflow.MOfN(s.Quorum)
		}
		if s.Tolerate >= 0 {
			y.Tolerate = workflow.TolerateFailures(s.Tolerate)
		}
		if s.Proceed {
			y.OnShortfall = workflow.ShortfallProceed
		}
		x.Synchronization = y
	}
	return x
}
