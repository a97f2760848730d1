package state

import (
	"cmp"
	"iter"
	"slices"
	"time"

	"github.com/pawl-run/pawl/internal/value"
)

// A SignalID numbers the signals of a run that were kept, from 1.
type SignalID int64

// A KeptSignal is an event that came before anybody waited for it, or an id that must not count twice. Signals are
// immutable but for size, which PutSignal sets. Signals that are done stay as rows, almost without a payload:
// their ids are known for ever.
type KeptSignal struct {
	// Seq is also the order in which signals are taken.
	Seq     SignalID
	Name    string
	ID      string // of the sender; "" without
	Payload any
	Due     time.Time // it is lost then; zero if never
	Done    bool      // taken, lost, or never kept
	size    int       // of the payload while it is kept, in bytes of JSON
}

// Expired reports whether k is still kept and its time is up at now. A signal has no alarm: whoever comes upon one
// whose time is up loses it then.
func (k *KeptSignal) Expired(now time.Time) bool {
	return !k.Done && !k.Due.IsZero() && !k.Due.After(now)
}

// PutSignal replaces a signal, or adds the next one. A new signal that is not done joins the line of its name; one
// that becomes done leaves it.
func (s *State) PutSignal(k *KeptSignal) {
	old := s.signals.getRow(k.Seq)
	if k.size = 0; !k.Done {
		k.size = value.Size(k.Payload)
	}
	s.keptBytes += k.size
	if old != nil {
		s.keptBytes -= old.size
	}
	// A change keeps the id of the sender, so it is noted once.
	if old == nil {
		s.NextSignal = k.Seq + 1
		if k.ID != "" {
			if s.known == nil {
				s.known = map[string]bool{}
			}
			s.known[k.ID] = true
		}
	}
	s.kept += oneIf(!k.Done) - oneIf(old != nil && !old.Done)
	s.signals.putRow(k.Seq, k)
	if k.Done {
		s.trimLine(WaitKey{Kind: LineSignal, Name: k.Name}, func(p spot) bool { return !s.signals.getRow(SignalID(p.id)).Done })
	}
	if old == nil && !k.Done {
		s.addToLine(WaitKey{Kind: LineSignal, Name: k.Name}, spot{id: int64(k.Seq)}, func(p spot) bool { return !s.signals.getRow(SignalID(p.id)).Done })
	}
}

// Signal returns the signal with the given number, or nil.
func (s *State) Signal(id SignalID) *KeptSignal { return s.signals.getRow(id) }

// KnowsSignal reports whether a signal with this id of the sender has come.
func (s *State) KnowsSignal(id string) bool {
	for t := s; t != nil; t = t.base {
		if t.known[id] {
			return true
		}
	}
	return false
}

// The names under which the ids of votes and of added branches are among those of signals. The ids themselves begin with the name
// and a colon, so that they are never that of a signal, which does not begin so.
const (
	VoteIDs   = OwnIDs + "vote"
	BranchIDs = OwnIDs + "branch"
)

// OwnIDs is how ids begin that no sender of a signal may choose.
const OwnIDs = "pawl:"

// KnowsCall reports whether a call of a kind, VoteIDs or BranchIDs, has come under this id; never if that is "".
func (s *State) KnowsCall(kind, id string) bool { return id != "" && s.KnowsSignal(kind+":"+id) }

// NoteCall notes for ever that a call of a kind has come under this id, unless that is "". It takes the number of a signal that
// is done.
func (s *State) NoteCall(kind, id string) {
	if id != "" {
		s.PutSignal(&KeptSignal{Seq: s.NextSignal, Name: kind, ID: kind + ":" + id, Done: true})
	}
}

// KeptSignals returns how many signals are kept.
func (s *State) KeptSignals() int { return s.kept }

// KeptSignalBytes returns how large the payloads of the kept signals are together, in
// bytes of JSON.
func (s *State) KeptSignalBytes() int { return s.keptBytes }

// KeptSignalsOf yields the kept signals of some names, oldest first. A node may wait for any of several events, and
// gets the one that came first of all. The lines, each in order, are merged by number; the parts that overlays hold
// are lines like the others. The loop may decide on a signal that it is given: the lines were taken before it began,
// and those done meanwhile are passed over.
func (s *State) KeptSignalsOf(names ...string) iter.Seq[*KeptSignal] {
	return func(yield func(*KeptSignal) bool) {
		var lines [][]spot // each with the oldest first
		for _, name := range names {
			lines = append(lines, s.lineParts(WaitKey{Kind: LineSignal, Name: name})...)
		}
		for {
			oldest := -1
			for i, line := range lines {
				if len(line) > 0 && (oldest < 0 || line[0].id < lines[oldest][0].id) {
					oldest = i
				}
			}
			if oldest < 0 {
				return
			}
			k := s.signals.getRow(SignalID(lines[oldest][0].id))
			lines[oldest] = lines[oldest][1:]
			if !k.Done && !yield(k) {
				return
			}
		}
	}
}

// ExpiredSignals returns the kept signals of whatever name whose time is up at now, oldest first. It costs time in
// proportion to all that are kept. It is asked only when a new signal would exceed what a run may keep.
func (s *State) ExpiredSignals(now time.Time) []*KeptSignal {
	var out []*KeptSignal
	for t := s; t != nil; t = t.base {
		for k, line := range t.waiting {
			if k.Kind != LineSignal {
				continue
			}
			for _, p := range line {
				if x := s.signals.getRow(SignalID(p.id)); x.Expired(now) {
					out = append(out, x)
				}
			}
		}
	}
	slices.SortFunc(out, func(a, b *KeptSignal) int { return cmp.Compare(a.Seq, b.Seq) })
	return out
}
