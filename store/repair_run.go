package store

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/timeout"
	"github.com/pawl-run/pawl/workflow"
)

// restoreRun restores what is left of one run.
func (r *repairer) restoreRun(id workflow.RunID) error {
	row, err := r.rowOf(id)
	row.believe()
	known := r.trusted && row.sound[rowLast]
	var broken []error
	var damage *CorruptError
	if errors.As(err, &damage) {
		broken = append(broken, errors.New(damage.What))
	} else if err != nil && !errors.Is(err, ErrRunNotFound) {
		broken = append(broken, err)
	}
	m, more := r.furthest(id, &row, known)
	broken = append(broken, more...)
	if g := r.graph(row.Definition); g != nil && row.num != 0 {
		m.graphs = append([]*workflow.Graph{g}, m.graphs...)
	}
	if err := m.retell(); err != nil {
		broken = append(broken, err)
	}
	if m.state == nil {
		r.wrong(id, row.File, "start it again if it is still wanted", "nothing is left of it%s", because(broken))
		return nil
	}
	r.say(m, &row, known, broken)
	return r.keepRun(m, &row)
}

// believe drops what is not what was written. (That a definition has the hash in the
// row proves that hash.)
func (r *row) believe() {
	if !r.sound[rowStart] {
		r.InputHash = ""
	}
	if !r.sound[rowLast] {
		r.Seq = 0
	}
	if !r.sound[rowFile] {
		r.filed = 0
	}
	if !r.sound[rowStart] || !r.sound[rowFile] {
		r.File = ""
	}
}

// furthest returns what is left of a run: from one of the files that may be its own
// and the log behind it, or from the log alone. What ends where the row says is it,
// or else what goes furthest; but nothing goes further than a row that can be believed
// in that, which known says.
func (r *repairer) furthest(id workflow.RunID, row *row, known bool) (best *remnant, broken []error) {
	var found []*remnant
	last := int64(0)
	read := func(files []string) {
		for _, file := range files {
			m, err := r.salvage(id, file)
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
	if row.filed > last || !row.sound[rowFile] {
		r.survey()
		read(r.strays[id])
	}
	if row.filed == 0 || len(found) == 0 {
		found = append(found, &remnant{id: id, sum: firstSum(id)})
	}
	best = &remnant{id: id, sum: firstSum(id)}
	var unlogged error
	for _, m := range found {
		var err error
		if row.num != 0 {
			err = r.salvageLog(m, row.num)
		}
		exact := known && m.seq == row.Seq && m.sum == row.sum
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

// filesOf returns the files that may be a run's: by the start of their names, and by
// what its row says of them. A run that was purged may have left one behind.
func (r *repairer) filesOf(id workflow.RunID, row *row) []string {
	return slices.DeleteFunc(slices.Clone(r.files[fileStart(id)]), func(file string) bool {
		switch {
		case !r.trusted || row.num == 0:
			return false
		case row.sound[rowFile] && row.filed == 0:
			return true
		case row.File != "":
			return file != row.File
		case row.sound[rowStart]:
			return file != fileName(id, row.nonce, 1) && file != fileName(id, row.nonce, 2)
		}
		return false
	})
}

// because joins reasons for a message.
func because(reasons []error) string {
	text := ""
	for _, err := range reasons {
		text += ": " + err.Error()
	}
	return text
}

// rowOf returns the row of a run. It fails with ErrRunNotFound if the index does
// not have it, or cannot be read.
func (r *repairer) rowOf(id workflow.RunID) (row, error) {
	if r.db == nil {
		return row{}, ErrRunNotFound
	}
	out, err := r.row(id)
	if out.num == 0 && err != nil { // the index over ids may be what is damaged
		_ = r.read(func(db *sqlite.Conn) (err error) { // as if it were not there
			_, err = db.One(scanHead, func(x *sqlite.Row) error { out = readRow(x); return nil }, string(id))
			return err
		})
		if out.num != 0 {
			err = out.decode(r.Dir)
		}
	}
	return out, err
}

// say reports how a run is restored, and suspends it if it may have gone on.
// known says that its row can be believed.
func (r *repairer) say(m *remnant, row *row, known bool, broken []error) {
	whole := m.state.Status.Final()
	if known {
		whole = m.seq == row.Seq && m.sum == row.sum
	}
	switch {
	case whole && len(broken) == 0 && r.fileSound(row):
		return
	case whole:
		r.report.add(Finding{Run: m.id, File: row.File, What: "it is whole again: everything follows from its journal"})
		return
	}
	what := fmt.Sprintf("it is restored up to record %d, and later ones may be lost", m.seq)
	if row.Seq > m.seq {
		what = fmt.Sprintf("it is restored up to record %d of %d", m.seq, row.Seq)
	}
	what += because(broken)
	if _, err := m.state.Status.Next(workflow.MoveSuspend); err == nil {
		m.suspend(r.to.Epoch(), "repaired: "+what)
	}
	do := "it is suspended: Resume lets it go on from there, Cancel ends it"
	if m.state.Status != workflow.RunSuspended {
		do = "it has ended there, unless more came"
	}
	r.wrong(m.id, row.File, do, "%s", what)
}

func (r *repairer) fileSound(row *row) bool {
	if row.File == "" {
		return true
	}
	_, err := r.readRunFile(row)
	return err == nil
}

// maxCause bounds the cause of a suspension, in bytes.
const maxCause = 1 << 10

// suspend adds the record that suspends a run, as its planner would.
func (m *remnant) suspend(epoch workflow.Epoch, cause string) {
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
		Seq: m.seq + 1, At: at, Epoch: epoch, Planner: last.Planner, Message: workflow.Suspend{Cause: cause},
		Decisions: []decision.Decision{decision.SuspendRun{Failure: workflow.Failure{Code: workflow.CodeInternal, Message: cause, Permanent: true}}},
	}
	e, err := rec.Encode()
	if err != nil {
		panic(fmt.Sprintf("store: a suspension: %v", err)) // of text alone
	}
	m.seq, m.sum = rec.Seq, m.sum.next(&e)
	m.entries, m.records = append(m.entries, entry{Encoded: e, sum: m.sum}), append(m.records, rec)
	if err := m.fold(&rec); err != nil {
		panic(fmt.Sprintf("store: a suspension: %v", err)) // the status allows it
	}
}

// keepRun commits a run and has it filed.
func (r *repairer) keepRun(m *remnant, row *row) error {
	s := m.state
	head := Head{Run: m.id, InputHash: row.InputHash}
	if start, ok := m.records[0].Message.(workflow.Start); ok && start.Parent != nil {
		head.Parent, head.Root = start.Parent.Run, start.Parent.Root
		if !r.restored[head.Parent] && !s.Status.Final() {
			r.report.add(Finding{Run: m.id, What: fmt.Sprintf("its parent, run %q, is lost: it will be cancelled", string(head.Parent))})
		}
	}
	if head.InputHash == "" {
		head.InputHash = value.Hash(s.Input)
	}
	run := r.to.New(head, m.graphs[0])
	head.StartedAt, head.Status, head.Alarm, head.EndedAt = s.StartedAt, s.Status, alarmOf(s), s.EndedAt
	head.Output, head.Failure, head.Artifacts = s.Output, s.Failure, s.Artifacts
	if s.Status != workflow.RunCompleted && row.Status == s.Status && row.sound[rowState] {
		head.Artifacts = row.Artifacts // they need not have been kept
	}
	head.Dropped = s.Status.Final() && len(head.Artifacts) == 0
	for _, id := range slices.Sorted(maps.Keys(m.listings)) {
		head.Listings = append(head.Listings, m.listings[id])
	}
	if err := run.adopt(m.entries, m.records, head); err != nil {
		return err
	}
	r.restored[m.id] = true
	r.report.Runs++
	r.report.Files++
	r.report.Records += m.seq
	r.filing.Add(1)
	run.Materialize(s.TakeChanges(), m.events, func(err error) {
		r.mu.Lock()
		r.fault = errors.Join(r.fault, err)
		r.mu.Unlock()
		r.filing.Done()
	})
	return run.Close()
}
