package replay

import (
	"fmt"
	"strings"
	"time"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/planning"
	"github.com/pawl-run/pawl/workflow"
)

// A place names a token's stay at a node by how it came there and not by its id, so that the
// same stay has the same place in another run of the definition.
//
// Example: the second time that branch 3 of a fan-out comes to node quote is {quote, [3], 2}. Ids
// would not do: tokens are numbered in the order in which results come, which differs from run to run.
// A place is comparable, and a key of maps.
type place struct {
	Node   workflow.NodeID
	Branch string // the branches that it is in: [2][0]
	Visit  int    // of the node in these branches, from 1
	Group  string // of a fan-out that began there, if it has a name
	Fan    int    // its number among those of its name, from 1; 0 for a stay
}

// String returns the place as quote[1], with its visit from the second on.
func (p place) String() string {
	text := string(p.Node) + p.Branch
	if p.Visit > 1 {
		text += fmt.Sprintf(" (visit %d)", p.Visit)
	}
	if p.Fan > 0 {
		text = "the branches of " + text
	}
	if p.Group != "" {
		text += ", group " + p.Group
	}
	if p.Fan > 1 {
		text += fmt.Sprintf(", fan-out %d", p.Fan)
	}
	return text
}

// An atlas gives the tokens of a run their places, in the order in which they were made.
// places has every token below next, and tokens the way back. visits counts the stays at a node in a branch, by the place with
// the visit 0.
type atlas struct {
	places map[workflow.TokenID]place
	tokens map[place]workflow.TokenID
	visits map[place]int
	next   workflow.TokenID
}

func newAtlas() *atlas {
	return &atlas{places: map[workflow.TokenID]place{}, tokens: map[place]workflow.TokenID{}, visits: map[place]int{}, next: 1}
}

// addNew places the tokens that have come since the last time, and returns them.
//
// It is to be called after each
// record: only then does the next message
// find the place of the token that it names.
func (a *atlas) addNew(s *state.State) (added []*state.Token) {
	for ; a.next < s.NextToken; a.next++ {
		t := s.Token(a.next)
		p := place{Node: t.Node, Branch: branchText(s, t.Scope)}
		a.visits[p]++
		p.Visit = a.visits[p]
		a.places[t.ID], a.tokens[p] = p, t.ID
		added = append(added, t)
	}
	return added
}

// A choice is what became of one stay at a node, or of the branches of a fan-out.
// text is what findParting compares, so it has no ids and no instants: the outcome, the transitions
// and how many branches they made, or the counts of a join. why is for people only.
type choice struct {
	place   place
	seq     int64
	at      time.Time
	message string
	text    string
	why     []string
}

// A given is a value that a run was given from outside.
// name says where it came to, and is the same in the other run for the same value, such as "quote[1]
// result"; see noteValue.
type given struct {
	name  string
	seq   int64
	value any
}

// A walk is what a run went through.
// choices and values are in the order of the records. signals counts signals by their name, so that
// the third one of a run is compared with the third one of the other. visited has the nodes of the
// list nodes.
type walk struct {
	player  *player
	atlas   *atlas
	choices []choice
	values  []given
	signals map[string]int
	named   map[string]int    // values by name
	nodes   []workflow.NodeID // in the order of their first visit
	visited map[workflow.NodeID]bool
}

// walkThrough plays a recording to its end.
//
// A redacted recording is refused by eachRecord: it has no values to compare. noteValue comes before
// the record is played, because the message is for a stay that the record may end; noteNodes comes
// before noteChoices, which looks up the places of tokens, also of those that the record has just
// made. A panic over its records is an error that names this run, whichever other one it is compared with.
func walkThrough(rec *Recording) (w *walk, err error) {
	defer rec.explainPanic(&err)
	w = &walk{player: newPlayer(rec), atlas: newAtlas(), signals: map[string]int{}, named: map[string]int{}, visited: map[workflow.NodeID]bool{}}
	for r, err := range rec.eachRecord() {
		if err != nil {
			return nil, err
		}
		message := ""
		if w.player.state != nil { // a token is named as it is before
			w.noteValue(&r)
			message = messageText(w.player.state, r.Message)
		} else if m, ok := r.Message.(state.Start); ok {
			w.values = append(w.values, given{"input", r.Seq, inputValue(m)})
			message = messageText(state.NewState(rec.Run, rec.graph), r.Message)
		}
		step, err := w.player.playRecord(&r)
		if err != nil {
			return nil, err
		}
		w.noteNodes()
		w.noteChoices(&r, step, message)
	}
	return w, nil
}

func inputValue(m state.Start) any {
	if m.Input == nil {
		return map[string]any{}
	}
	return m.Input
}

// noteNodes notes the nodes that were visited for the first time.
// It also places the new tokens, so that it must follow every record.
func (w *walk) noteNodes() {
	for _, t := range w.atlas.addNew(w.player.state) {
		if !w.visited[t.Node] {
			w.visited[t.Node] = true
			w.nodes = append(w.nodes, t.Node)
		}
	}
}

// noteValue notes what a message brings.
//
// A name that comes again, as for the results of retries at one stay, gets its number behind it:
// "quote result (2)".
func (w *walk) noteValue(r *decision.Record) {
	at := w.atlas.places[state.TokenOf(r.Message)].String()
	add := func(name string, v any) {
		if w.named[name]++; w.named[name] > 1 {
			name = fmt.Sprintf("%s (%d)", name, w.named[name])
		}
		w.values = append(w.values, given{name, r.Seq, v})
	}
	switch m := r.Message.(type) {
	case state.TaskCompleted:
		add(at+" result", m.Output)
	case state.TaskFailed:
		add(at+" error", decision.FailureValue(&m.Failure))
	case state.ChildEnded:
		add(at+" result", m.Output)
	case state.Skip:
		if m.Token == 0 { // it names the node
			at = w.endedBy(r).String()
		}
		add(at+" result", m.Output)
	case state.Signal:
		w.signals[m.Name]++
		add(fmt.Sprintf("signal %s %d payload", m.Name, w.signals[m.Name]), m.Payload)
	default: // brings no value, or one that a decision has
	}
	for _, d := range r.Decisions {
		switch d := d.(type) {
		case decision.AddVote:
			vote := fmt.Sprintf("%v vote of %s", w.atlas.places[d.Token], d.Vote.By)
			add(vote, d.Vote.Approved)
			add(vote+" data", d.Vote.Data)
		case decision.AddBranch:
			add(w.placeOfGroup(w.player.state.Group(d.Group)).String()+" added item", d.Item)
		default: // keeps no value that was given
		}
	}
}

// endedBy returns the first stay that a record ends.
func (w *walk) endedBy(r *decision.Record) place {
	for _, d := range r.Decisions {
		if id, _ := endOfStay(d); id != 0 {
			return w.atlas.places[id]
		}
	}
	return place{}
}

// noteChoices notes what was decided of stays at nodes and of fan-outs.
//
// One record may end several stays and decide several joins, each a choice of its own. The transitions
// that a token takes belong to the choice that ends its stay, with the number of branches if they fan
// out.
func (w *walk) noteChoices(r *decision.Record, step played, message string) {
	routes := map[workflow.TokenID]*planning.Route{}
	for i := range step.routes {
		routes[step.routes[i].Token] = &step.routes[i]
	}
	branches := map[workflow.TokenID]int{}
	for _, d := range r.Decisions {
		if c, ok := d.(decision.CreateBranches); ok {
			branches[c.Group.Origin] += c.Group.Total
		}
	}
	s := w.player.state
	add := func(p place, id workflow.TokenID, text string) {
		c := choice{place: p, seq: r.Seq, at: r.At, message: message, text: text}
		if route := routes[id]; route != nil {
			c.text += routeText(s.Graph, route, branches[id])
		}
		for _, n := range step.plan.Trace {
			if n.Token == id && id != 0 {
				c.why = append(c.why, n.String())
			}
		}
		w.choices = append(w.choices, c)
	}
	for _, d := range r.Decisions {
		if id, text := endOfStay(d); id != 0 {
			add(w.atlas.places[id], id, text)
		} else if group, text := endOfGroup(s, d); group != 0 {
			add(w.placeOfGroup(s.Group(group)), 0, text)
		}
	}
}

// placeOfGroup names a fan-out by the stay that began it, and by its number among those that began there: they were made together.
func (w *walk) placeOfGroup(g *state.Group) place {
	p := w.atlas.places[g.Origin]
	p.Group, p.Fan = g.Name, 1
	for id := g.ID - 1; id > 0; id-- {
		before := w.player.state.Group(id)
		if before.Origin != g.Origin {
			break
		}
		if before.Name == g.Name {
			p.Fan++
		}
	}
	return p
}

// endOfStay returns the token whose stay at a node a decision ends, and how; 0 if it ends none.
//
// AwaitSiblings ends a stay only if it
// says that the node completes with it. The text tells the code of a failure, and not its message, which
// may have an id or an instant in it.
func endOfStay(d decision.Decision) (workflow.TokenID, string) {
	switch d := d.(type) {
	case decision.CompleteToken:
		return d.Token, "completed"
	case decision.AwaitSiblings:
		if d.Completes {
			return d.Token, "completed"
		}
	case decision.FailToken:
		return d.Token, "failed with " + d.Failure.Code
	case decision.ExpireToken:
		return d.Token, "timed out"
	case decision.CancelToken:
		return d.Token, "cancelled"
	default: // ends no stay
	}
	return 0, ""
}

// endOfGroup returns the group whose join a decision decides, and how; 0 if it decides none.
//
// s is the state after the record, where the group has its last counts. A join that fired with
// different counts is another choice, even if its outcome is the same.
func endOfGroup(s *state.State, d decision.Decision) (workflow.GroupID, string) {
	counts := func(id workflow.GroupID) string {
		g := s.Group(id)
		return fmt.Sprintf("%d arrived, %d ended and %d failed of %d", g.Arrived, g.Ended, g.Failed, g.Total)
	}
	switch d := d.(type) {
	case decision.FireGroup:
		return d.Group, "joined: " + counts(d.Group) + whenText(d.Shortfall, d.TimedOut)
	case decision.FailGroup:
		return d.Group, "failed with " + d.Failure.Code + ": " + counts(d.Group) + whenText(d.Shortfall, d.TimedOut)
	case decision.AbandonGroup:
		return d.Group, "abandoned: " + counts(d.Group)
	default: // decides no join
	}
	return 0, ""
}

// whenText says why a join was decided before all branches had come; "" if they had.
func whenText(shortfall, timedOut bool) string {
	switch {
	case timedOut:
		return ", its time was up"
	case shortfall:
		return ", the quorum was out of reach"
	}
	return ""
}

// routeText says which transitions were taken, in what tier, and into how many branches.
//
// It is part of what Diff compares. The tier is left out where a patch has removed the transition.
func routeText(g *compiled.Graph, r *planning.Route, branches int) string {
	if len(r.Transitions) == 0 {
		return ", takes nothing"
	}
	names := make([]string, len(r.Transitions))
	for i, id := range r.Transitions {
		names[i] = string(id)
	}
	text := ", takes " + strings.Join(names, " ")
	if tier, ok := tierOf(g, r.Node, r.Transitions[0], r.Caught != nil); ok {
		text += fmt.Sprintf(" [tier %d]", tier)
	}
	if branches > 0 {
		text += fmt.Sprintf(" ×%d", branches)
	}
	return text
}

// tierOf returns the tier, which is the priority, of a transition among those that leave its node; false if a patch has
// removed it.
//
// failed says that the token left by a tier for failures; a transition that leaves on both outcomes is
// in both lists.
func tierOf(g *compiled.Graph, node workflow.NodeID, id workflow.TransitionID, failed bool) (tier int, ok bool) {
	n := g.Node(node)
	if n == nil {
		return 0, false
	}
	tiers := n.Success
	if failed {
		tiers = n.Failure
	}
	for _, tier := range tiers {
		for _, t := range tier {
			if t.ID == id {
				return t.Priority, true
			}
		}
	}
	return 0, false
}
