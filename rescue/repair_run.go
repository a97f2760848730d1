package rescue

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/runfile"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/timeout"
	"github.com/pawl-run/pawl/workflow"
)

// restoreRun restores what is left of one run.
//
// It looks for the row, then for the records, then makes the state of them, and commits the
// whole. Each step may meet damage and goes on with what it has: the causes are gathered in
// broken, and stand in one finding at the end. An error ends the repair, and comes only from
// the new directory.
func (r *repairer) restoreRun(id workflow.RunID) error {
	// The row has parts with checksums of their own. A damaged part is cleared, so that the
	// rest of this function need not ask again.
	row, err := r.FindRow(id)
	dropDamaged(&row)
	// Only a row of the last engine's own index can tell how far the run had come. An older
	// copy of pawl.db would call later records wrong.
	known := r.Trusted && row.Sound[index.RowLast]
	var broken []error
	var damage *store.CorruptError
	if errors.As(err, &damage) {
		broken = append(broken, errors.New(damage.What))
	} else if err != nil && !errors.Is(err, store.ErrRunNotFound) {
		broken = append(broken, err)
	}
	m, more := r.chooseFurthest(id, &row, known)
	broken = append(broken, more...)
	// The hash in the row names the definition even if the file lacks it: it is tried first, unless the row may be of an earlier time.
	if g := r.findGraph(row.Definition); g != nil && row.Num != 0 {
		at := len(m.graphs)
		if known {
			at = 0
		}
		m.graphs = slices.Insert(m.graphs, at, g)
	}
	if err := m.replayAll(); err != nil {
		broken = append(broken, err)
	}
	// A run without a record left cannot be restored: its input was in the first.
	if m.state == nil {
		r.addWrong(id, row.File, "start it again if it is still wanted", "nothing is left of it%s", joinReasons(broken))
		return nil
	}
	r.reportRun(m, &row, known, broken)
	return r.commitRun(m, &row)
}

// dropDamaged clears the fields of the parts that are damaged. (A definition that has the
// hash in the row proves that hash.)
//
// A zero says that nothing is known: no hash to compare an input with, no sequence that must be
// reached, no file to look for.
func dropDamaged(r *index.Row) {
	if !r.Sound[index.RowStart] {
		r.InputHash = ""
	}
	if !r.Sound[index.RowLast] {
		r.Seq = 0
	}
	if !r.Sound[index.RowFile] {
		r.Flushed = 0
	}
	if !r.Sound[index.RowStart] || !r.Sound[index.RowFile] {
		r.File = ""
	}
}

// chooseFurthest returns the records that are left of a run: those of one of the files that
// may be its own and of the log behind it, or of the log alone. It takes the records that
// agree best with the row, and those that go furthest of several. known says that the row can be believed.
//
// A run writes to two files in turn, so that a crash leaves one of them whole: usually one has
// the later records, and the other an older state. Files whose chain breaks early, files of a
// purged run of the same id and files under a wrong name are candidates too, and the chain of
// checksums decides. The log continues whichever file ends where it begins.
func (r *repairer) chooseFurthest(id workflow.RunID, row *index.Row, known bool) (best *recovered, broken []error) {
	var found []*recovered
	last := int64(0)
	read := func(files []string) {
		for _, file := range files {
			m, err := r.recoverFile(id, file)
			if err == nil {
				err = m.broken
				found = append(found, m)
				last = max(last, m.seq)
			}
			if err != nil {
				broken = append(broken, fmt.Errorf("%s: %w", file, err))
			}
		}
	}
	// The files that have this run's name come first. Others are read only if these fall short
	// of what the row says was flushed, or if that is not known.
	read(r.filesOf(id, row))
	if row.Flushed > last || !row.Sound[index.RowFile] {
		read(r.otherFile(id, row))
		r.surveyFiles()
		read(r.strays[id])
	}
	// Records that were never flushed are in the log alone, behind nothing.
	if row.Flushed == 0 || len(found) == 0 {
		found = append(found, &recovered{id: id, sum: runfile.FirstSum(id)})
	}
	best, bestFit := &recovered{id: id, sum: runfile.FirstSum(id)}, fitNothing
	var unlogged error
	others := int64(0)
	for _, m := range found {
		var err error
		if row.Num != 0 {
			err = r.recoverLog(m, row.Num)
		}
		fit := m.fitOf(row, known)
		if fit == fitOther {
			others = max(others, m.seq)
		}
		if fit > bestFit || fit == bestFit && m.seq >= best.seq {
			best, bestFit, unlogged = m, fit, err
		}
		if fit == fitWhole {
			break
		}
	}
	if bestFit == fitNothing && others > 0 {
		broken = append(broken, fmt.Errorf("the records in its file, up to %d, are of another run, or of another time than pawl.db: a repair without pawl.db restores them", others))
	}
	r.behind = r.behind || bestFit == fitAhead
	if unlogged != nil {
		broken = append(broken, fmt.Errorf("the log: %w", unlogged))
	}
	return best, broken
}

// A rowFit says how well records agree with a row that can be believed; the higher, the better.
type rowFit int

const (
	fitOther   rowFit = iota // they are those of another run, such as one of the same id that was purged, or of another time
	fitNothing               // there are no records
	fitShort                 // they may be the first of those that the row tells of; likewise without a row to believe
	fitAhead                 // they go on behind the last one that the row tells of: pawl.db is of an earlier time
	fitWhole                 // the last one is that of the row
)

// fitOf returns how well the records agree with a row, which can be believed if known is set.
func (m *recovered) fitOf(row *index.Row, known bool) rowFit {
	switch {
	case m.seq == 0:
		return fitNothing
	case !known || m.seq < row.Seq:
		return fitShort
	case row.Seq < 1 || m.entries[row.Seq-1].Sum != row.Sum:
		return fitOther
	case m.seq > row.Seq:
		return fitAhead
	}
	return fitWhole
}

// otherFile returns the file of a run that its row does not name, if that can be believed and there is one. A row of an
// earlier time may name the one that is gone.
func (r *repairer) otherFile(id workflow.RunID, row *index.Row) []string {
	other := index.FileName(id, row.Nonce, row.Slot.Other())
	if r.Trusted && row.File != "" && slices.Contains(r.files[fileStart(id)], other) {
		return []string{other}
	}
	return nil
}

// filesOf returns the files that may be a run's, by the start of their names and by its
// row. A run of the same id that was purged may have left one behind.
//
// If the index cannot be trusted every file with the start of the name is taken, and so it is
// if the run has no row. Otherwise the row tells the file, or at least the part of the name by
// which this life of the id is told from an earlier one.
func (r *repairer) filesOf(id workflow.RunID, row *index.Row) []string {
	return slices.DeleteFunc(slices.Clone(r.files[fileStart(id)]), func(file string) bool {
		switch {
		case !r.Trusted || row.Num == 0:
			return false
		// The run was never flushed: a file of this name is an earlier run's.
		case row.Sound[index.RowFile] && row.Flushed == 0:
			return true
		case row.File != "":
			return file != row.File
		// The file that the row names is not known, but the two names that the run uses are.
		case row.Sound[index.RowStart]:
			return file != index.FileName(id, row.Nonce, 1) && file != index.FileName(id, row.Nonce, 2)
		}
		return false
	})
}

// joinReasons joins reasons for a message.
func joinReasons(reasons []error) string {
	text := ""
	for _, err := range reasons {
		text += ": " + err.Error()
	}
	return text
}

// reportRun reports how a run is restored, and suspends it if later records may be lost.
// known says that its row can be believed.
//
// Three things may have happened. Everything was sound, and nothing is reported. Something was
// damaged, but the journal reaches to the end that the row tells, or to the end of the run:
// that is a note, as nothing is lost. Or records may be missing: the run is suspended, because
// it would otherwise go on from a past state, and repeat effects, with nobody having been
// asked.
func (r *repairer) reportRun(m *recovered, row *index.Row, known bool, broken []error) {
	// Without a row to compare with, a run that has ended in its journal is taken to be
	// complete.
	whole := m.state.Status.Final()
	fit := m.fitOf(row, known)
	if known {
		whole = fit == fitWhole
	}
	switch {
	case whole && len(broken) == 0 && r.fileSound(row):
		return
	case whole:
		r.report.addFinding(Finding{Run: m.id, File: row.File, What: "it is whole again: everything follows from its journal"})
		return
	}
	what := fmt.Sprintf("it is restored up to record %d, and later ones may be lost", m.seq)
	switch {
	case row.Seq > m.seq:
		what = fmt.Sprintf("it is restored up to record %d of %d", m.seq, row.Seq)
	case fit == fitAhead:
		what = fmt.Sprintf("it is restored up to record %d of its file, though pawl.db is of an earlier time and knows %d", m.seq, row.Seq)
	}
	what += joinReasons(broken)
	// A run that has ended cannot be suspended; the report says so.
	if _, err := state.MoveSuspend.From(m.state.Status); err == nil {
		m.suspendRun(r.to.Epoch(), "repaired: "+what)
	}
	do := "it is suspended: Resume lets it go on from there, Cancel ends it"
	if m.state.Status != workflow.RunSuspended {
		do = "it has ended there, unless more came"
	}
	r.addWrong(m.id, row.File, do, "%s", what)
}

// fileSound reports whether the file that the row names has its checksum. A run that was never
// flushed has none, and nothing is wrong with that.
func (r *repairer) fileSound(row *index.Row) bool {
	if row.File == "" {
		return true
	}
	return r.CheckRunFile(*row) == nil
}

// maxCause bounds the cause of a suspension, in bytes.
const maxCause = 1 << 10

// suspendRun adds the record that suspends a run, as its planner would.
//
// The record is made here and not by a planner, because there is no engine; it has the form
// that the planner gives it, and so a later replay takes it like any other. Its planner version
// is that of the record before. Its instant is now, or that of the last record if the clock is
// behind it: instants in a journal never go back.
func (m *recovered) suspendRun(epoch state.Epoch, cause string) {
	// The cause lists all that was damaged, and may be long. A cut in the middle of a character
	// is mended.
	if len(cause) > maxCause {
		cause = cause[:maxCause] + "..."
	}
	cause = strings.ToValidUTF8(cause, "?")
	last := &m.records[len(m.records)-1]
	at := timeout.Instant(time.Now())
	if at.Before(last.At) {
		at = last.At
	}
	rec := decision.Record{
		Seq: m.seq + 1, At: at, Epoch: epoch, Planner: last.Planner, Message: state.Suspend{Cause: cause},
		Decisions: []decision.Decision{decision.SuspendRun{Failure: workflow.Failure{Code: workflow.CodeInternal, Message: cause, Permanent: true}}},
	}
	e, err := rec.Encode()
	if err != nil {
		panic(fmt.Sprintf("rescue: a suspension: %v", err)) // of text alone
	}
	m.seq, m.sum = rec.Seq, m.sum.SumAfter(&e)
	m.entries, m.records = append(m.entries, &runfile.Entry{Encoded: e, Sum: m.sum}), append(m.records, rec)
	if err := m.applyRecord(&rec); err != nil {
		panic(fmt.Sprintf("rescue: a suspension: %v", err)) // the status allows it
	}
}

// commitRun commits a run and has it flushed.
//
// The head is made from the first record, and not from the row, which may be gone: a start
// names the parent, unless the run is a fork, whose records begin with those of another run. A
// child whose parent is lost is committed as well, and told of: the engine will cancel it when
// it finds no parent.
func (r *repairer) commitRun(m *recovered, row *index.Row) error {
	s := m.state
	head := store.Head{Run: m.id, InputHash: row.InputHash, Tenant: s.Tenant, Labels: s.Labels}
	if start, ok := m.records[0].Message.(state.Start); ok && start.Parent != nil && s.ForkedFrom.Run == "" {
		head.Parent, head.Root = start.Parent.Run, start.Parent.Root
		if !r.restored[head.Parent] && !s.Status.Final() {
			r.report.addFinding(Finding{Run: m.id, What: fmt.Sprintf("its parent, run %q, is lost: it will be cancelled", string(head.Parent))})
		}
	}
	// The hash of the input is what makes a repeated Start no second run, so that it must be
	// there.
	if head.InputHash == "" {
		head.InputHash = value.Hash(s.Input)
	}
	run := r.to.New(head, m.graphs[0])
	a := store.Adoption{Entries: m.entries, Records: m.records, State: s, Artifacts: s.Artifacts, Listings: m.listings}
	// Artifacts of a run that has not completed may have been given up already, which its
	// journal does not tell: the row does.
	if s.Status != workflow.RunCompleted && row.Status == s.Status && row.Sound[index.RowState] {
		a.Artifacts = row.Artifacts // they need not have been kept
	}
	if err := run.Adopt(a); err != nil {
		return err
	}
	r.restored[m.id] = true
	r.report.Runs++
	r.report.Files++
	r.report.Records += m.seq
	// The flush goes on while the next run is restored; how it ended is kept under the lock for
	// restoreAll.
	r.flushing.Add(1)
	run.Flush(s.TakeChanges(), m.events, func(err error) {
		r.mu.Lock()
		r.fault = errors.Join(r.fault, err)
		r.mu.Unlock()
		r.flushing.Done()
	})
	return run.Close()
}

// restoreOutbox copies the events that are not published yet.
//
// An event in the outbox was committed and is not told to others yet. Leaving it out would make
// a gap in what they see, which they could not notice; told twice it does no harm, since each
// has its sequence. They go over in small packs, each in its own commit: the whole outbox may
// not fit into memory.
func (r *repairer) restoreOutbox() error {
	if !r.HasIndex() {
		return nil
	}
	const atOnce = 64
	var rows []store.OutboxRow
	var kept error
	// keep stores the pack that is gathered. After an error it does nothing more, and the error
	// is returned at the end.
	keep := func() {
		if len(rows) > 0 && kept == nil {
			kept = r.to.KeepOutboxRows(rows)
		}
		rows = rows[:0]
	}
	// A row that is damaged costs its events only. Their run still has them in its journal,
	// which whoever takes events can read.
	err := r.EachOutboxRow(func(row *store.OutboxRow) {
		if row.Err != nil {
			r.addDamage(row.Run, index.File, row.Err, "tell whoever takes the events of this run to read them again")
		} else if rows = append(rows, *row); len(rows) == atOnce {
			keep()
		}
	})
	if err != nil {
		r.addDamage("", index.File, err, "events that were not published are lost: tell whoever takes them")
	}
	keep()
	return kept
}
