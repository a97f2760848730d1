package store

import (
	"database/sql/driver"
	"errors"
	"io"
	"os"
	"strings"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/codec"
	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/runfile"
	"github.com/pawl-run/pawl/internal/seal"
	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/workflow"
)

// With a codec, what holds values is sealed on its way to the disk and opened on its way
// back, here and nowhere else: records, before they get their checksums, so that these are of
// what is stored; the files of runs as a whole, before they are hashed; and the columns of
// pawl.db that have values. Numbers, ids, instants, statuses and hashes stay in clear: everything
// that is needed to see whether a directory is whole can be seen without the key.

// Codec stands between values and the disk.
type Codec = seal.Codec

// A SealedError names a value that is sealed and cannot be read, and the key that it needs.
type SealedError = seal.Error

// ErrSealed says that a value is sealed and cannot be read. It is always a *SealedError.
var ErrSealed = seal.ErrSealed

// markText is what the mark of a directory is sealed from: a row that says that
// there are sealed values, and by which it is seen at once that a key is missing.
const markText = "pawl"

// checkMark fails with a *SealedError if the directory has sealed values and the codec
// cannot open its mark.
//
// A wrong key is noticed here, before any run is loaded and before anything is sealed with it.
func (d *Dir) checkMark() error {
	mark, err := index.ReadSealMark(d.db)
	if errors.Is(err, index.ErrDamagedSecret) {
		return &CorruptError{File: d.pathOf(indexFile), What: "the mark of sealed values in its table meta is damaged"}
	}
	if err != nil {
		return d.indexError(err)
	}
	if _, err = d.sealer.OpenText(index.MarkPlace, mark); err == nil {
		d.markKey = seal.KeyOf(mark)
	}
	return err
}

// keepMark marks the directory as one with values that are sealed with today's key.
//
// With a new key of a codec that still has the former one, the mark changes, and values are
// sealed with the new key from then on; those that are there stay as they are.
func (d *Dir) keepMark() error {
	if d.markKey == d.sealer.KeyID() {
		return nil
	}
	mark, err := d.sealer.SealText(index.MarkPlace, markText)
	if err != nil {
		return err
	}
	return d.indexError(index.KeepSealMark(d.db, mark))
}

// sealEntry seals what a record of a run holds.
//
// The message, the decisions and the large values become one text, which takes the place of the
// message: so a sealed record is a row of the log like any other.
func (d *Dir) sealEntry(id workflow.RunID, e *runfile.Entry) error {
	text, err := d.sealer.SealText(index.RecordPlace(id, e.Seq), string(index.PackEntry(e)))
	if err != nil {
		return err
	}
	e.Message, e.Decisions, e.Values = []byte(text), []byte{}, &codec.Values{}
	return nil
}

// openEntry returns a record of a run as it was before it was sealed, if it was.
func (d *Dir) openEntry(id workflow.RunID, e *runfile.Entry) (runfile.Entry, error) {
	if !seal.IsSealed(e.Message) {
		return *e, nil
	}
	text, err := d.sealer.OpenText(index.RecordPlace(id, e.Seq), string(e.Message))
	out := *e
	if err == nil {
		err = index.UnpackEntry(&out, []byte(text))
	}
	return out, err
}

// decodeEntry decodes a record of a run; c is the file of the run, or nil.
func (d *Dir) decodeEntry(id workflow.RunID, c runfile.Source, e *runfile.Entry) (decision.Record, error) {
	if e == nil {
		return decision.Record{}, errors.New("there is no record")
	}
	opened, err := d.openEntry(id, e)
	if err != nil {
		return decision.Record{}, err
	}
	return opened.Decode(runfile.ValuesOf(c, &opened))
}

// resealEntries seals records, those anew that are sealed, and chains them again: all are
// under today's key then.
//
// The chain of checksums is of what is stored, so it changes with it.
func (d *Dir) resealEntries(id workflow.RunID, entries []*runfile.Entry) error {
	sum := runfile.FirstSum(id)
	for i, e := range entries {
		opened, err := d.openEntry(id, e)
		if err == nil {
			err = d.sealEntry(id, &opened)
		}
		if err != nil {
			return err
		}
		sum = sum.SumAfter(&opened.Encoded)
		opened.Sum = sum
		entries[i] = &opened
	}
	return nil
}

// sealState seals the texts that the row of a run has of index.StatePlaces, but for those that
// are NULL.
func (d *Dir) sealState(id workflow.RunID, texts [3]driver.Value) (out [3]driver.Value, err error) {
	if !d.sealer.IsOn() {
		return texts, nil
	}
	for i := range texts {
		if text, ok := texts[i].(string); ok && err == nil {
			out[i], err = d.sealer.SealText(index.RunPlace(index.StatePlaces[i], id), text)
		}
	}
	return out, err
}

// A listed has the texts of a row in the lists of all runs: the message of an approval or
// the failure of a dead letter, and the input. If they are sealed, both are in input, and first
// has at most the code of the failure, by which rows are selected.
type listed struct{ first, input string }

// sealListed seals the texts of a row.
func (d *Dir) sealListed(id workflow.RunID, l *listing, t listed) (listed, error) {
	if !d.sealer.IsOn() {
		return t, nil
	}
	input, err := d.sealer.SealText(index.ListPlace(id, l.Token), t.first+"\x00"+t.input)
	t = listed{input: input}
	if l.DeadLetter != nil {
		t.first = failureText(workflow.Failure{Code: l.DeadLetter.Failure.Code})
	}
	return t, err
}

// openListed opens the texts of a row, if they are sealed. (JSON has no byte 0.)
func (d *Dir) openListed(id workflow.RunID, token workflow.TokenID, t listed) (listed, error) {
	if !seal.IsSealed(t.input) {
		return t, nil
	}
	text, err := d.sealer.OpenText(index.ListPlace(id, token), t.input)
	if err != nil {
		return t, err
	}
	n := strings.LastIndexByte(text, 0)
	return listed{text[:max(n, 0)], text[n+1:]}, nil
}

// plainRunFile returns the bytes of the database that a row names, proven to be what was
// written.
func (d *Dir) plainRunFile(r *index.Row) ([]byte, error) {
	data, err := d.readRunFile(r)
	if err != nil || !seal.IsSealed(data) {
		return data, err
	}
	if data, err = d.sealer.OpenBytes(index.FilePlace(r.File), data); err == nil {
		err = d.checkHeader(data, r.File, runfile.ID, runfile.Version)
	}
	return data, withRun(err, r.Run)
}

// salvageRunFile makes what can be opened of a file, which may be damaged, a database in
// memory, and closes the file.
//
// It is for whoever repairs: parts that cannot be opened are zeros, which SQLite passes over as
// it can.
func (d *Dir) salvageRunFile(f *os.File, name string) (*sqlite.Conn, error) {
	data, err := io.ReadAll(f)
	_ = f.Close() // it was only read
	if err == nil {
		data, err = d.sealer.Salvage(index.FilePlace(name), data)
	}
	if errors.Is(err, seal.ErrChanged) {
		return nil, &CorruptError{File: d.pathOf(name), What: errChanged.Error()}
	}
	if err == nil {
		err = d.checkHeader(data[:min(len(data), sqlite.HeaderSize)], name, runfile.ID, runfile.Version)
	}
	if err != nil {
		return nil, err
	}
	db, err := sqlite.Open(sqlite.Memory, recoverPragmas)
	if err != nil {
		return nil, err
	}
	if err := db.Deserialize(data); err != nil {
		_ = db.Close() // it is in memory
		return nil, err
	}
	return db, nil
}

// CheckStored checks what is stored of a run without opening what is sealed: that its file
// is what was written, and that the checksums of its records in the log follow each other. It
// fails with a *CorruptError.
//
// A verification without the key can say that everything is there, and not what it says.
func (in *Inspection) CheckStored(id workflow.RunID) error {
	s := &Snapshot{dir: in.dir}
	var damage error
	err := in.dir.readIndex(func(db *sqlite.Conn) (err error) {
		if s.Row, err = in.dir.queryRow(db, id); err == nil {
			s.entries, damage, err = index.ReadLog(db, s.Num, s.Flushed)
		}
		return err
	})
	if err == nil {
		s.entries, damage, err = in.dir.completeEntries(s.entries, damage)
	}
	if err == nil && damage == nil {
		damage = s.checkChain()
	}
	switch {
	case err != nil:
	case s.IsDamaged():
		err = &CorruptError{Run: id, File: in.dir.pathOf(indexFile), What: "its row in the index is damaged"}
	case damage != nil:
		err = &CorruptError{Run: id, File: in.dir.pathOf(indexFile), What: "the log of the run is damaged", Err: damage}
	case s.Slot != 0:
		_, err = in.dir.readRunFile(&s.Row)
	}
	return err
}
