package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/late"
	"github.com/pawl-run/pawl/internal/pace"
	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/internal/state"
)

// A base is a copy of the directory as it was after one transaction, in a [blob.Store]: the pages of pawl.db in chunks, the files of runs, and the
// blobs that it refers to. Content that the Store has already is not put again.

// chunkBytes is the size of the chunks of pawl.db.
const chunkBytes = 64 << 10

// A manifest says what a base consists of. It is a blob itself, as JSON.
//
// A base is complete when its manifest is in the Store, which is put last; a part of one that a crash leaves is used by the next base, or is dropped as unused.
type manifest struct {
	Format string         `json:"format"` // manifestFormat
	At     time.Time      `json:"at"`     // when the copy of pawl.db was complete
	Epoch  state.Epoch    `json:"epoch"`
	Index  []string       `json:"index"`           // hashes of the chunks of pawl.db, in order
	Files  []manifestFile `json:"files"`           // of runs
	Blobs  []string       `json:"blobs,omitempty"` // hashes of those that pawl.db refers to
	Whole  bool           `json:"blobsIncluded"`   // whether the directory keeps blobs, and they are here
	Broken []string       `json:"damaged,omitempty"`
	Remote bool           `json:"remote,omitempty"` // pawl.db says how much of its log it has
}

const (
	manifestName   = "pawl base " // before the number of the format
	manifestFormat = manifestName + "1"
	manifestBegin  = `{"format":"` + manifestName
)

type manifestFile struct {
	Name string `json:"name"` // below the directory
	Hash string `json:"hash"`
}

// A baseBuilder makes a base.
//
// number and size are known once pawl.db is copied.
type baseBuilder struct {
	dir      *Dir
	from, to blob.Store // the blobs of the directory, which may be nil, and the place for the base
	manifest manifest
	number   int64 // the number of the last transaction in the base
	size     int64 // bytes of pawl.db
	remote   bool  // the base is followed by the log of Options.Remote, not by that of a follower
}

// hashPrefix is what a content address has before the hexadecimal digits.
const hashPrefix = "sha256:"

// makeBase makes a base, while commits go on, and returns the hash of its manifest.
//
// Only one copy of the directory is made at a time, be it a base or a backup: both hold files, whose next flushes come behind them. pawl.db is copied first, to a
// file of its own in tmp/, and everything else as that copy names it. So the base is of the moment at which the copy was complete, although commits
// and flushes have gone on.
func (b *baseBuilder) makeBase(ctx context.Context) (hash string, err error) {
	d := b.dir
	select {
	case d.backing <- struct{}{}:
		defer func() { <-d.backing }()
	case <-d.closing:
		return "", ErrClosed
	case <-ctx.Done():
		return "", late.Cause(ctx)
	}
	d.flusher.holdFiles()
	defer d.flusher.releaseFiles(d.removeReleased)
	tmp := path.Join(tmpDir, fmt.Sprintf("%v-base", d.epoch))
	if err := d.root.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	defer func() { _ = d.root.Remove(tmp) }() // the next Open removes it otherwise
	at := filepath.Join(filepath.Dir(d.lockPath), filepath.FromSlash(tmp))
	b.manifest = manifest{Format: manifestFormat, Epoch: d.epoch, Whole: b.from != nil, Remote: b.remote}
	err = d.copyIndex(ctx, at, func() { b.number, b.manifest.At = d.tapes.lastNumber(), time.Now().UTC() })
	if err != nil {
		return "", err
	}
	if err := b.putIndex(ctx, at); err != nil {
		return "", err
	}
	copied, err := sqlite.OpenReadOnly(at, `PRAGMA trusted_schema=OFF`)
	if err != nil {
		return "", err
	}
	if err = b.putFiles(ctx, copied); err == nil {
		err = b.putBlobs(ctx, copied)
	}
	if closed := copied.Close(); err == nil {
		err = closed
	}
	for _, litter := range []string{"-wal", "-shm"} { // of a reader
		_ = os.Remove(at + litter)
	}
	if err != nil {
		return "", err
	}
	data, err := json.Marshal(&b.manifest)
	if err != nil {
		return "", err
	}
	return b.putBytes(ctx, data)
}

// removeReleased removes an old file of a run that was kept for a copy.
func (d *Dir) removeReleased(name, by string) {
	d.hook.Hit("backup.remove")
	if err := d.dropRunFile(name, by); err != nil {
		d.options.Logger.Warn("a run's old file is left behind", "file", d.pathOf(name), "error", err)
	}
}

// putIndex puts the chunks of a copy of pawl.db.
func (b *baseBuilder) putIndex(ctx context.Context, at string) error {
	f, err := os.Open(at)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it is only read
	chunk := make([]byte, chunkBytes)
	for {
		n, err := io.ReadFull(f, chunk)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
			return err
		}
		b.size += int64(n)
		hash, err := b.putBytes(ctx, chunk[:n])
		if err != nil {
			return err
		}
		b.manifest.Index = append(b.manifest.Index, hash)
	}
}

// putBytes puts a blob that is in memory, unless it is there, and returns its hash.
func (b *baseBuilder) putBytes(ctx context.Context, data []byte) (string, error) {
	sum := pace.Sum256(data)
	hash := hashPrefix + hex.EncodeToString(sum[:])
	has, err := hasBlob(ctx, b.to, hash, int64(len(data)))
	if err == nil && !has {
		_, _, err = b.to.Put(ctx, bytes.NewReader(data))
	}
	return hash, err
}

// hasBlob reports whether a Store has a blob of so many bytes. A damaged one counts as missing, and so is put again: where a Store does not say so itself,
// the size tells of one that was cut short.
func hasBlob(ctx context.Context, s blob.Store, hash string, size int64) (bool, error) {
	info, err := s.Stat(ctx, hash)
	if isLost(err) {
		return false, nil
	}
	return err == nil && (info.Size == size || size == anySize), err
}

// anySize is the size of a blob if it is not known.
const anySize = -1

// isLost reports whether an error is of a blob that is missing or damaged.
func isLost(err error) bool {
	return errors.Is(err, blob.ErrMissing) || errors.Is(err, blob.ErrDamaged)
}

// putFiles puts the files that a copy of the index names. Files that differ from the index are left out.
//
// A file whose content the Store has is not read: most files do not change from base to base.
func (b *baseBuilder) putFiles(ctx context.Context, copied *sqlite.Conn) error {
	return copied.Each(allRows, func(r *sqlite.Row) error {
		row := index.ScanRow(r)
		if row.File == "" {
			return nil
		}
		f := manifestFile{row.File, hashPrefix + hex.EncodeToString(row.FileHash)}
		has, err := hasBlob(ctx, b.to, f.Hash, row.FileSize)
		if err == nil && !has {
			err = b.putFile(ctx, &row, f.Hash)
		}
		if errors.Is(err, ErrCorrupt) || errors.Is(err, ErrVersion) {
			b.manifest.Broken = append(b.manifest.Broken, err.Error())
			return nil
		}
		b.manifest.Files = append(b.manifest.Files, f)
		return err
	})
}

// putFile puts the file of a run, if it is what the index says.
//
// The Store says which content it has got, which proves that nothing else was copied.
func (b *baseBuilder) putFile(ctx context.Context, r *index.Row, hash string) error {
	from, err := b.dir.openRunFile(r)
	if err != nil {
		return err
	}
	got, _, err := b.to.Put(ctx, from)
	_ = from.Close() // it was only read
	if err == nil && got != hash {
		err = b.dir.fileError(r, errChanged)
	}
	return err
}

// putBlobs puts the blobs that a copy of the index refers to.
func (b *baseBuilder) putBlobs(ctx context.Context, copied *sqlite.Conn) error {
	if b.from == nil {
		return nil
	}
	last := ""
	return copied.Each(allRefRows, func(r *sqlite.Row) error {
		hash := r.Text(0)
		if hash == last || !index.CRCMatches(r, 1, 3) {
			return nil
		}
		last = hash
		err := copyMissing(ctx, b.from, b.to, hash)
		if isLost(err) {
			b.manifest.Broken = append(b.manifest.Broken, err.Error())
			return nil
		}
		b.manifest.Blobs = append(b.manifest.Blobs, hash)
		return err
	})
}

// copyMissing copies a blob unless it is there. If the two differ in their sizes, and the original is the one that is damaged, the copy stays.
func copyMissing(ctx context.Context, from, to blob.Store, hash string) error {
	info, err := from.Stat(ctx, hash)
	if err != nil {
		info.Size = anySize
	}
	has, err := hasBlob(ctx, to, hash, info.Size)
	if err != nil || has {
		return err
	}
	if err = copyBlob(ctx, from, to, hash); isLost(err) {
		if has, failed := hasBlob(ctx, to, hash, anySize); has || failed != nil {
			return failed
		}
	}
	return err
}

// readManifest reads the manifest of a base.
//
// A manifest whose format is another one is not guessed at: ErrVersion if its number is higher, else errNoManifest, which is ErrCorrupt.
func readManifest(ctx context.Context, from blob.Store, hash string) (*manifest, error) {
	data, err := readBlob(ctx, from, hash)
	if err != nil {
		return nil, fmt.Errorf("the base %s: %w", hash, err)
	}
	m, is := &manifest{}, errNoManifest
	if err = json.Unmarshal(data, m); err == nil && m.Format == manifestFormat {
		return m, nil
	}
	if number, _ := strconv.Atoi(strings.TrimPrefix(m.Format, manifestName)); number > 1 {
		is = ErrVersion
	}
	return nil, fmt.Errorf("the base %s has no manifest that this program knows: %q: %w", hash, m.Format, errors.Join(err, is))
}

var errNoManifest = fmt.Errorf("%w: it only begins as a manifest", ErrCorrupt)

// isManifest reports whether a blob begins as the manifest of a base does, of any version.
func isManifest(ctx context.Context, from blob.Store, hash string) (bool, error) {
	r, err := from.Open(ctx, hash)
	if err != nil {
		return false, err
	}
	begin := make([]byte, len(manifestBegin))
	_, err = io.ReadFull(r, begin)
	_ = r.Close() // it was only read
	if isShort(err) {
		err = nil
	}
	return string(begin) == manifestBegin, err
}

func readBlob(ctx context.Context, from blob.Store, hash string) ([]byte, error) {
	r, err := from.Open(ctx, hash)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(r)
	_ = r.Close() // it was only read
	return data, err
}

// maxSought bounds the chunks in which the secret of a base is looked for: it is in one of the first.
const maxSought = 1024

// readSecretOf returns the secret of the directory that a base is of.
//
// The secret is in one of the first tables of pawl.db, so its first chunks do. SQLite says if it misses a page behind them.
func readSecretOf(ctx context.Context, from blob.Store, base string) (secret []byte, err error) {
	m, err := readManifest(ctx, from, base)
	if err != nil {
		return nil, err
	}
	var data []byte
	err = index.ErrNoSecret
	for i, hash := range m.Index[:min(len(m.Index), maxSought)] {
		chunk, missing := readBlob(ctx, from, hash)
		if missing != nil {
			return nil, missing
		}
		data = append(data, chunk...)
		if n := i + 1; n&i == 0 || n == len(m.Index) { // a power of two
			if secret, err = index.FindSecret(data); err == nil {
				return secret, nil
			}
		}
	}
	if !sqlite.IsDatabase(data) {
		return nil, fmt.Errorf("the base %s: %w: it has no pawl.db", base, errNoManifest)
	}
	return nil, &CorruptError{File: base, What: "the secret in its pawl.db cannot be read", Err: err}
}

// compareSecret fails with ErrOtherLog if a base is of another directory than the one with a secret. A directory that was restored has the secret
// of its original.
func compareSecret(ctx context.Context, from blob.Store, base string, secret []byte) error {
	found, err := readSecretOf(ctx, from, base)
	if err == nil && !bytes.Equal(found, secret) {
		err = fmt.Errorf("%w: its bases are neither of this one, nor of one that this was restored from: give each directory a copy of its own, or a log of its own", ErrOtherLog)
	}
	return err
}

// A builtBase is a base that is complete.
type builtBase struct {
	number int64  // of the last transaction in it
	size   int64  // of its pawl.db
	hash   string // of its manifest
	at     time.Time
}

// isBaseDue reports whether a new base is to be made: because the changes since the last one are as large as it is, or old, or because some were lost.
func (f *follower) isBaseDue() bool {
	return f.stale || f.since >= max(minRebase, f.size) || f.since > 0 && time.Since(f.begun) >= f.o.Rebase
}

// startBase makes a base, beside the changes that are shipped meanwhile.
//
// Changes that the base has as well are passed over when it is restored, by their numbers. stale is taken back at the beginning: changes that are
// lost from now on need another base, for this one may have been copied before them.
func (f *follower) startBase(ctx context.Context) {
	f.busy, f.stale, f.since, f.begun = true, false, 0, time.Now()
	f.building.Go(func() {
		ctx, stop := context.WithCancelCause(ctx)
		defer stop(nil)
		go func() { // until the base is complete
			select {
			case <-f.dir.closing:
				stop(ErrClosed)
			case <-ctx.Done():
			}
		}()
		_ = f.retryCall(ctx, &f.baseErr, func(ctx context.Context) error { // whoever ended it knows why
			defer f.o.HoldBlobs()()
			b := baseBuilder{dir: f.dir, from: f.o.Blobs, to: f.o.Bases}
			hash, err := b.makeBase(ctx)
			if err == nil {
				f.bases <- builtBase{b.number, b.size, hash, b.manifest.At}
			}
			return err
		})
	})
}

// keepBase notes a base in the log, and drops what is needed no more.
//
// Behind this entry the log can be restored from the new base, so that what only served an older
// one may be dropped: in that order, or a crash in between would leave nothing to restore from.
func (f *follower) keepBase(ctx context.Context, b builtBase) error {
	e := &logEntry{kind: entryBase, at: b.at, epoch: f.dir.epoch, number: b.number, base: b.hash}
	err := f.appendEntry(ctx, e, func(r *FollowReport) {
		r.Base, f.based = b.at, !f.stale
		r.raiseAt(b.at)
		if f.based {
			r.raiseAt(f.shipped)
		}
	})
	if err != nil {
		return err
	}
	f.size = b.size
	if err := f.dropOld(ctx, time.Now().Add(-f.o.Keep), 1); err != nil { // the next one tries again
		f.dir.options.Logger.Warn("the log and the bases of a copy of the directory are not trimmed yet", "error", err)
	}
	return nil
}

// makeBases makes a base when there are as many changes as the last one is large, or when some are old, until the directory is closed or has failed.
//
// A base lets the log drop what is before it, and an opening without a directory begin with it. So the more has changed, the sooner one is due; a
// directory in which nothing happens makes none.
func (r *remote) makeBases(d *Dir) {
	ctx, stop := context.WithCancelCause(r.ctx)
	defer stop(nil)
	go func() { // until this ends
		select {
		case <-d.closing:
			stop(ErrClosed)
		case <-d.failed:
			stop(ErrFailed)
		case <-ctx.Done():
		}
	}()
	for {
		timer := time.NewTimer(r.o.Rebase)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-r.due:
			timer.Stop()
		case <-timer.C:
			if r.since.Load() == 0 {
				continue
			}
		}
		r.retryBase(ctx, d)
	}
}

// retryBase makes a base, and tries again until there is one or ctx ends.
func (r *remote) retryBase(ctx context.Context, d *Dir) {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		err := r.keepBase(ctx, d)
		if ctx.Err() != nil {
			return
		}
		if r.tell(err); err == nil {
			return
		}
		d.options.Logger.Warn("the log of the directory has no new base yet", "directory", d.path, "error", err)
		if !waitOut(ctx, pause) {
			return
		}
	}
}

// keepBase makes a base, notes it in the log, and drops what is needed no more.
//
// The copy in the base says by itself where in the log it stands, since the place is a row of pawl.db; whoever begins with it executes the entries behind that
// place. Entries that come while the base is made so need no further thought. A crash before the entry of the base leaves blobs which the log does not name.
//
// A log that is full may refuse the entry of the base, behind which it could drop most of what it
// has: then everything that is older than the last base in it is dropped first. Otherwise it keeps what the last two bases need, of whichever lives.
func (r *remote) keepBase(ctx context.Context, d *Dir) error {
	err := d.updateLocally(func(db *sqlite.Conn) error { return index.KeepLogPlace(db, r.place) }) // the copy must say where it stands
	if err != nil {
		return err
	}
	r.since.Store(0)
	b := baseBuilder{dir: d, to: r.o.Bases, remote: true}
	hash, err := b.makeBase(ctx)
	if err != nil {
		return err
	}
	d.hook.Hit("remote.base")
	entry := &logEntry{kind: entryBase, at: b.manifest.At, epoch: d.epoch, base: hash, number: int64(r.place.Generation)} //nolint:gosec // it counts
	if err := d.announceBase(hash); err != nil {
		return err
	}
	err = d.noteBase(entry)
	if errors.Is(err, ErrNoSpace) {
		if err = r.makeRoom(ctx); err == nil {
			err = d.noteBase(entry)
		}
	}
	if errors.Is(err, ErrFenced) && !r.place.Based {
		err = errors.Join(err, r.dropFirst(ctx, hash))
	}
	if err != nil {
		return err
	}
	r.size.Store(b.size)
	r.mu.Lock()
	r.report.Base = b.manifest.At
	r.mu.Unlock()
	f := follower{dir: d, o: FollowOptions{Log: r.o.Log, Bases: r.o.Bases}, ours: &r.ours}
	if err := f.dropOld(ctx, time.Now().Add(-r.o.Keep), 2); err != nil && ctx.Err() == nil { // the next one tries again
		d.options.Logger.Warn("the log of the directory and its bases are not trimmed yet", "directory", d.path, "error", err)
	}
	return nil
}

// dropFirst deletes the manifest of a first base if the log does not name it: another opening has taken the log before. The store would have
// a base of a directory that nobody has, for which the owner of the log would delete nothing there: see [follower.checkUnused].
//
// An answer of the log that was lost may have been that it has the entry, so the log is read; it gets no further entry of this directory.
func (r *remote) dropFirst(ctx context.Context, hash string) error {
	named := false
	err := readLog(ctx, r.o.Log, Position{}, func(_ Position, e *logEntry) error {
		named = named || e.base == hash || e.kind == entryDamaged
		return nil
	})
	if err == nil && !named {
		_, err = r.o.Bases.Delete(ctx, hash, time.Now().Add(unusedFor)) // whatever the clock of the store says
	}
	return err
}

// announceBase notes in pawl.db which base the log is about to get, if it is the first: should the directory not come to
// note that it is there, it is not that of another directory.
func (d *Dir) announceBase(hash string) error {
	return d.updateLocally(func(db *sqlite.Conn) error {
		place := &d.remote.place
		if place.Based {
			return nil
		}
		place.First = firstOf(hash)
		return index.KeepLogPlace(db, *place)
	})
}

// firstOf returns a base as pawl.db names it.
func firstOf(hash string) [sha256.Size]byte { return sha256.Sum256([]byte(hash)) }

// noteBase appends the entry of a base between two commits.
//
// It takes the lock as a reader does, so that no transaction is under way, and its entry comes
// between two of theirs. The first base is what makes the log that of this directory.
func (d *Dir) noteBase(e *logEntry) error {
	return d.noteEntry(e, func() {
		d.hook.Hit("remote.based")
		d.remote.place.Based = true
	})
}

// noteEntry appends an entry that is of no transaction. noted is called when the log has it, before that is noted in pawl.db.
func (d *Dir) noteEntry(e *logEntry, noted func()) error {
	return d.readIndex(func(db *sqlite.Conn) error {
		if err := d.syncBefore(); err != nil { // before the log has the entry
			return err
		}
		err := d.remote.appendEntry(e)
		if no := (*refusal)(nil); errors.As(err, &no) && !errors.Is(err, ErrFenced) {
			return no.err
		}
		if err == nil {
			noted()
			err = index.KeepLogPlace(db, d.remote.place)
			d.log.unsynced = d.log.file != nil
		}
		if err != nil {
			err = d.failForGood(err)
		}
		return err
	})
}
