package store

import (
	"crypto/sha256"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"path"

	"github.com/pawl-run/pawl/internal/failpoint"
	"github.com/pawl-run/pawl/internal/pace"
	"github.com/pawl-run/pawl/internal/sqlite"
)

// A round is what one worker does for one run.
type round struct {
	job     *job
	filings []*filing
	row     row    // before
	large   bool   // the file: it is built on the disk, in a round of its own
	name    string // of the new file
	tmp     string // while it is built: no other engine's
	hash    [sha256.Size]byte
	size    int
	err     error
}

// file brings the files of some runs up to date. What fails for one run is that
// run's.
func (d *Dir) file(b *builder, rounds []*round) {
	for _, r := range rounds {
		r.err = typed(d.build(b, r))
	}
	failpoint.Hit("file.built")
	d.step(rounds, built, func(r *round) error { return d.rename(r) })
	failpoint.Hit("file.renamed")
	d.step(rounds, renamed, nil)
	if err := d.syncRounds(rounds); err != nil {
		fail(rounds, err)
	}
	failpoint.Hit("file.synced")
	d.step(rounds, synced, nil)
	parts, err := d.trim(rounds)
	if err != nil {
		fail(rounds, err)
	}
	failpoint.Hit("file.trimmed")
	hard := d.hardenFor(rounds)
	d.step(rounds, trimmed, func(r *round) error { return d.removeOld(r, hard) })
	d.dropParts(parts)
	failpoint.Hit("file.end")
}

// step passes a stage and does do with every round that has not failed, if the
// files are still ours to change.
func (d *Dir) step(rounds []*round, at stage, do func(*round) error) {
	if err := d.owns(); err != nil {
		fail(rounds, err)
	}
	if err := d.filer.passes(at); err != nil {
		fail(rounds, err)
	}
	for _, r := range rounds {
		if r.err == nil && do != nil {
			r.err = do(r)
		}
	}
}

func fail(rounds []*round, err error) {
	for _, r := range rounds {
		if r.err == nil {
			r.err = err
		}
	}
}

// build writes the new file of a run under a temporary name.
func (d *Dir) build(b *builder, r *round) error {
	var err error
	if r.row, err = d.row(r.job.id); err != nil {
		return err
	}
	if r.row.num != r.job.num {
		return fmt.Errorf("%w: %q is another run by now", ErrRunNotFound, string(r.job.id))
	}
	r.name = fileName(r.row.Run, r.row.nonce, r.row.slot.other())
	if d.filer.keeps(r.name) {
		return errPutOff
	}
	r.tmp = path.Join(tmpDir, fmt.Sprintf("%v-%s", d.epoch, path.Base(r.name)))
	if r.large {
		err = d.buildLarge(r)
	} else {
		err = d.buildSmall(b, r)
	}
	if err != nil {
		_ = d.root.Remove(r.tmp) // if it is there; the next Open removes it otherwise
		return fmt.Errorf("build the file of run %q: %w", string(r.job.id), err)
	}
	return nil
}

// buildSmall is build for a file that is made in memory.
func (d *Dir) buildSmall(b *builder, r *round) error {
	var old []byte
	if r.row.slot != 0 {
		var err error
		if old, err = d.readRunFile(&r.row); err != nil {
			return err
		}
	}
	data, err := b.build(old, func(c *sqlite.Conn) error { return d.fill(c, r) })
	if err != nil {
		return err
	}
	r.hash, r.size = pace.Sum256(data), len(data)
	return d.writeFile(r.tmp, data, false)
}

// sizeOf returns about how large the file is after some filings.
func sizeOf(filings []*filing) int64 {
	const row = 64
	n := filings[0].size.Load()
	for _, f := range filings {
		n += int64(len(f.changes.Tokens)+len(f.changes.Branches)+len(f.events)) * row
		for i := range f.entries {
			n += f.entries[i].size()
		}
	}
	return n
}

// fill writes into a file what it lacks.
func (d *Dir) fill(c *sqlite.Conn, r *round) error {
	g, err := d.Graph(r.row.Definition)
	if err != nil {
		return err
	}
	doc, err := d.definitions.doc(g)
	if err != nil {
		return err
	}
	if err := definitionTable.insert(c, [][]driver.Value{{int64(1), g.Hash, doc}}); err != nil {
		return err
	}
	last := r.filings[len(r.filings)-1]
	meta, err := metaRow(&r.row.Head, &last.changes.Facts, last.seq, last.sum)
	if err != nil {
		return err
	}
	if err := metaTable.insert(c, [][]driver.Value{meta}); err != nil {
		return err
	}
	failpoint.Hit("file.fill")
	next := r.row.filed + 1
	for _, f := range r.filings {
		if err := f.fill(c, next); err != nil {
			return err
		}
		next = f.seq + 1
	}
	return nil
}

func (f *filing) fill(c *sqlite.Conn, next int64) error {
	if len(f.entries) > 0 && f.entries[0].Seq != next || len(f.entries) == 0 && f.seq != next-1 {
		return fmt.Errorf("the file lacks record %d", next)
	}
	for _, b := range batches(&f.changes, f.entries, f.events) {
		if err := b.run(c); err != nil {
			return err
		}
	}
	return nil
}

// rename gives a new file its name, in the slot that is not in use.
func (d *Dir) rename(r *round) error {
	err := d.root.Rename(r.tmp, r.name)
	if errors.Is(err, fs.ErrNotExist) {
		if err = d.root.Mkdir(path.Dir(r.name), 0o700); err == nil || errors.Is(err, fs.ErrExist) {
			err = d.root.Rename(r.tmp, r.name)
		}
	}
	return err
}

// syncRounds makes new files durable, with their names.
func (d *Dir) syncRounds(rounds []*round) error {
	if canSyncAll && len(rounds) >= minRound {
		dir, err := d.root.Open(".")
		if err != nil {
			return err
		}
		err = syncAll(dir)
		_ = dir.Close() // it was only read
		return err
	}
	dirs := map[string]bool{".": false, runsDir: false}
	for _, r := range rounds {
		if r.err == nil {
			r.err = d.syncFile(r.name)
			dirs[path.Dir(r.name)], dirs[runsDir] = true, true
		}
	}
	for dir, touched := range dirs {
		if touched {
			if err := d.syncDir(dir); err != nil {
				return err
			}
		}
	}
	return nil
}

// hardenFor hardens what names new files if there are old ones to be removed.
func (d *Dir) hardenFor(rounds []*round) error {
	for _, r := range rounds {
		if r.err == nil && r.row.slot != 0 {
			return d.harden()
		}
	}
	return nil
}

// removeOld removes the file that the new one replaces, unless an error says that
// a loss of power might bring it back.
func (d *Dir) removeOld(r *round, err error) error {
	r.filings[0].size.Store(int64(r.size))
	if r.row.slot == 0 {
		return nil
	}
	if err == nil {
		err = d.discard(r.row.File)
	}
	if err != nil {
		d.options.Logger.Warn("a run's old file is left behind", "file", d.at(r.row.File), "error", err)
	}
	return nil
}
