package replay

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// A Substitution says what another definition would have made of a recorded run.
// Without a Difference the other definition would have made the same run, and the lists are empty.
// With one, what follows is a conjecture: it takes for granted that tasks would have returned what
// they returned. Missing says where that conjecture ends.
type Substitution struct {
	Run        workflow.RunID     `json:"run"`
	Workflow   string             `json:"workflow"`
	Version    int                `json:"version"`              // that the run was recorded with
	Records    int64              `json:"records"`              // that decide the same
	Difference *Difference        `json:"difference,omitempty"` // the first that does not; nil if all do
	Was        workflow.RunStatus `json:"was"`                  // as the run stands in its recording
	Is         workflow.RunStatus `json:"is"`                   // as it would stand
	OnlyWas    []workflow.NodeID  `json:"onlyWas,omitempty"`    // nodes that it would not have come to
	OnlyIs     []workflow.NodeID  `json:"onlyIs,omitempty"`     // nodes that it would have come to instead
	Missing    []string           `json:"missing,omitempty"`    // where it would wait for a result, a vote, an event that is not recorded
	Unused     []string           `json:"unused,omitempty"`     // where a result is recorded that nobody would ask for
	Refused    []string           `json:"refused,omitempty"`    // what it was told and would not take
}

// String returns the substitution in a few lines.
func (s *Substitution) String() string {
	if s.Difference == nil {
		return fmt.Sprintf("%d records decide the same", s.Records)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%v\n  then it would be %v; it is %v", s.Difference, s.Is, s.Was)
	for _, part := range []struct {
		what  string
		where []string
	}{
		{"it would come to", nodeNames(s.OnlyIs)},
		{"it would not come to", nodeNames(s.OnlyWas)},
		{"what it would wait for is not recorded at", s.Missing},
		{"nobody would ask for the result of", s.Unused},
		{"it would not take", s.Refused},
	} {
		if len(part.where) > 0 {
			fmt.Fprintf(&b, "\n  %s: %s", part.what, strings.Join(part.where, ", "))
		}
	}
	return b.String()
}

func nodeNames(ids []workflow.NodeID) (out []string) {
	for _, id := range ids {
		out = append(out, string(id))
	}
	return out
}

// Substitute plays what a recorded run was told on another definition. As long as that decides
// the same, each record is planned as it is. From the first difference on, results go to the
// same stays at the same nodes, in their order, whatever their tokens are called now; time
// passes as it did, and further if the run has ended and only timers are left. An error says
// that the recording cannot be read, or that the definition is not valid.
//
// Nothing is known of results that were never made: where the other run asks for one, it waits, and the
// rest of the recording
// is played around it.
func Substitute(rec *Recording, d *workflow.Definition) (_ Substitution, err error) {
	defer rec.explainPanic(&err)
	if d == nil {
		d = &workflow.Definition{}
	}
	g, err := compiled.Compile(compiled.Boundless(), d)
	if err != nil {
		return Substitution{}, err
	}
	s := &substitute{was: newPlayer(rec), wasAt: newAtlas(), isAt: newAtlas(), answers: map[place][]state.Message{}}
	for r, err := range rec.eachRecord() {
		if err != nil {
			return s.out, err
		}
		if s.is == nil {
			of := rec.Definition()
			s.is = state.NewState(rec.Run, g)
			s.out = Substitution{Run: rec.Run, Workflow: of.Name, Version: max(of.Version, 1)}
		}
		if err := s.playRecord(&r); err != nil {
			return s.out, err
		}
	}
	s.finishRun()
	return s.out, nil
}

// A substitute plays a recording on its own definition and on another.
// was plays the records as they are, is the plans of the other run. Both run side by side: answers are
// found by the place of a token in wasAt, and given by the place of one in isAt. now never goes back;
// it passes the last record only in finishRun.
type substitute struct {
	was     *player
	is      *state.State
	wasAt   *atlas
	isAt    *atlas
	now     time.Time
	answers map[place][]state.Message // results that were recorded and not asked for yet
	asking  []workflow.TokenID        // tokens that may take one of these
	seq     int64                     // records of the other run
	out     Substitution
}

// playRecord tells the other run of a record, and then applies it to the recorded one. This order
// matters: the place of a message is that of its token before the record, and tokens that the record
// makes are placed after it.
func (s *substitute) playRecord(r *decision.Record) error {
	s.is.Epoch = r.Epoch
	if s.out.Difference == nil {
		s.now = later(s.now, r.At)
		s.playAlike(r)
	} else {
		s.ringAlarms(r.At)
		s.now = later(s.now, r.At)
		s.tellMessage(r.Message)
	}
	if err := s.was.applyRecord(r); err != nil {
		return err
	}
	s.wasAt.addNew(s.was.state)
	s.isAt.addNew(s.is)
	return nil
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// playAlike plans a record on the state of the other run, which is as that of the recorded one.
//
// Until the first difference tokens have the same ids, so the message is given as it is. The plan of
// the record that differs is applied; if the other definition refuses the message, its state stays,
// and the record counts as refused.
func (s *substitute) playAlike(r *decision.Record) {
	plan, _, err := planSafely(s.is, r.Message, r.At, r.Planner)
	s.out.Difference = differenceOf(s.is, r, plan, err)
	if s.out.Difference == nil {
		s.out.Records++
	}
	if err != nil {
		s.out.Refused = append(s.out.Refused, s.out.Difference.Message)
		return
	}
	s.applyDecisions(r.Message, plan.Decisions)
}

// applyDecisions applies a plan of the other run under a record of its own, whose number differs from
// that of the recorded run once messages were refused or alarms fired.
func (s *substitute) applyDecisions(m state.Message, decisions []decision.Decision) {
	s.seq++
	r := &decision.Record{Seq: s.seq, At: s.now, Epoch: s.is.Epoch, Message: m}
	for _, d := range decisions {
		decision.Apply(s.is, d, r)
	}
	s.isAt.addNew(s.is)
	for _, d := range decisions {
		switch d := d.(type) {
		case decision.DispatchTask:
			s.asking = append(s.asking, d.Token)
		case decision.StartChild:
			s.asking = append(s.asking, d.Token)
		default: // asks for no result
		}
	}
}

// tellMessage tells the other run what the recorded one was told. Results wait until somebody asks for them.
//
// Messages that name a token are sent to the token at the same place; those to the run as a whole go
// as they are. Alarms are not repeated: the other run has its own timers, which ringAlarms lets fire
// at their own instants.
func (s *substitute) tellMessage(m state.Message) {
	at := s.wasAt.places[state.TokenOf(m)]
	switch m := m.(type) {
	case state.TaskCompleted, state.TaskFailed, state.TaskSnoozed, state.ChildEnded:
		s.answers[at] = append(s.answers[at], m)
		s.asking = append(s.asking, s.isAt.tokens[at])
	// Nothing is sent for these: the alarms of the other run fire by themselves.
	case state.AlarmFired, state.Heartbeat, state.ChildAsks, state.Stall, state.Suspend:
		// time has passed; the others are about attempts, or engines, that are no more
	case state.Retry:
		m.Token = s.tokenAt(m.Token)
		s.sendMessage(m)
	case state.Skip:
		m.Token = s.tokenAt(m.Token)
		s.sendMessage(m)
	case state.Ballot:
		m.Token = s.tokenAt(m.Token)
		s.sendMessage(m)
	case state.AddBranch:
		m.Origin = s.tokenAt(m.Origin)
		s.sendMessage(m)
	case state.CloseGroup:
		m.Origin = s.tokenAt(m.Origin)
		s.sendMessage(m)
	default:
		s.sendMessage(m)
	}
	s.giveAnswers()
}

// tokenAt returns the token of the other run at the place of one of the recorded run.
// Two tokens never share a place, because visits are counted.
func (s *substitute) tokenAt(id workflow.TokenID) workflow.TokenID {
	if at, ok := s.wasAt.places[id]; ok {
		return cmp.Or(s.isAt.tokens[at], id) // without one it is of a token that there is not, and refused
	}
	return id
}

// sendMessage plans a message for the other run. It reports whether that took it.
func (s *substitute) sendMessage(m state.Message) bool {
	plan, _, err := planSafely(s.is, m, s.now, 0)
	if err != nil {
		s.out.Refused = append(s.out.Refused, messageText(s.is, m))
		return false
	}
	s.applyDecisions(m, plan.Decisions)
	return true
}

// maxAlarms bounds the alarms between two records, and behind the last.
// A definition that waits in a loop would otherwise ring for ever.
const maxAlarms = 1_000

// ringAlarms lets everything happen that is due by an instant, each when it is due.
//
// Each alarm is followed by the answers that it may have made due: an attempt that a timer began asks
// for its result before the next timer fires, as it would have in the recorded run. A refused alarm
// ends it, since the same one would be next.
func (s *substitute) ringAlarms(by time.Time) {
	for range maxAlarms {
		at := s.is.Alarm()
		if at.IsZero() || at.After(by) || s.is.Status.Final() {
			return
		}
		s.now = later(s.now, at)
		if !s.sendMessage(state.AlarmFired{At: at.UnixMilli()}) {
			return
		}
		s.giveAnswers()
	}
}

// giveAnswers gives the recorded results to the attempts that ask for them, until none does.
//
// An answer may complete a node and so begin an attempt that has its answer too; therefore it goes
// round until nobody asks. The results of one place are given in the order in which they came, so a
// stay that failed twice and then completed does so again, if the retries of the other definition
// allow it. A token may end while this loop is under way, by an answer to another one. Only tokens
// are looked at that have begun an attempt, or for which a result has come, since the last time.
func (s *substitute) giveAnswers() {
	for len(s.asking) > 0 && !s.is.Status.Final() {
		asking := s.asking
		s.asking = nil
		slices.Sort(asking)
		for _, id := range slices.Compact(asking) {
			t, at := s.is.Token(id), s.isAt.places[id]
			if t == nil || !t.Live() || !isOut(t) || len(s.answers[at]) == 0 {
				continue
			}
			m := s.answers[at][0]
			s.answers[at] = s.answers[at][1:]
			if !s.sendMessage(answerOf(m, t)) {
				s.asking = append(s.asking, id) // it may take the next one
			}
		}
	}
}

// isOut reports whether a token waits for a result.
func isOut(t *state.Token) bool {
	return t.Status == workflow.Dispatched || t.Status == workflow.WaitingForChild
}

// answerOf returns a recorded result as that of the attempt that t waits for.
//
// The engine drops a result whose token, attempt or epoch is not the one that is out; the recorded
// ones are those of the recorded run.
func answerOf(m state.Message, t *state.Token) state.Message {
	switch m := m.(type) {
	case state.TaskCompleted:
		m.Token, m.Attempt, m.Epoch = t.ID, t.Attempt, t.Epoch
		return m
	case state.TaskFailed:
		m.Token, m.Attempt, m.Epoch = t.ID, t.Attempt, t.Epoch
		return m
	case state.TaskSnoozed:
		m.Token, m.Attempt, m.Epoch = t.ID, t.Attempt, t.Epoch
		return m
	case state.ChildEnded:
		m.Token, m.Attempt = t.ID, t.Attempt
		return m
	default: // the caller has results alone
		return m
	}
}

// finishRun lets timers end a run whose recording has come to its end, unless it waits for
// results, and says how it stands.
//
// If the recorded run goes on, so may the other: its timers are left alone, since its story is not at
// an end. Where it waits for what is not recorded, time alone would only let it time out, which says
// nothing about the definition.
func (s *substitute) finishRun() {
	if s.is == nil {
		return
	}
	was := s.was.state
	for range maxAlarms {
		at := s.is.Alarm()
		if s.out.Difference == nil || !was.Status.Final() || s.is.Status.Final() || at.IsZero() || len(s.missingPlaces()) > 0 {
			break
		}
		s.ringAlarms(at)
	}
	s.out.Was, s.out.Is = was.Status, s.is.Status
	if s.out.Difference == nil {
		return
	}
	s.out.Missing = s.missingPlaces()
	for at, left := range s.answers {
		if len(left) > 0 {
			s.out.Unused = append(s.out.Unused, at.String())
		}
	}
	slices.Sort(s.out.Unused)
	s.out.OnlyWas, s.out.OnlyIs = nodesOnlyIn(s.wasAt, s.isAt, was), nodesOnlyIn(s.isAt, s.wasAt, s.is)
}

// missingPlaces returns where the other run waits for results, votes, events or an operator without
// a record of them.
//
// A vote or an event that was recorded has been sent when its turn came; a token that still waits for
// one has got too few.
func (s *substitute) missingPlaces() (out []string) {
	for _, id := range s.is.LiveTokens() {
		t, at := s.is.Token(id), s.isAt.places[id]
		switch t.Status {
		case workflow.Dispatched, workflow.WaitingForChild:
			if len(s.answers[at]) == 0 {
				out = append(out, at.String())
			}
		case workflow.WaitingForApproval, workflow.WaitingForEvent, workflow.WaitingForOperator:
			out = append(out, at.String())
		default: // it waits for time, or for other tokens
		}
	}
	return out
}

// nodesOnlyIn returns the nodes of one run that another did not come to, in the order in which
// it came there.
func nodesOnlyIn(a, b *atlas, s *state.State) (out []workflow.NodeID) {
	there := map[workflow.NodeID]bool{}
	for _, p := range b.places {
		there[p.Node] = true
	}
	for id := workflow.TokenID(1); id < s.NextToken; id++ {
		if p := a.places[id]; !there[p.Node] {
			there[p.Node] = true
			out = append(out, p.Node)
		}
	}
	return out
}
