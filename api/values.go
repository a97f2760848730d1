package api

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/replay"
	"github.com/pawl-run/pawl/workflow"
)

// A viewer shows a caller what it may see of a run. The values that it gets belong to the engine;
// it copies them where it leaves something out. Every answer about a run goes through one of its
// show methods: a new field that holds a value, or a text that may quote one, must be left out
// here, or it is seen by callers without Values. The zero rights see nothing.
type viewer struct {
	run    workflow.RunID
	rights Rights
	redact func(run workflow.RunID, path string, value any) any
}

func (c *call) viewerOf(run workflow.RunID) *viewer {
	return &viewer{run, c.rights, c.options.Redact}
}

// seesTexts reports whether texts are shown in which values may stand. With a hook, texts go too: a
// message such as "card 4111... is declined" has the value in the middle of a sentence, where the
// hook cannot be asked about it.
func (v *viewer) seesTexts() bool { return v.rights&Values != 0 && v.redact == nil }

// showValue returns a value at a path as it is shown. The hook is asked from the outside in: about
// "state", then about "state.offer" in what it has returned, and so on, so that it can replace a
// whole object without seeing each leaf. Containers are copied at each level, as the originals
// belong to the engine. nil is not asked about.
func (v *viewer) showValue(path string, x any) any {
	if v.rights&Values == 0 {
		return nil
	}
	if v.redact == nil || x == nil {
		return x
	}
	switch x := v.redact(v.run, path, x).(type) {
	case map[string]any:
		out := make(map[string]any, len(x))
		for key, member := range x {
			out[key] = v.showValue(path+"."+key, member)
		}
		return out
	case []any:
		out := make([]any, len(x))
		for i, element := range x {
			out[i] = v.showValue(fmt.Sprintf("%s[%d]", path, i), element)
		}
		return out
	default:
		return x
	}
}

// showObject is showValue for what is an object. An object that the hook has replaced by something
// else than an object is left out, since the field has no other type.
func (v *viewer) showObject(path string, x map[string]any) map[string]any {
	if x == nil {
		return nil
	}
	out, _ := v.showValue(path, x).(map[string]any)
	return out
}

// showFailure returns a failure without its message, unless texts are shown. The code stays, since
// definitions and operators choose by it: docs/api.md says to keep values out of codes.
func (v *viewer) showFailure(f *workflow.Failure) *workflow.Failure {
	if f == nil || v.seesTexts() {
		return f
	}
	out := *f
	out.Message, out.Cause = "", v.showFailure(f.Cause)
	return &out
}

// showOutcome returns an outcome with its output and failure as they are shown. o is a copy, but
// its maps and the failure are the engine's, and are replaced, not changed. Artifacts go with
// Values.
func (v *viewer) showOutcome(o workflow.Outcome) workflow.Outcome {
	o.Output, o.Failure = v.showObject("output", o.Output), v.showFailure(o.Failure)
	if v.rights&Values == 0 {
		o.Artifacts = nil
	}
	return o
}

func (v *viewer) showSummary(s *pawl.RunSummary) any {
	out := *s
	out.Outcome = v.showOutcome(s.Outcome)
	return out
}

// showToken returns a token as it is shown. The key is a capability: its holder can complete the
// attempt. So it takes Act, not View.
func (v *viewer) showToken(t *pawl.Token) any {
	out := *t
	out.Input, out.Details = v.showValue("input", t.Input), v.showValue("details", t.Details)
	out.Failure = v.showFailure(t.Failure)
	if v.rights&Act == 0 {
		out.Key = ""
	}
	return out
}

func (v *viewer) showBranch(b *pawl.BranchView) any {
	out := *b
	out.Failure, out.Item = v.showFailure(b.Failure), v.showValue("item", b.Item)
	out.State, out.Output = v.showObject("state", b.State), v.showObject("output", b.Output)
	return out
}

func (v *viewer) showSignal(s *pawl.KeptSignal) any {
	out := *s
	out.Payload = v.showValue("payload", s.Payload)
	return out
}

func (v *viewer) showEvent(e *pawl.Event) any { return v.eventOf(e) }

// eventOf returns an event as it is shown. Data is cloned even if nothing is left out, as the keys
// are deleted from it below.
func (v *viewer) eventOf(e *pawl.Event) pawl.Event {
	out := *e
	out.Data = maps.Clone(v.showObject("data", e.Data))
	if v.rights&Act == 0 {
		delete(out.Data, "key") // who has that of a task can complete it
	}
	if v.redact == nil {
		return out
	}
	delete(out.Data, "message") // which may quote values
	if failure, ok := out.Data["error"].(map[string]any); ok {
		failure = maps.Clone(failure)
		delete(failure, "message")
		out.Data["error"] = failure
	}
	return out
}

func (v *viewer) showApproval(a *pawl.Approval) any {
	out := *a
	out.Input = v.showValue("input", a.Input)
	if !v.seesTexts() {
		out.Message = ""
	}
	return out
}

func (v *viewer) showDeadLetter(l *pawl.DeadLetter) any {
	out := *l
	out.Input, out.Failure = v.showValue("input", l.Input), *v.showFailure(&l.Failure)
	return out
}

// A Record is one record of a run's journal: a message, and what was decided.
type Record struct {
	Seq       int64     `json:"record"`
	At        time.Time `json:"at"`
	Kind      string    `json:"kind"`             // of the message, as TaskCompleted
	By        string    `json:"by,omitzero"`      // who has asked for it, if that was told
	Reason    string    `json:"reason,omitzero"`  // likewise
	Message   string    `json:"message,omitzero"` // in one line
	Decisions []string  `json:"decisions"`        // a line each
}

func (v *viewer) showRecord(r *pawl.Record) any { return v.recordOf(r) }

// recordOf returns a record as it is shown. Without texts a record keeps the kind of its message
// and of each decision, the word before the first space, so that View is enough to follow how a run
// moves.
func (v *viewer) recordOf(r *pawl.Record) Record {
	act := state.ActOf(r.Message)
	out := Record{Seq: r.Seq, At: r.At, Kind: state.MessageName(r.Message), By: act.By, Reason: act.Reason, Decisions: []string{}}
	if v.seesTexts() {
		out.Message = state.DescribeMessage(r.Message)
	}
	for _, d := range r.Decisions {
		text := d.String()
		if !v.seesTexts() {
			text, _, _ = strings.Cut(text, " ")
		}
		out.Decisions = append(out.Decisions, text)
	}
	return out
}

// showNotes returns as it is shown why something was decided. A note has a text in words, which
// goes, and the readings of a condition, which stay where the hook leaves something of them: reads
// is a new slice, as the one of the note is shared.
func (v *viewer) showNotes(notes []pawl.Note) []pawl.Note {
	if v.seesTexts() {
		return notes
	}
	out := make([]pawl.Note, len(notes))
	for i, n := range notes {
		n.Text = ""
		var reads []pawl.Reading
		for _, r := range n.Reads {
			if r.Value, _ = v.showValue(r.Path, r.Value).(string); r.Value != "" {
				reads = append(reads, r)
			}
		}
		n.Reads = reads
		out[i] = n
	}
	return out
}

func (v *viewer) showArrival(a *replay.Arrival) *replay.Arrival {
	if a == nil || v.seesTexts() {
		return a
	}
	out := *a
	out.Message, _, _ = strings.Cut(a.Message, " ")
	out.Notes = v.showNotes(a.Notes)
	return &out
}

// showExplanation returns an explanation as it is shown. x is a copy whose slices are not: they are
// cloned before an element is replaced. The failures below are of other runs, so the hook is asked
// in the name of each.
func (v *viewer) showExplanation(x pawl.Explanation) pawl.Explanation {
	x.Failure, x.Failed, x.Waits = v.showFailure(x.Failure), slices.Clone(x.Failed), slices.Clone(x.Waits)
	for i := range x.Failed {
		x.Failed[i].Failure, x.Failed[i].Came = v.showFailure(x.Failed[i].Failure), v.showArrival(x.Failed[i].Came)
		x.Failed[i].Below = slices.Clone(x.Failed[i].Below)
		for j := range x.Failed[i].Below {
			below := &x.Failed[i].Below[j]
			below.Failure = (&viewer{below.Run, v.rights, v.redact}).showFailure(below.Failure)
		}
	}
	for i := range x.Waits {
		x.Waits[i].Failure, x.Waits[i].Came = v.showFailure(x.Waits[i].Failure), v.showArrival(x.Waits[i].Came)
	}
	return x
}
