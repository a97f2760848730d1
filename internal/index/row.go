package index

import (
	"database/sql/driver"
	"encoding/json"
	"slices"
	"time"

	"github.com/pawl-run/pawl/internal/column"
	"github.com/pawl-run/pawl/internal/runfile"
	"github.com/pawl-run/pawl/internal/seal"
	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/workflow"
)

// A Head is a run's row in the index: what can be known of it without loading
// it. It is never behind the run.
type Head struct {
	Run        workflow.RunID
	Workflow   string
	Version    int
	Definition string            // hash
	InputHash  string            // tells a repeated start from another one
	Parent     workflow.RunID    // "" without
	Root       workflow.RunID    // the first of its ancestors; "" without
	Tenant     string            // on whose behalf; "" without
	Labels     map[string]string // nil without
	Room       int               // of a root: how many descendants it may still have
	StartedAt  time.Time
	ForkedFrom workflow.ForkPoint // zero of a run that was started

	// The rest changes with commits.
	Status    workflow.RunStatus
	Seq       int64               // of the last record
	At        time.Time           // of the last record
	Alarm     time.Time           // when time alone changes the run; zero if never
	EndedAt   time.Time           // zero while it runs
	Output    map[string]any      // of a completed run
	Failure   *workflow.Failure   // of any other end, or why it is suspended
	Artifacts []workflow.Artifact // of a run that has ended

	File string // of the run, below the directory; "" before it has one
}

// Outcome returns how the run ended, or how it stands.
func (h *Head) Outcome() workflow.Outcome {
	return workflow.Outcome{
		Run: h.Run, Status: h.Status, Output: h.Output, Failure: h.Failure,
		StartedAt: h.StartedAt, EndedAt: h.EndedAt, Artifacts: h.Artifacts,
	}
}

// A Row is a Head with what only the store knows of the run: all columns of its row.
type Row struct {
	Head
	Num        int64              // of the run
	Nonce      uint64             // of the names of its files
	Sum        runfile.Checksum   // of the last record
	Slot       Slot               // of its file
	Flushed    int64              // sequence of the last record in its file
	FlushedSum runfile.Checksum   // of that record
	FileHash   []byte             // SHA-256 of its file
	FileSize   int64              // in bytes
	labels     string             // Labels, until DecodeTexts
	texts      [3]string          // Output, Failure and Artifacts, likewise
	Sound      [RowPartCount]bool // by part: it is what was written
}

// RunColumns selects the columns that ScanRow reads, from all runs.
const RunColumns = `SELECT num,
		id, workflow, version, definition, input_hash, parent, root, tenant, labels, nonce, started_at, forked_from, forked_record, start_crc,
		room, room_crc,
		status, alarm, ended_at, output, failure, artifacts, state_crc,
		seq, sum, at, last_crc,
		slot, filed, filed_sum, file_hash, file_size, file_crc FROM runs `

// The parts of a row. Each is written by itself and has a checksum. They are the indices of Sound.
const (
	RowStart = iota
	RowRoom
	RowState
	RowLast
	RowFile
	RowPartCount
)

// rowParts are the first columns of the parts, as RunColumns has them, and the
// columns of their checksums.
var rowParts = [RowPartCount]struct{ first, crc int }{{1, 14}, {15, 16}, {17, 23}, {24, 27}, {28, 33}}

// ScanRow reads a row of RunColumns. DecodeTexts is still to decode the row.
func ScanRow(r *sqlite.Row) Row {
	out := scanStart(r)
	out.Slot, out.Flushed, out.FileHash, out.FileSize = Slot(r.Int64(28)), r.Int64(29), r.Bytes(31), r.Int64(32)
	out.Room, out.Seq, out.At = r.Int(15), r.Int64(24), column.TimeAt(r, 26)
	out.scanState(r, rowParts[RowState].first)
	out.Sound[RowState] = out.Status <= workflow.RunCancelled
	out.Sound[RowLast] = out.Sum.SetBytes(r.Bytes(25))
	out.Sound[RowFile] = out.hasFile(r.Bytes(30))
	out.Sound[RowStart], out.Sound[RowRoom] = true, true
	for i, p := range rowParts {
		out.Sound[i] = out.Sound[i] && CRCMatches(r, p.first, p.crc)
	}
	return out
}

// scanStart reads the number of a row, and what does not change, from columns 0 to 13.
func scanStart(r *sqlite.Row) Row {
	out := Row{Num: r.Int64(0), Nonce: uint64(r.Int64(10)), labels: r.Text(9)}
	out.Head = Head{
		Run: workflow.RunID(r.Text(1)), Workflow: r.Text(2), Version: r.Int(3), Definition: r.Text(4),
		InputHash: r.Text(5), Parent: workflow.RunID(r.Text(6)), Root: workflow.RunID(r.Text(7)), Tenant: r.Text(8), StartedAt: column.TimeAt(r, 11),
		ForkedFrom: workflow.ForkPoint{Run: workflow.RunID(r.Text(12)), Record: r.Int64(13)},
	}
	return out
}

// scanState reads what some commits change, from a column on.
func (r *Row) scanState(x *sqlite.Row, first int) {
	r.Status, r.Alarm, r.EndedAt = workflow.RunStatus(x.Int64(first)), column.TimeAt(x, first+1), column.TimeAt(x, first+2)
	r.texts = [3]string{x.Text(first + 3), x.Text(first + 4), x.Text(first + 5)}
}

// PurgedColumns are the columns that ScanPurged reads, of rows that a statement deletes: all that a purge needs. A text that is
// large is left out, so that the row is not sound: of many runs they would take much memory.
const PurgedColumns = `num,
		id, workflow, version, definition, input_hash, parent, root, tenant, labels, nonce, started_at, forked_from, forked_record, start_crc,
		status, alarm, ended_at, iif(octet_length(output) > 4096, '', output), iif(octet_length(failure) > 4096, '', failure),
		iif(octet_length(artifacts) > 4096, '', artifacts), state_crc,
		seq, filed, file_size`

// ScanPurged reads a row of PurgedColumns, without room, last record, file, output and artifacts, and reports whether it is what
// was written, and could be decoded. A row with sealed texts is not: somebody has to open them.
func ScanPurged(r *sqlite.Row) (out Row, sound bool) {
	const state, crc = 15, 21
	out = scanStart(r)
	out.scanState(r, state)
	out.Seq, out.Flushed, out.FileSize = r.Int64(22), r.Int64(23), r.Int64(24)
	sealed := seal.IsSealed(out.InputHash) || slices.ContainsFunc(out.texts[:], seal.IsSealed)
	out.texts[0], out.texts[2] = "", ""
	start := rowParts[RowStart]
	sound = !sealed && out.Status <= workflow.RunCancelled && CRCMatches(r, start.first, start.crc) && CRCMatches(r, state, crc)
	return out, sound && out.DecodeTexts() == nil
}

// SizeColumns selects the columns that ScanSize reads, from all runs, in the order of their numbers behind one: what tells how large
// the files of runs are. A text that is large is not read: of many runs that would take most of the time.
const SizeColumns = `SELECT num,
		id, workflow, version, definition, input_hash, parent, root, tenant, labels, nonce, started_at, forked_from, forked_record, start_crc,
		status, alarm, ended_at, iif(octet_length(output) > 4096, '', output), iif(octet_length(failure) > 4096, '', failure),
		iif(octet_length(artifacts) > 4096, '', artifacts), state_crc,
		slot, filed, filed_sum, file_hash, file_size, file_crc,
		max(coalesce(octet_length(output), 0), coalesce(octet_length(failure), 0), coalesce(octet_length(artifacts), 0)) > 4096,
		iif(root = '' OR status < 4, status, (SELECT status FROM runs AS above WHERE above.id = runs.root))
	FROM runs WHERE num > ? ORDER BY num LIMIT ?`

// ScanSize reads a row of SizeColumns, without labels, room, last record and texts. It reports whether it is what was
// written, as far as that is known without a large text, and whether the run has ended, and the first of its ancestors, if that is there:
// one that is not what was written has no size and no end.
func ScanSize(r *sqlite.Row) (out Row, sound, ended bool) {
	const state, stateCRC, file, fileCRC, large, top = 15, 21, 22, 27, 28, 29
	out = scanStart(r)
	out.scanState(r, state)
	out.labels, out.texts = "", [3]string{}
	out.Slot, out.Flushed, out.FileHash, out.FileSize = Slot(r.Int64(file)), r.Int64(file+1), r.Bytes(file+3), r.Int64(file+4)
	start := rowParts[RowStart]
	sound = out.Status <= workflow.RunCancelled && (r.Int64(large) != 0 || CRCMatches(r, state, stateCRC)) && CRCMatches(r, start.first, start.crc) &&
		out.hasFile(r.Bytes(file+2)) && CRCMatches(r, file, fileCRC)
	if !sound {
		out.FileSize = 0
	}
	return out, sound, sound && out.Status.Final() && (r.Null(top) || r.Int64(top) >= int64(workflow.RunCompleted))
}

// StartColumns selects the columns that ScanDefinition reads, from all runs.
const StartColumns = `SELECT num, id, workflow, version, definition, input_hash, parent, root, tenant, labels, nonce, started_at, forked_from, forked_record, start_crc FROM runs `

// ScanDefinition reads of a row of StartColumns the number of the run, its id and the hash of its definition, and reports
// whether they are sound.
func ScanDefinition(r *sqlite.Row) (num int64, id workflow.RunID, hash string, sound bool) {
	part := rowParts[RowStart]
	return r.Int64(0), workflow.RunID(r.Text(1)), r.Text(4), CRCMatches(r, part.first, part.crc)
}

// FileColumns selects the columns that ScanFile reads, from the run with a number.
const FileColumns = `SELECT num, slot, filed, filed_sum, file_hash, file_size, file_crc FROM runs WHERE num = ?`

// ScanFile reads what a row of FileColumns says of the run's file into a row that has the
// run, its number and its nonce, and reports whether it is sound.
func ScanFile(r *Row, x *sqlite.Row) bool {
	r.Slot, r.Flushed, r.FileHash, r.FileSize = Slot(x.Int64(1)), x.Int64(2), x.Bytes(4), x.Int64(5)
	r.Sound[RowFile] = r.hasFile(x.Bytes(3)) && CRCMatches(x, 1, 6)
	return r.Sound[RowFile]
}

// hasFile sets the checksum of the last record in the file, and the file's name, and reports
// whether the row may be one of a file, or of none.
func (r *Row) hasFile(sum []byte) bool {
	if r.Slot == 1 || r.Slot == 2 {
		r.File = FileName(r.Run, r.Nonce, r.Slot)
	}
	return (r.Flushed == 0 || r.FlushedSum.SetBytes(sum)) && r.Slot <= 2 && (r.Slot == 0) == (r.Flushed == 0)
}

// IsDamaged reports whether a part of a row that was read is not what was written.
func (r *Row) IsDamaged() bool { return slices.Contains(r.Sound[:], false) }

// TextBytes returns the size of what DecodeTexts is still to decode.
func (r *Row) TextBytes() int { return len(r.texts[0]) + len(r.texts[1]) + len(r.texts[2]) }

// DecodeLabels decodes the labels of a row that was read, unless they were decoded before.
func (r *Row) DecodeLabels() error {
	if r.labels == "" {
		return nil
	}
	labels := r.labels
	r.labels = ""
	return json.Unmarshal([]byte(labels), &r.Labels)
}

// DecodeTexts decodes the labels, the output, the failure and the artifacts of a row that was
// read. They may be large.
func (r *Row) DecodeTexts() (err error) {
	texts := r.texts
	r.texts = [3]string{}
	if err := r.DecodeLabels(); err != nil {
		return err
	}
	r.Output, err = column.ParseObject(texts[0])
	if err == nil {
		r.Failure, err = column.ParseFailure(texts[1])
	}
	if err == nil && texts[2] != "" {
		err = json.Unmarshal([]byte(texts[2]), &r.Artifacts)
	}
	return err
}

// LabelsText returns labels as the row of a run has them: JSON, sorted by key; "" for none.
func LabelsText(labels map[string]string) string {
	if len(labels) == 0 {
		return ""
	}
	text, _ := column.JSONText(labels).(string)
	return text
}

// ArtifactsText returns artifacts as the row of a run has them: JSON, NULL for none.
func ArtifactsText(as []workflow.Artifact) driver.Value {
	if len(as) == 0 {
		return nil
	}
	return column.JSONText(as)
}
