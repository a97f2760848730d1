package simulator

import (
	"errors"
	"fmt"
	"hash/fnv"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/taskkey"
	"github.com/pawl-run/pawl/planning"
	"github.com/pawl-run/pawl/workflow"
)

// A model is one run as its journal says: every committed record is planned
// again, and must come to the same decisions.
type model struct {
	id       workflow.RunID
	hands    *hands
	graph    *compiled.Graph // that it began with
	state    *state.State
	records  []uint64 // a digest of each
	messages []state.Message
	events   []uint64 // likewise
	results  map[pawl.Key]bool
	out      map[pawl.Key]int64 // keys that were ever sent, and in which record
	attempts map[workflow.TokenID]int
	fired    map[workflow.GroupID]bool
	ended    map[workflow.RunID]bool // children whose end was taken
	children map[workflow.RunID]string
}

func newModel(id workflow.RunID, g *compiled.Graph, h *hands) *model {
	return &model{
		id: id, graph: g, hands: h, state: state.NewState(id, g),
		results: map[pawl.Key]bool{}, out: map[pawl.Key]int64{}, attempts: map[workflow.TokenID]int{},
		fired: map[workflow.GroupID]bool{}, ended: map[workflow.RunID]bool{}, children: map[workflow.RunID]string{},
	}
}

// digest returns a number for a text: the same for the same.
func digest(parts ...any) uint64 {
	h := fnv.New64a()
	fmt.Fprint(h, parts...)
	return h.Sum64()
}

func recordDigest(r decision.Record) uint64 {
	return digest(r.Seq, r.At.UnixMilli(), r.Epoch, messageText(r.Message), r.Decisions)
}

// messageText is a message without the addresses of what it points to.
func messageText(m state.Message) string {
	var pointed any
	switch x := m.(type) {
	case state.Start:
		if x.Parent != nil {
			pointed = *x.Parent
		}
		x.Parent = nil
		m = x
	case state.ChildEnded:
		if x.Failure != nil {
			pointed = *x.Failure
		}
		x.Failure = nil
		m = x
	default:
	}
	return strings.TrimSuffix(fmt.Sprintf("%T%+v %v", m, m, pointed), " <nil>")
}

// take plans a record again and checks what came of it.
func (m *model) take(r decision.Record) error {
	if r.Seq != int64(len(m.records))+1 {
		return fmt.Errorf("record %d follows record %d", r.Seq, len(m.records))
	}
	if m.state.Status.Final() {
		return fmt.Errorf("record %d, %T, comes after the run is %v", r.Seq, r.Message, m.state.Status)
	}
	if err := m.plans(r); err != nil {
		return err
	}
	if err := m.receives(r); err != nil {
		return err
	}
	before := m.state.Facts.NextToken
	for _, d := range r.Decisions {
		if err := m.decides(r, d); err != nil {
			return fmt.Errorf("%v: %w", d, err)
		}
		for _, e := range decision.Apply(m.state, d, &r) {
			m.events = append(m.events, eventDigest(e))
			if e.Seq != int64(len(m.events)) {
				return fmt.Errorf("event %d is the %d-th", e.Seq, len(m.events))
			}
		}
	}
	m.records = append(m.records, recordDigest(r))
	if m.state.NextToken < before {
		return errors.New("the number of tokens made has gone down")
	}
	return invariants(m.state)
}

// plans checks that the planner says the same again, and that a run restored
// from its rows would have been answered in the same way.
func (m *model) plans(r decision.Record) error {
	m.state.Epoch, m.state.Rules = r.Epoch, r.Planner
	plan, err := planning.Step(m.state, r.Message, r.At)
	if err != nil {
		return fmt.Errorf("a committed %T is refused: %w", r.Message, err)
	}
	if !same(plan.Decisions, r.Decisions) {
		return fmt.Errorf("committed is\n%s\nplanned again\n%s", lines(r.Decisions), lines(plan.Decisions))
	}
	if r.Seq%3 != 0 {
		return nil // it costs as much as the whole run
	}
	again := state.Restore(m.state.Graph, m.state.AllRows())
	again.Epoch, again.Rules = r.Epoch, r.Planner
	other, err := planning.Step(again, r.Message, r.At)
	if err != nil || !same(plan.Decisions, other.Decisions) {
		return fmt.Errorf("planned is\n%s\nplanned on the restored state (%s)\n%s", lines(plan.Decisions), fmt.Sprint(err), lines(other.Decisions))
	}
	return nil
}

// same compares decisions. The compiled definition of a patch is not part of it.
func same(a, b []decision.Decision) bool {
	return reflect.DeepEqual(plain(a), plain(b))
}

func plain(ds []decision.Decision) []decision.Decision {
	out := slices.Clone(ds)
	for i, d := range out {
		if p, ok := d.(decision.PatchRun); ok {
			p.Graph = nil
			out[i] = p
		}
	}
	return out
}

func lines(ds []decision.Decision) string {
	var b strings.Builder
	for _, d := range ds {
		fmt.Fprintf(&b, "    %v\n", d)
	}
	return b.String()
}

// receives checks that a message may count.
func (m *model) receives(r decision.Record) error {
	switch x := r.Message.(type) {
	case state.TaskCompleted:
		return m.result(x.Token, x.Attempt, x.Epoch)
	case state.TaskSnoozed:
		return m.result(x.Token, x.Attempt, x.Epoch)
	case state.TaskFailed:
		return m.result(x.Token, x.Attempt, x.Epoch)
	case state.ChildEnded:
		child := state.ChildID(m.id, x.Token, x.Attempt)
		if m.ended[child] || m.children[child] == "" {
			return fmt.Errorf("the end of %s was taken before, or nobody wanted it", child)
		}
		m.ended[child] = true
	case state.AlarmFired:
		due := m.state.Alarm()
		if due.IsZero() || due.After(r.At) && due.UnixMilli() > x.At {
			return fmt.Errorf("an alarm for %v at %v; it is due at %v", time.UnixMilli(x.At).UTC(), r.At, due)
		}
		if time.UnixMilli(x.At).After(r.At) && m.hands.untouched() {
			return fmt.Errorf("an alarm for %v comes at %v", time.UnixMilli(x.At).UTC(), r.At)
		}
	default:
	}
	return nil
}

// result checks that a result is the first of an attempt that is out.
func (m *model) result(token workflow.TokenID, attempt int, epoch state.Epoch) error {
	key := keyOf(m.id, token, attempt, epoch)
	if m.results[key] {
		return fmt.Errorf("a second result of %s", key)
	}
	if m.out[key] == 0 {
		return fmt.Errorf("a result of %s, which was never sent", key)
	}
	if t := m.state.Token(token); t.Status != workflow.Dispatched || t.Attempt != attempt || t.Epoch != epoch {
		return fmt.Errorf("a result of %s, which is over: %+v", key, t)
	}
	m.results[key] = true
	return nil
}

// decides checks a decision against the state before it.
func (m *model) decides(r decision.Record, d decision.Decision) error {
	switch x := d.(type) {
	case decision.DispatchTask:
		key := keyOf(m.id, x.Token, x.Attempt, x.Epoch)
		if m.out[key] != 0 {
			return fmt.Errorf("%s is sent again, after record %d", key, m.out[key])
		}
		if m.state.Token(x.Token).Status == workflow.Dispatched {
			return errors.New("the token's last attempt is out")
		}
		m.out[key] = r.Seq
		return m.attempt(x.Token, x.Attempt)
	case decision.StartChild:
		child := state.ChildID(m.id, x.Token, x.Attempt)
		if m.children[child] != "" {
			return fmt.Errorf("the child %s is wanted twice", child)
		}
		m.children[child] = x.Definition
		return m.attempt(x.Token, x.Attempt)
	case decision.FireGroup:
		return m.decided(x.Group)
	case decision.FailGroup:
		return m.decided(x.Group)
	case decision.AbandonGroup:
		return m.decided(x.Group)
	default:
		return nil
	}
}

func (m *model) attempt(t workflow.TokenID, n int) error {
	if n <= m.attempts[t] {
		return fmt.Errorf("attempt %d of %v follows attempt %d", n, t, m.attempts[t])
	}
	m.attempts[t] = n
	return nil
}

// decided checks that the join of a group is decided once.
func (m *model) decided(g workflow.GroupID) error {
	if m.fired[g] || m.state.Group(g).Phase != workflow.Gathering {
		return fmt.Errorf("%v was decided before", g)
	}
	m.fired[g] = true
	return nil
}

// keyOf is the name of an attempt: its key without the MAC, which the models cannot
// make. Every key that the executor is given is looked up by it.
func keyOf(run workflow.RunID, token workflow.TokenID, attempt int, epoch state.Epoch) pawl.Key {
	return pawl.Key(taskkey.Attempt{Run: run, Token: token, Number: attempt, Epoch: epoch}.Name())
}

// nameOf returns the name of the attempt that a key is of.
func nameOf(key pawl.Key) pawl.Key {
	return key[:max(strings.LastIndexByte(string(key), '.'), 0)]
}

// hasKey reports whether the executor was given the key of the attempt with a name, in a call that was admitted: which of
// the others had come when the process crashed is for the scheduler to say.
func (w *world) hasKey(name pawl.Key) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.keys[name] != ""
}

// keyFor returns the key that the executor was given for the attempt with a name, in a call that was admitted, or
// what a forger would make of it.
func (w *world) keyFor(name pawl.Key) pawl.Key {
	w.mu.Lock()
	defer w.mu.Unlock()
	if key := w.keys[name]; key != "" {
		return key
	}
	return name + ".AAAAAAAAAAAAAAAAAAAAAA"
}
