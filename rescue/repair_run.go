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
func (r *repairer) restoreRun(id workflow.RunID) error {
	row, err := r.FindRow(id)
	dropDamaged(&row)
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
	if g := r.findGraph(row.Definition); g != nil && row.Num != 0 {
		m.graphs = append([]*workflow.Graph{g}, m.graphs...)
	}
	if err := m.replayAll(); err != nil {
		broken = append(broken, err)
	}
	if m.state == nil {
		r.addWrong(id, row.File, "start it again if it is still wanted", "nothing is left of it%s", joinReasons(broken))
		return nil
	}
	r.reportRun(m, &row, known, broken)
	return r.commitRun(m, &row)
}

// dropDamaged clears the fields of the parts that are damaged. (A definition that has the
// hash in the row proves that hash.)
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
// end where the row says, or else those that go furthest. If known is set the row can be
// believed, and no records may go further.
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
	read(r.filesOf(id, row))
	if row.Flushed > last || !row.Sound[index.RowFile] {
		r.surveyFiles()
		read(r.strays[id])
	}
	if row.Flushed == 0 || len(found) == 0 {
		found = append(found, &recovered{id: id, sum: runfile.FirstSum(id)})
	}
	best = &recovered{id: id, sum: runfile.FirstSum(id)}
	var unlogged error
	for _, m := range found {
		var err error
		if row.Num != 0 {
			err = r.recoverLog(m, row.Num)
		}
		exact := known && m.seq == row.Seq && m.sum == row.Sum
		if exact {
			best, unlogged = m, err
			break
		}
		if m.seq >= best.seq && (!known || m.seq < row.Seq) {
			best, unlogged = m, err
		}
	}
	if unlogged != nil {
		broken = append(broken, fmt.Errorf("the log: %w", unlogged))
	}
	return best, broken
}

// filesOf returns the files that may be a run's, by the start of their names and by its
// row. A run of the same id that was purged may have left one behind.
func (r *repairer) filesOf(id workflow.RunID, row *index.Row) []string {
	return slices.DeleteFunc(slices.Clone(r.files[fileStart(id)]), func(file string) bool {
		switch {
		case !r.Trusted || row.Num == 0:
			return false
		case row.Sound[index.RowFile] && row.Flushed == 0:
			return true
		case row.File != "":
			return file != row.File
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
func (r *repairer) reportRun(m *recovered, row *index.Row, known bool, broken []error) {
	whole := m.state.Status.Final()
	if known {
		whole = m.seq == row.Seq && m.sum == row.Sum
	}
	switch {
	case whole && len(broken) == 0 && r.fileSound(row):
		return
	case whole:
		r.report.addFinding(Finding{Run: m.id, File: row.File, What: "it is whole again: everything follows from its journal"})
		return
	}
	what := fmt.Sprintf("it is restored up to record %d, and later ones may be lost", m.seq)
	if row.Seq > m.seq {
		what = fmt.Sprintf("it is restored up to record %d of %d", m.seq, row.Seq)
	}
	what += joinReasons(broken)
	if _, err := m.state.Status.Next(workflow.MoveSuspend); err == nil {
		m.suspendRun(r.to.Epoch(), "repaired: "+what)
	}
	do := "it is suspended: Resume lets it go on from there, Cancel ends it"
	if m.state.Status != workflow.RunSuspended {
		do = "it has ended there, unless more came"
	}
	r.addWrong(m.id, row.File, do, "%s", what)
}

func (r *repairer) fileSound(row *index.Row) bool {
	if row.File == "" {
		return true
	}
	return r.CheckRunFile(*row) == nil
}

// maxCause bounds the cause of a suspension, in bytes.
const maxCause = 1 << 10

// suspendRun adds the record that suspends a run, as its planner would.
func (m *recovered) suspendRun(epoch workflow.Epoch, cause string) {
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
		panic(fmt.Sprintf("store: a suspension: %v", err)) // of text alone
	}
	m.seq, m.sum = rec.Seq, m.sum.SumAfter(&e)
	m.entries, m.records = append(m.entries, runfile.Entry{Encoded: e, Sum: m.sum}), append(m.records, rec)
	if err := m.applyRecord(&rec); err != nil {
		panic(fmt.Sprintf("store: a suspension: %v", err)) // the status allows it
	}
}

// commitRun commits a run and has it flushed.
func (r *repairer) commitRun(m *recovered, row *index.Row) error {
	s := m.state
	head := store.Head{Run: m.id, InputHash: row.InputHash, Tenant: s.Tenant, Labels: s.Labels}
	if start, ok := m.records[0].Message.(state.Start); ok && start.Parent != nil && s.ForkedFrom.Run == "" {
		head.Parent, head.Root = start.Parent.Run, start.Parent.Root
		if !r.restored[head.Parent] && !s.Status.Final() {
			r.report.addFinding(Finding{Run: m.id, What: fmt.Sprintf("its parent, run %q, is lost: it will be cancelled", string(head.Parent))})
		}
	}
	if head.InputHash == "" {
		head.InputHash = value.Hash(s.Input)
	}
	run := r.to.New(head, m.graphs[0])
	a := store.Adoption{Entries: m.entries, Records: m.records, State: s, Artifacts: s.Artifacts, Listings: m.listings}
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
	r.flushing.Add(1)
	run.Flush(s.TakeChanges(), m.events, func(err error) {
		r.mu.Lock()
		r.fault = errors.Join(r.fault, err)
		r.mu.Unlock()
		r.flushing.Done()
	})
	return run.Close()
}
