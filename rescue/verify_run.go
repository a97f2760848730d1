package rescue

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/column"
	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/runfile"
	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/workflow"
)

// verifyRun checks a run and adds its file to those that are named.
//
// The state is made twice, in the two ways in which an engine could come to it: from the file
// and the log behind it, as when a run is activated, and from the first record on. Both must be
// the same, and so must the events; and the row and the lists in pawl.db must say what that
// state says. Each comparison has findings of its own, so that one fault does not hide another.
func (in *inspection) verifyRun(id workflow.RunID, named map[string]bool) {
	in.report.Runs++
	r, err := in.Row(id)
	if r.File != "" {
		named[r.File] = true
		in.report.Files++
	}
	if r.Sound[index.RowStart] && r.Sound[index.RowFile] {
		in.noteOtherFile(&r, named)
	}
	var snap *store.Snapshot
	if err == nil {
		snap, err = in.Snapshot(id)
	}
	if err != nil {
		in.addDamage(id, index.File, err, doRepair)
		// Values are sealed and cannot be opened: the checksums of file, journal and log can be
		// proved nevertheless.
		if errors.Is(err, store.ErrSealed) {
			in.verifyStored(id)
		}
		return
	}
	defer snap.Close()
	in.checkIntegrity(snap)
	// The events of records that only the log has are not in the file yet.
	var later []decision.Event
	s, err := snap.Replay(func(es []decision.Event) { later = append(later, es...) })
	if err != nil {
		in.addDamage(id, index.File, err, doRepair)
		return
	}
	t, err := in.replayJournal(snap)
	if err != nil {
		in.addDamage(id, snap.File, err, doRepair)
		return
	}
	in.report.Records += snap.Seq
	in.compareStates(snap, s, t.state)
	in.compareEvents(snap, later, t)
	in.compareHead(snap, t)
	in.compareLists(snap, t.state)
	in.compareRefs(snap, t)
}

// noteOtherFile notes a second file of a run, unless it is the same as the one that the index names, which has two names then: see
// [index.Slot].
func (in *inspection) noteOtherFile(r *index.Row, named map[string]bool) {
	other := index.FileName(r.Run, r.Nonce, r.Slot.Other())
	info, err := fs.Lstat(in.FS(), other)
	if err != nil || !info.Mode().IsRegular() {
		return // it is not there, or is noted as something foreign
	}
	named[other] = true
	if r.Slot == 2 {
		if own, err := fs.Lstat(in.FS(), r.File); err == nil && os.SameFile(info, own) {
			return
		}
		// A copy of the directory has them as two files.
		if data, err := fs.ReadFile(in.FS(), other); err == nil {
			if sum := sha256.Sum256(data); string(sum[:]) == string(r.FileHash) {
				return
			}
		}
	}
	in.addNote(other, "the next Open removes it, or the next flush of the run writes over it", "two files of run %q: a crash has left this one, which the index does not name", r.Run)
}

// verifyStored checks what can be checked of a run that cannot be opened.
//
// It is what is left to check for a run whose key is missing.
func (in *inspection) verifyStored(id workflow.RunID) {
	if err := in.CheckStored(id); err != nil {
		in.addDamage(id, index.File, err, doRepair)
	}
}

// A replayed run is one as its whole journal makes it.
type replayed struct {
	state  *state.State     // after the last record
	events []decision.Event // of all records, in order
	refs   []index.BlobRef  // blobs that any record refers to
	start  state.Start      // the first message, which has the parent
	terse  int              // events of records of planners whose events told less
}

// forgetAfter is after how many records a replayed state forgets what has changed in it.
//
// A state keeps what has changed since the last flush. In a replay nothing is flushed, and
// without this a journal of a million records would fill the memory.
const forgetAfter = 1000

// replayJournal applies the whole journal of a run.
//
// A record that cannot be applied is damage to the journal, though its checksum holds: it is
// told as that of the file, or of pawl.db, that holds the record.
func (in *inspection) replayJournal(snap *store.Snapshot) (*replayed, error) {
	g, err := in.Graph(snap.Definition)
	if err != nil {
		return nil, err
	}
	t := &replayed{state: state.NewState(snap.Run, g)}
	for e, err := range snap.Journal() {
		if err != nil {
			return nil, err
		}
		if err := t.applyEntry(&e, snap); err != nil {
			return nil, &store.CorruptError{Run: snap.Run, File: snap.SourceOf(e.Seq), What: "the journal cannot be replayed", Err: err}
		}
		if e.Seq%forgetAfter == 0 {
			t.state.TakeChanges() // nobody writes them
		}
	}
	return t, nil
}

// applyEntry decodes a record, takes from it what the comparisons need, and applies it.
func (t *replayed) applyEntry(e *runfile.Entry, snap *store.Snapshot) error {
	r, err := snap.DecodeEntry(e)
	if err != nil {
		return err
	}
	if start, ok := r.Message.(state.Start); ok && r.Seq == 1 {
		t.start = start
	}
	t.refs = index.AppendRefs(t.refs, &r, t.state.Graph)
	err = runfile.ApplyRecord(t.state, &r, func(es []decision.Event) { t.events = append(t.events, es...) })
	// Records of planners before DetailedSince have events with fewer particulars than the same
	// record gives now. They come first in a journal, so that a number of events tells which
	// these are.
	if r.Planner < decision.DetailedSince {
		t.terse = len(t.events)
	}
	return err
}

// compareStates compares the state of the file and the log with the one that the journal
// makes.
// The fields of the rows are compared one by one only to say which of them differ.
func (in *inspection) compareStates(snap *store.Snapshot, s, replayed *state.State) {
	have, want := s.AllRows(), replayed.AllRows()
	if reflect.DeepEqual(have, want) {
		return
	}
	var parts []string
	h, w := reflect.ValueOf(have), reflect.ValueOf(want)
	for i := range h.NumField() {
		if !reflect.DeepEqual(h.Field(i).Interface(), w.Field(i).Interface()) {
			parts = append(parts, strings.ToLower(h.Type().Field(i).Name))
		}
	}
	in.addWrong(snap.Run, snap.File, doRebuild, "its state is not what its journal tells: %s", strings.Join(parts, ", "))
}

// compareEvents compares the events of the file, and those of the log, with the events
// that the journal makes.
//
// They are counted through: event n of the file, or of the log behind it, must be event n of
// the replay. The first difference ends the comparison, as all that follow would differ as
// well.
func (in *inspection) compareEvents(snap *store.Snapshot, later []decision.Event, t *replayed) {
	n, replayed := 0, t.events
	differs := func(e *decision.Event) bool {
		if n++; n > len(replayed) || !sameEvent(e, &replayed[n-1], n <= t.terse) {
			in.addWrong(snap.Run, snap.File, doRebuild, "event %d is not what its journal tells", n)
			return true
		}
		return false
	}
	for e, err := range runfile.ReadEvents(snap.Content, 0) {
		if err != nil {
			in.addDamage(snap.Run, snap.File, err, doRebuild)
			return
		}
		if differs(&e) {
			return
		}
	}
	for i := range later {
		if differs(&later[i]) {
			return
		}
	}
	if n < len(replayed) {
		in.addWrong(snap.Run, snap.File, doRebuild, "it lacks events from %d on", n+1)
	}
}

// sameEvent reports whether an event is as a journal makes it, terse ones but for the
// particulars.
//
// Fields that a terse event lacks are left to the record; who, when and where must be the same.
func sameEvent(have, want *decision.Event, terse bool) bool {
	if !terse {
		return reflect.DeepEqual(*have, *want)
	}
	return have.Seq == want.Seq && have.Record == want.Record && have.At.Equal(want.At) && have.Type == want.Type && have.Token == want.Token && have.Node == want.Node
}

// compareHead compares the row of a run with the state that its journal makes.
//
// The row is what lists show without opening the run, and what an engine goes by when it opens:
// a wrong alarm would let a run sleep for ever. Instants are compared in milliseconds, as the
// columns have them. The artifacts of a run that has not completed are not in its row as they
// are in its state.
func (in *inspection) compareHead(snap *store.Snapshot, t *replayed) {
	h, s := &snap.Head, t.state
	var parent, root workflow.RunID
	if p := t.start.Parent; p != nil && s.ForkedFrom.Run == "" {
		parent, root = p.Run, p.Root
	}
	instants := func(a, b time.Time) bool { return column.Millis(a) == column.Millis(b) }
	agrees := []struct {
		what string
		ok   bool
	}{
		{"status", h.Status == s.Status},
		{"alarm", instants(h.Alarm, s.Alarm())},
		{"start", instants(h.StartedAt, s.StartedAt)},
		{"end", instants(h.EndedAt, s.EndedAt)},
		{"output", reflect.DeepEqual(h.Output, s.Output)},
		{"failure", sameFailure(h.Failure, s)},
		{"parent", h.Parent == parent && h.Root == root},
		{"tenant", h.Tenant == s.Tenant},
		{"run that it was forked from", h.ForkedFrom == s.ForkedFrom},
		{"labels", maps.Equal(h.Labels, s.Labels)},
		{"artifacts", s.Status != workflow.RunCompleted || index.ArtifactsText(h.Artifacts) == index.ArtifactsText(s.Artifacts)},
	}
	for _, a := range agrees {
		if !a.ok {
			in.addWrong(snap.Run, index.File, doRebuild, "the %s in its row is not what its journal tells", a.what)
		}
	}
}

// sameFailure reports whether the failure in the row of a run is that of its state. That of a run that goes on
// is an incident, which rows lack that were written before incidents were noted.
func sameFailure(f *workflow.Failure, s *state.State) bool {
	return f == nil && s.Failure == nil || reflect.DeepEqual(column.FailureText(f), column.FailureText(s.FailureOrIncident()))
}

const (
	approvalsOf   = `SELECT token, node, message, input, approved, rejected, due FROM approvals WHERE num = ? ORDER BY token`
	deadLettersOf = `SELECT token, node, task, attempts, failure, input FROM dead_letters WHERE num = ? ORDER BY token`
)

// compareLists compares the rows of a run in the lists of all runs with its state.
//
// Each row and each token that should have one is written as a text; the two sets of texts must
// be equal. Entries that should not be in the list are told apart from missing ones. A text
// that cannot be opened differs, and is found by that.
func (in *inspection) compareLists(snap *store.Snapshot, s *state.State) {
	want, have := map[string]bool{}, map[string]bool{}
	approvals, letters := store.WaitingTokens(s)
	for _, a := range approvals {
		want[fmt.Sprint("approval of token ", int64(a.Token), " ", a.Node, " ", a.Message, " ", string(value.Encode(a.Input)), " ", a.Approved, " ", a.Rejected, " ", column.Millis(a.Due))] = true
	}
	for _, d := range letters {
		want[fmt.Sprint("dead letter of token ", int64(d.Token), " ", d.Node, " ", d.Task, " ", d.Attempts, " ", column.JSONText(d.Failure), " ", string(value.Encode(d.Input)))] = true
	}
	in.eachIndexRow(approvalsOf, func(r *sqlite.Row) error {
		message, input, _ := in.OpenListed(snap.Run, workflow.TokenID(r.Int64(0)), r.Text(2), r.Text(3)) // or it is found to be wrong
		have[fmt.Sprint("approval of token ", r.Int64(0), " ", r.Text(1), " ", message, " ", input, " ", r.Int(4), " ", r.Int(5), " ", column.Millis(column.TimeAt(r, 6)))] = true
		return nil
	}, snap.Num)
	in.eachIndexRow(deadLettersOf, func(r *sqlite.Row) error {
		failure, input, _ := in.OpenListed(snap.Run, workflow.TokenID(r.Int64(0)), r.Text(4), r.Text(5)) // or it is found to be wrong
		have[fmt.Sprint("dead letter of token ", r.Int64(0), " ", r.Text(1), " ", r.Text(2), " ", r.Int(3), " ", failure, " ", input)] = true
		return nil
	}, snap.Num)
	for _, l := range slices.Sorted(maps.Keys(want)) {
		if !have[l] {
			in.addWrong(snap.Run, index.File, doRebuild, "the lists of all runs lack the %s", l)
		}
	}
	for _, l := range slices.Sorted(maps.Keys(have)) {
		if !want[l] {
			in.addWrong(snap.Run, index.File, doRebuild, "the lists of all runs have a wrong %s", l)
		}
	}
}

// compareRefs checks that every blob that the run refers to is listed. Blobs of artifacts need
// not be after a run has failed.
func (in *inspection) compareRefs(snap *store.Snapshot, t *replayed) {
	if len(t.refs) == 0 {
		return
	}
	have := in.refsOf(snap.Num)
	for _, ref := range t.refs {
		if have[ref.Hash] || ref.Artifact && t.state.Status.Final() && t.state.Status != workflow.RunCompleted {
			continue
		}
		have[ref.Hash] = true // said once
		in.addWrong(snap.Run, index.File, doRebuild, "the list of references lacks %s, which might be collected", ref.Hash)
	}
}

// checkIntegrity has SQLite check the file of a run.
//
// The checksum of the file has been proved before; this finds what was wrong as the file was
// written.
func (in *inspection) checkIntegrity(snap *store.Snapshot) {
	text := ""
	err := snap.ReadDatabase(func(db *sqlite.Conn) (err error) { text, err = index.IntegrityFaults(db); return err })
	if err != nil {
		in.addDamage(snap.Run, snap.File, err, doRepair)
	}
	if text != "" {
		in.addWrong(snap.Run, snap.File, doRepair, "SQLite's integrity check says: %s", text)
	}
}
