package decision

import (
	"fmt"
	"iter"
	"time"

	"github.com/pawl-run/pawl/internal/codec"
	"github.com/pawl-run/pawl/internal/pace"
	"github.com/pawl-run/pawl/internal/state"
)

// variants has one zero value of every Decision, under whose type name the journal keeps it.
// A type that is missing here could be decided, but not written; TestVariantsAreComplete
// finds it. A name that is taken out or changed makes journals unreadable that have it.
var variants = [...]Decision{
	CreateToken{}, CreateBranches{}, StartBranches{}, DispatchTask{}, ExtendTask{}, RetryTask{},
	ParkTask{}, AwaitTimer{}, AwaitSiblings{}, CompleteToken{}, FailToken{}, ExpireToken{},
	CancelToken{}, ArriveBranch{}, EndBranch{}, FailBranch{}, DropBranch{}, MergeBranches{},
	FireGroup{}, FailGroup{}, AbandonGroup{}, SetData{}, AppendData{}, StartRun{}, CompleteRun{},
	FailRun{}, ExpireRun{}, CancelRun{}, SuspendRun{}, ResumeRun{},
	StartChild{}, EndChild{}, RequestApproval{}, AddVote{}, DecideApproval{}, AwaitEvent{},
	KeepSignal{}, TakeSignal{}, LoseSignal{}, RejectSignal{}, AwaitLock{}, TakeLock{},
	SnoozeTask{}, KeepDetails{}, HoldToken{}, KeepResult{}, RenewInput{}, AwaitJoin{}, FireJoin{}, CancelTokens{}, AddBranch{}, CloseGroup{}, AwaitBudget{}, RaiseLimits{},
	ArmGroup{}, ListErrors{}, PauseRun{}, StartStep{}, EndStep{}, DeferFailure{},
	PatchRun{}, StageArtifacts{}, ForkRun{},
}

// Decisions encodes decisions for the journal.
var Decisions = codec.New(variants[:]...)

// A Record is one entry of a run's journal: a message, what was decided, and
// everything else that the planner saw. Replaying the records of a run through
// the planner of the same version gives the same decisions.
//
// A message that is refused, or that was taken before, has no record. All that is decided for
// one message is in one record, and a record is committed whole or not at all, so that every
// prefix of a journal is a state in which the run has been.
type Record struct {
	Seq       int64     // from 1, without gaps
	At        time.Time // the planner's now
	Epoch     state.Epoch
	Planner   int // version of the planner
	Message   state.Message
	Decisions []Decision
}

// An Encoded is a Record in the text form of the journal. Values above 1 KiB
// stand apart, under their sha256.
type Encoded struct {
	Seq       int64
	At        time.Time
	Epoch     state.Epoch
	Planner   int
	Message   []byte // JSON
	Decisions []byte // JSON
	Values    *codec.Values
}

// Encode returns the text form of r.
func (r Record) Encode() (Encoded, error) {
	e, _, err := r.EncodeWith(nil)
	return e, err
}

// EncodeWith is Encode for a caller who encodes many records: scratch is memory that is used meanwhile, and comes back, perhaps
// larger, for the next record; none if the record has kept it. The two texts share one piece of memory, which has at most
// a quarter more room; the capacity of each ends where it does, so that nobody who appends to it writes over anything.
func (r Record) EncodeWith(scratch []byte) (e Encoded, used []byte, err error) {
	values := &codec.Values{}
	values.Know(state.KnownText(r.Message))
	text, err := state.Messages.Append(scratch[:0], r.Message, values)
	if err != nil {
		return Encoded{}, text, fmt.Errorf("encode message of record %d: %w", r.Seq, err)
	}
	n := len(text)
	if text, err = Decisions.AppendAll(text, r.Decisions, values); err != nil {
		return Encoded{}, text, fmt.Errorf("encode decisions of record %d: %w", r.Seq, err)
	}
	values.Settle()
	own := text
	if len(text) < largeText || cap(text)-len(text) > len(text)/4 {
		own = pace.Append(make([]byte, 0, len(text)), text...)
	} else {
		text = nil
	}
	return Encoded{
		Seq: r.Seq, At: r.At, Epoch: r.Epoch, Planner: r.Planner, Message: own[:n:n], Decisions: own[n:len(own):len(own)], Values: values,
	}, text, nil
}

// A text of largeText bytes or more stays in the memory in which it was made, if that has little room to spare: copying it
// would cost more.
const largeText = 64 << 10

// Decode returns the record that e encodes. lookup finds the values that stand apart. The
// record is what was encoded, but for what a journal does not hold: the graph of a PatchRun,
// which is compiled when it is applied, the measure of a result, which the planner then
// takes anew, and texts beside values.
//
// It fails if the instant is outside of the years 1 to 9999: no engine writes one, and neither RFC 3339 nor JSON has a form for it.
// An instant earlier than that of the previous record is no such failure, since wall clocks are set back.
func (e Encoded) Decode(lookup codec.Lookup) (Record, error) {
	if y := e.At.Year(); y < 1 || y > 9999 {
		return Record{}, fmt.Errorf("record %d is of the year %d: there are instants of the years 1 to 9999 only", e.Seq, y)
	}
	r := Record{Seq: e.Seq, At: e.At, Epoch: e.Epoch, Planner: e.Planner}
	var err error
	if r.Message, err = state.Messages.Decode(e.Message, lookup); err != nil {
		return Record{}, fmt.Errorf("decode message of record %d: %w", e.Seq, err)
	}
	if r.Decisions, err = Decisions.DecodeAll(e.Decisions, lookup); err != nil {
		return Record{}, fmt.Errorf("decode decisions of record %d: %w", e.Seq, err)
	}
	return r, nil
}

// A History is a run's journal, in order. An error ends it. It is a sequence and no slice, so
// that whoever looks through a long journal need not hold all of it.
type History = iter.Seq2[Record, error]
