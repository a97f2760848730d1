package rescue

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/internal/codec"
	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/late"
	"github.com/pawl-run/pawl/internal/runfile"
	"github.com/pawl-run/pawl/internal/socket"
	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/internal/timing"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/workflow"
)

// Options say how a directory is read. The zero value is for one without sealed values.
type Options struct {
	Codec store.Codec // opens sealed values; Repair seals all of the new directory with it
}

// Verify checks everything in the engine directory at path, which no engine has
// open, and changes nothing in it: that pawl.db is the one that the last engine
// left and in order; for every run that its file has its checksum, its journal and
// log the chain of theirs, that its records decode, that its state and events are
// those that the journal tells, and that the index and the lists of all runs agree
// with them; that every definition, outcome and blob is what it was. A file, blob
// or definition that nothing refers to is a note. It needs room for a copy of
// pawl.db among the temporary files.
//
// It fails if the directory cannot be looked at: with store.ErrLocked if an engine has
// it open, store.ErrVersion if a newer version wrote pawl.db, store.ErrNotOurs; and if ctx ends.
//
// Values that were sealed under a key that Options.Codec lacks are a note, and only their checksums are checked.
func Verify(ctx context.Context, path string, o Options) (*Report, error) {
	in, err := openInspection(ctx, path, o.Codec)
	if err != nil {
		return nil, fmt.Errorf("verify %s: %w", path, err)
	}
	in.verifyAll()
	if err := errors.Join(late.Cause(ctx), in.Close()); err != nil {
		return nil, fmt.Errorf("verify %s: %w", path, err)
	}
	return &in.report, nil
}

// verifyAll looks at the parts, until ctx ends, in the order in which they refer to each other: definitions
// first, since a run is replayed with them, and the rows of the lists after the runs that they
// are of. Files come last, when it is known which of them the index names. Without an index
// only the names of files can be looked at.
func (in *inspection) verifyAll() {
	if in.Changed != nil {
		in.addDamage("", index.File, in.Changed, doRepair)
	}
	// Each run adds the files that are its own; noteFiles tells of the others.
	named := map[string]bool{} // files of runs
	if in.HasIndex() {
		in.verifyDefinitions()
		in.verifyOutcomes()
		if wrong := in.damagedSecret(); wrong != nil {
			in.addWrong("", index.File, doRebuild, "%v", wrong)
		}
		for _, id := range in.runIDs() {
			if in.ctx.Err() != nil {
				return
			}
			in.verifyRun(id, named)
		}
		in.verifyRows()
		in.verifyStrays()
		in.noteDropped(`SELECT count(*) `+index.DeadRecords, "record", "that files of runs hold already")
		in.noteDropped(strayedParts, "part", "of large records that the log does not have")
		in.verifyBlobs()
		in.noteFiles(named)
	}
	in.noteOthers()
	if _, _, err := index.ReadMark(in.FS()); err != nil {
		in.addWrong("", index.RestoredFile, doRebuild, "it marks a directory that was restored, and no engine opens it: %v", err)
	}
	in.addSealed()
}

// The queries look for what should not be there: rows of the lists whose run is not in runs,
// and counts and labels that are not what the runs add up to. A number above zero is a finding.
// In the log the upper half of a key is the number of the run; in parts the upper bits are the
// number by which a record of the log names its parts.
const (
	allDefinitions = `SELECT hash, doc FROM definitions ORDER BY hash`
	allPublished   = `SELECT name, version, hash, hash IN (SELECT hash FROM definitions) FROM published ORDER BY name, version`
	allOutcomes    = `SELECT key, value, id FROM outcomes ORDER BY id`
	refsOf         = `SELECT hash FROM blob_refs WHERE num = ?`
	whoRefers      = `SELECT count(*), coalesce(min(id), '') FROM blob_refs LEFT JOIN runs USING (num) WHERE hash = ?`
	strayLog       = `SELECT count(DISTINCT key >> 32) FROM log WHERE key >> 32 NOT IN (SELECT num FROM runs)`
	strayLists     = `SELECT count(*) FROM (SELECT num FROM approvals UNION ALL SELECT num FROM dead_letters) WHERE num NOT IN (SELECT num FROM runs)`
	strayedParts   = `SELECT count(*) FROM parts WHERE key >> 20 NOT IN (SELECT parts FROM log WHERE parts IS NOT NULL)`
	wrongCounts    = `SELECT count(*) FROM (SELECT workflow, status, count(*) AS runs FROM runs GROUP BY 1, 2) AS r
		FULL JOIN run_counts AS c USING (workflow, status) WHERE r.runs IS NOT c.runs`
	wrongLabels = `SELECT count(*) FROM (SELECT num, j.key, j.value FROM runs, json_each(iif(json_valid(labels), labels, '{}')) AS j) AS r
		FULL JOIN labels AS l USING (num, key, value) WHERE r.num IS NULL OR l.num IS NULL`
	strayRefs = `SELECT count(*) FROM blob_refs WHERE num > 0 AND num NOT IN (SELECT num FROM runs)`
)

// verifyDefinitions compiles each definition, which proves its hash, and hands it to the
// inspection for the replays. Only then are the published names looked at.
func (in *inspection) verifyDefinitions() {
	in.eachIndexRow(allDefinitions, func(r *sqlite.Row) error {
		doc, err := in.OpenText(index.DefinitionPlace(r.Text(0)), r.Text(1))
		if err != nil {
			in.addDamage("", index.File, err, doRepair)
			return nil
		}
		if g, err := runfile.CompileDefinition(doc, r.Text(0)); err != nil {
			in.addWrong("", index.File, doRepair, "definition %s: %v", r.Text(0), err)
		} else {
			in.AddDefinition(g)
		}
		return nil
	})
	in.eachIndexRow(allPublished, func(r *sqlite.Row) error {
		if r.Int64(3) == 0 {
			in.addWrong("", index.File, "publish it again", "it lacks the definition that is published as %s version %d", r.Text(0), r.Int64(1))
		}
		return nil
	})
}

// verifyOutcomes decodes each kept outcome, and checks that the blobs it refers to are listed:
// CollectBlobs removes what is not. An outcome has no run; its references stand under the
// negative of its id.
func (in *inspection) verifyOutcomes() {
	refs := map[int64][]blob.Ref{}
	in.eachIndexRow(allOutcomes, func(r *sqlite.Row) error {
		v, err := in.readOutcome(r)
		if errors.Is(err, store.ErrSealed) {
			in.addDamage("", index.File, err, doRepair)
			return nil
		}
		if err == nil {
			refs[r.Int64(2)], err = blob.Refs(v)
		}
		if err != nil {
			todo := "find out whether its effect took place, and forget it if not"
			if strings.HasPrefix(r.Text(0), store.ScheduleKeys) {
				todo = doApply
			}
			in.addWrong("", index.File, todo, "the outcome kept under %q is damaged: %v", r.Text(0), err)
		}
		return nil
	})
	// The references are compared after the query, since each needs a query of its own.
	for id, want := range refs {
		if len(want) == 0 {
			continue
		}
		have := in.refsOf(-id)
		for _, ref := range want {
			if !have[ref.Hash] {
				in.addWrong("", index.File, doRebuild, "the list of references lacks %s, of a kept outcome", ref.Hash)
			}
		}
	}
}

// readOutcome returns the value of a row with a key, its outcome, and more.
//
// Repair has rows with two columns more, and reads the first two as well.
func (in *inspection) readOutcome(r *sqlite.Row) (any, error) {
	text, err := in.OpenText(index.OutcomePlace(r.Text(0)), r.Text(1))
	if err != nil {
		return nil, err
	}
	return codec.DecodeValue([]byte(text))
}

// refsOf returns the blobs that a run, by its number, is listed to refer to.
func (in *inspection) refsOf(num int64) map[string]bool {
	out := map[string]bool{}
	in.eachIndexRow(refsOf, func(r *sqlite.Row) error { out[r.Text(0)] = true; return nil }, num)
	return out
}

// damagedSecret says that the secret, which the keys of tasks are made with, is not what
// was written; nil if it is.
//
// That it cannot be read at all is told elsewhere, as damage to pawl.db.
func (in *inspection) damagedSecret() error {
	err := in.ReadIndex(func(db *sqlite.Conn) error { _, err := index.ReadSecret(db); return err })
	if errors.Is(err, index.ErrDamagedSecret) {
		return err
	}
	return nil
}

// verifyRows finds rows that have changed, in all tables but that of the runs.
//
// The rows of the runs have several checksums each, which Row proves as each run is looked at.
func (in *inspection) verifyRows() {
	in.changedRows(func(c *index.CheckedTable, wrong string) {
		do := doRepair
		if c.Derived {
			do = doRebuild
		}
		in.addWrong("", index.File, do, "%s", wrong)
	})
}

// verifyStrays finds rows of runs that the index does not have.
//
// A row without its run would be shown in a list, or would keep a blob for ever, though nothing
// stands behind it.
func (in *inspection) verifyStrays() {
	for _, q := range []struct{ query, what string }{
		{strayLog, "the log has records of runs that the index does not know: %d"},
		{wrongCounts, "the counts of runs by workflow and status are not those of the runs: %d"},
		{wrongLabels, "the list of labels is not what the rows of runs tell: %d"},
		{strayLists, "the lists have rows of runs that the index does not know: %d"},
		{strayRefs, "the list of references to blobs has rows of runs that the index does not know: %d"},
	} {
		in.eachIndexRow(q.query, func(r *sqlite.Row) error {
			if n := r.Int64(0); n > 0 {
				in.addWrong("", index.File, doRepair, q.what, n)
			}
			return nil
		})
	}
}

// noteDropped notes what the next Open drops: what a crash, or a failure to drop it
// before, has left.
//
// They are no damage: an engine drops them as it opens, and loses nothing.
func (in *inspection) noteDropped(query, thing, which string) {
	in.eachIndexRow(query, func(r *sqlite.Row) error {
		if n := r.Int64(0); n > 0 {
			in.addNote(index.File, "the next Open drops them", "%s %s", countText(n, thing), which)
		}
		return nil
	})
}

// verifyBlobs reads every blob that the index refers to.
//
// Reading one proves it, since a blob is named by its hash, and the store compares while it
// reads. Blobs that nothing refers to are not read, only counted.
func (in *inspection) verifyBlobs() {
	var hashes []string
	in.eachIndexRow(allRefs, func(r *sqlite.Row) error { hashes = append(hashes, r.Text(0)); return nil })
	if _, err := fs.Lstat(in.FS(), index.BlobsDir); err != nil {
		if len(hashes) > 0 {
			in.addNote(index.BlobsDir, "check them there if the engine keeps its blobs elsewhere", "there is no such folder, and %s are referred to", countText(int64(len(hashes)), "blob"))
		}
		return
	}
	files, err := blob.OpenFiles(filepath.Join(in.path, index.BlobsDir), blob.Options{Codec: in.codec, ReadOnly: true})
	if err != nil {
		in.addDamage("", index.BlobsDir, err, doBlob)
		return
	}
	wanted := map[string]bool{}
	for _, hash := range hashes {
		if in.ctx.Err() != nil {
			break
		}
		wanted[hash] = true
		in.report.Blobs++
		err := in.readBlob(files, hash, func(r io.Reader) error { _, err := io.Copy(io.Discard, r); return err })
		if err != nil {
			in.addDamage(in.whoRefers(hash), blobPath(hash), err, doBlob)
		}
	}
	in.noteBlobs(files, wanted)
	_ = files.Close() // it was only read
}

// whoRefers returns a run that refers to a blob, "" if none does.
//
// The message names one of several, the first by its id; the operator will find the others by
// the hash.
func (in *inspection) whoRefers(hash string) (id workflow.RunID) {
	in.eachIndexRow(whoRefers, func(r *sqlite.Row) error { id = workflow.RunID(r.Text(1)); return nil }, hash)
	return id
}

// readBlob calls read with the content of a blob, which is checked on the way.
func (in *inspection) readBlob(from blob.Store, hash string, read func(io.Reader) error) error {
	r, err := from.Open(in.ctx, hash)
	if err != nil {
		return err
	}
	err = read(r)
	_ = r.Close() // it was only read
	return err
}

// blobPath returns where a blob is, for messages.
//
// It follows the layout of package blob: two hex digits for the folder, the rest for the name.
func blobPath(hash string) string {
	digits := strings.TrimPrefix(hash, "sha256:")
	if len(digits) < 3 {
		return index.BlobsDir
	}
	return path.Join(index.BlobsDir, digits[:2], digits[2:])
}

// noteBlobs notes blobs that nothing refers to.
//
// Nobody loses anything by them. They are what failed or forgotten runs leave behind until they
// are collected.
func (in *inspection) noteBlobs(files *blob.Files, wanted map[string]bool) {
	n := int64(0)
	for info, err := range files.All(in.ctx) {
		switch {
		case err != nil && info.Hash == "":
			in.addDamage("", index.BlobsDir, err, doBlob)
		case !wanted[info.Hash]:
			n++
		}
	}
	if n > 0 {
		in.addNote(index.BlobsDir, "CollectBlobs removes them", "nothing refers to %s", countText(n, "blob"))
	}
}

// noteFiles notes files of runs that the index does not name.
//
// A crash between writing a file and committing its name leaves such a file. It is told of by
// name, so that an operator can look at it before it is removed. Where the index may be an older one, the file may be that of a
// run which the index lacks.
func (in *inspection) noteFiles(named map[string]bool) {
	err := fs.WalkDir(in.FS(), index.RunsDir, func(name string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		switch {
		case err != nil || e.IsDir() || named[name]:
		case !in.Trusted && isRunFile(name, e):
			in.addWrong("", name, doRepair, "the index does not name it, and may be an older one: it may be the file of a run")
		default:
			in.addNote(name, "it may be removed if everything else is sound", "the index does not name it: left by a crash, or not of pawl")
		}
		return err
	})
	if err != nil {
		in.addDamage("", index.RunsDir, err, doRepair)
	}
}

// noteOthers notes what else is in the directory.
//
// It knows by name whatever an engine makes in its directory. Anything else may be a lost file
// of somebody's, and is only told of.
func (in *inspection) noteOthers() {
	known := map[string]bool{index.File: true, index.WALFile: true, index.SumsFile: true, index.RedoFile: true, index.TailFile: true, index.OldTailFile: true, index.RunsDir: true, index.LockFile: true, index.BlobsDir: true, index.UnfinishedFile: true, index.RestoredFile: true, socket.File: true, socket.NewFile: true, timing.File: true, timing.NewFile: true}
	entries, err := fs.ReadDir(in.FS(), ".")
	if err != nil {
		in.addDamage("", ".", err, doRepair)
	}
	for _, e := range entries {
		switch name := e.Name(); {
		case known[name]:
		case name == index.TmpDir:
			left, err := fs.ReadDir(in.FS(), index.TmpDir)
			left = slices.DeleteFunc(left, func(e fs.DirEntry) bool { return e.Name() == index.ReserveFile })
			if err == nil && len(left) > 0 {
				in.addNote(name, "the next Open removes them", "%s that were being built", countText(int64(len(left)), "file"))
			}
		default:
			in.addNote(filepath.ToSlash(name), doLeave, "it is not of pawl, or left by a crash")
		}
	}
}
