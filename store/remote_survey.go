package store

import (
	"errors"
	"time"
)

// A logSurvey is what there is in a log.
//
// It is filled entry by entry, by readSome.
type logSurvey struct {
	report     RecoverReport
	generation uint64 // the highest
	later      bool   // it has a base of a later generation than the directory
}

// maxHole is over how many missing entries a survey looks for further ones.
const maxHole = 1000

// surveyLog looks at everything in the log.
//
// It goes on behind what cannot be read, number by number, until entries can be read again or a
// bound is reached: so what lies behind a hole is counted, and told. known has the entries of the
// directory by their sums: the one that pawl.db has last, and those of the tail.
func (d *Dir) surveyLog() (*logSurvey, error) {
	r := d.remote
	known := map[[32]byte]bool{r.place.Sum: true}
	err := r.tail.eachRecord(func(_ string, _ int64, entry []byte, _ tailFlag) { known[PositionOf(0, entry).Sum] = true })
	if err != nil {
		return nil, err
	}
	s := &logSurvey{}
	s.report.Directory, s.report.Generation = Position{r.place.Seq, r.place.Sum}, r.place.Generation
	for after, missing := (Position{}), 0; ; missing++ {
		was := s.report.Log.Seq
		err := s.readSome(r, after, known)
		if err == nil {
			break
		}
		if !errors.Is(err, ErrCorrupt) {
			return nil, err
		}
		s.noteDamage(err.Error())
		if s.report.Log.Seq > was {
			missing = 0
		}
		if missing > maxHole {
			break
		}
		if after.Seq = max(after.Seq, s.report.Log.Seq) + 1; missing == 0 {
			s.report.GivenUp++ // nobody can tell what it was
		}
	}
	if r.place.Seq > s.report.Common {
		s.report.Lacks = r.place.Seq - s.report.Common
	}
	return s, nil
}

// noteDamage keeps the first damage, which is what a person has to look at.
func (s *logSurvey) noteDamage(what string) {
	if s.report.Damage == "" {
		s.report.Damage = what
	}
}

// readSome reads the entries behind a position, until one cannot be read.
//
// Whenever an entry comes that the directory has, what was counted before counts no longer: the
// directory has all up to there. So at the end GivenUp is what comes behind the last common
// entry.
func (s *logSurvey) readSome(r *remote, after Position, known map[[32]byte]bool) error {
	for entry, err := range r.o.Log.Read(r.ctx, after) {
		if err != nil {
			return err
		}
		p := PositionOf(entry.Seq, entry.Data)
		if hidden := p.Seq - r.place.Seq - 1; s.report.Log.Seq == 0 && p.Seq > r.place.Seq+1 {
			s.report.GivenUp += int(hidden) //nolint:gosec // entries that the log has dropped, which a base has: the directory never had them
		}
		s.report.Log = p
		e, err := decodeEntry(entry.Data)
		switch {
		case known[p.Sum]:
			s.report.Common, s.report.GivenUp, s.report.Since, s.report.Until = p.Seq, 0, time.Time{}, time.Time{}
		case err != nil:
			s.noteDamage(nameOfEntry(p.Seq) + ": " + err.Error())
			s.report.GivenUp++
		case e.kind == entryCommit:
			s.report.GivenUp++
			if s.report.Until = e.at; s.report.Since.IsZero() {
				s.report.Since = e.at
			}
		default:
			s.generation = max(s.generation, e.generation())
			s.later = s.later || e.kind == entryBase && e.generation() > r.place.Generation
		}
	}
	return nil
}

// generation returns how often the log was begun anew before an entry that says so: one of a beginning, or, since that is dropped some
// day, of a base. For others it is 0.
func (e *logEntry) generation() uint64 {
	if e.kind == entryAnew || e.kind == entryBase {
		return uint64(e.number) //nolint:gosec // it counts
	}
	return 0
}

// checkGeneration looks why a directory does not fit its log: it returns errSuperseded if that was begun anew since, and has a base.
//
// A log that was begun anew without a base yet, because that was cut short, is of nobody: only
// who began it may go on, or begin anew once more.
func (d *Dir) checkGeneration(cause error) error {
	r := d.remote
	newest, based := uint64(0), false
	err := readLog(r.ctx, r.o.Log, Position{}, func(_ Position, e *logEntry) error {
		if n := e.generation(); n > newest {
			newest, based = n, false
		}
		based = based || e.kind == entryBase && e.generation() == newest
		return nil
	})
	switch {
	case err == nil && newest > r.place.Generation && based:
		return errSuperseded
	case newest > r.place.Generation || errors.Is(cause, errAnew):
		return &CorruptError{File: "the log", What: "it is being begun anew, from another directory: that was not finished", Err: err}
	}
	return cause
}
