package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/internal/state"
)

// findLogPlace reads how much of its log is in the directory, and refuses one that has a log and is opened
// without.
//
// It only reads, and comes before anything is written: a directory that has a log, and is opened
// without, must not get a commit that its log does not have.
func (d *Dir) findLogPlace() error {
	place, has, err := index.ReadLogPlace(d.db)
	switch {
	case errors.Is(err, index.ErrDamagedSecret):
		return &CorruptError{File: d.pathOf(indexFile), What: "how much of its log it has, in its table meta, is damaged"}
	case err != nil:
		return d.indexError(err)
	case d.remote != nil:
		d.remote.place, d.remote.has, d.remote.tail = place, has, &logTail{dir: d}
		d.remote.former, err = index.ReadEpoch(d.db)
		return d.indexError(err)
	case has && !d.options.Detach && !d.options.LogAway:
		return ErrRemote
	}
	d.logAway = has && !d.options.Detach
	return nil
}

// joinLog takes the log and brings pawl.db up to its end, or begins the log anew. It fails with errSuperseded if somebody
// else has begun it anew.
//
// If the directory does not fit its log, the log says why: it may have been begun anew from
// another directory. That is looked for only then, because it takes reading the log as a whole.
func (d *Dir) joinLog() error {
	r := d.remote
	if r != nil && r.anew != nil {
		return d.beginAnew()
	}
	err := d.joinOrDetach()
	if r != nil && r.has && (errors.Is(err, errAnew) || errors.Is(err, errBehind) || errors.Is(err, ErrCorrupt) || errors.Is(err, ErrOtherLog)) {
		err = d.checkGeneration(err)
	}
	if errors.Is(err, errBehind) || errors.Is(err, errSuperseded) {
		return d.checkReplacement(err)
	}
	return err
}

// checkReplacement looks whether the log is that of the directory, which is about to be made anew from it: it returns the reason for that,
// or ErrOtherLog. Its last base tells, which the new one would be made of.
//
// A directory in which nothing ever was, and which the log has no base of, loses nothing: it may have been made at the same time as another one.
func (d *Dir) checkReplacement(reason error) error {
	r := d.remote
	switch empty, err := index.IsEmpty(d.db); {
	case err != nil:
		return d.indexError(err)
	case empty && !r.place.Based:
		return reason
	}
	f := &restorer{o: RestoreOptions{Log: r.o.Log, Bases: r.o.Bases}}
	err := f.plan(r.ctx)
	if errors.Is(err, ErrNoBase) {
		return &CorruptError{File: "the log", What: "it has dropped what the directory lacks, and has no base"}
	}
	if err == nil {
		err = compareSecret(r.ctx, r.o.Bases, f.base.base, d.secret)
	}
	if err == nil {
		err = reason
	}
	return err
}

// joinOrDetach takes the log and brings pawl.db up to its end, if it has one. Most of that is done before, while
// an earlier owner may go on.
//
// The order matters: what the log has is executed before it is taken, while an earlier owner may
// still commit, so that taking it, which fences that owner, is followed by little work. Behind
// that catchUp comes once more, up to the opening that was just appended, behind which nobody
// else has anything.
func (d *Dir) joinOrDetach() error {
	r := d.remote
	if r == nil {
		if d.options.Detach {
			d.removeTail()
			return d.indexError(index.DropLogPlace(d.db))
		}
		return nil
	}
	if err := index.MakeOutbox(d.db); err != nil { // a former owner may have had a feed
		return d.indexError(err)
	}
	if !r.has {
		if err := d.checkUnused(); err != nil {
			return err
		}
	} else if err := d.standBy(); err != nil {
		return err
	}
	opened, err := d.takeOrMend()
	switch {
	case err != nil:
		return err
	// The log of a new directory begins with its openings; the first base follows.
	case !r.has: // there is nothing in it but openings of directories that never came to a base
		r.place.Seq, r.place.Sum = opened.Seq, opened.Sum
		return nil
	}
	d.hook.Hit("remote.taken")
	if err := d.catchUp(); err != nil {
		return err
	}
	if r.place.Seq != opened.Seq {
		return &CorruptError{File: nameOfEntry(opened.Seq), What: "it is missing, and was appended just now"}
	}
	return nil
}

// checkUnused fails with ErrOtherLog if the log has the commits of a directory that this one, which has no log yet, is not; and with
// errBehind if nothing was ever in this one: somebody who made it lost the log before a first base.
//
// Otherwise a directory and a log that have nothing to do with each other would be joined, and
// each would lose what it has for whoever opens it next.
func (d *Dir) checkUnused() error {
	r := d.remote
	if r.o.standsBy() {
		return errNoDirectory
	}
	return readLog(r.ctx, r.o.Log, Position{}, func(p Position, e *logEntry) error {
		if e.kind == entryOpen {
			return nil
		}
		switch empty, err := index.IsEmpty(d.db); {
		case err != nil:
			return d.indexError(err)
		case empty:
			return errBehind
		}
		return fmt.Errorf("%w: it has something at %d, and this directory has no log: use a log of its own, or a new folder to get the directory of that one", ErrOtherLog, p.Seq)
	})
}

// replayOnce is how many bytes of changes one transaction takes from the log at most, or one
// entry.
const replayOnce = 1 << 20

// catchUp executes in pawl.db what the log has behind its place there.
//
// It may be called any number of times, and begins where the last one ended: the place is
// committed in the transaction of the entries that it stands for, so a crash in between repeats
// none and leaves none out. The tail keeps the entries as they came, and whether this life has
// made them.
//
// If the first entry does not go on from the place, the place may have the right sum and the
// wrong number: see findPlace.
func (d *Dir) catchUp() error {
	r := d.remote
	c := replayer{db: d.db, place: r.place, former: r.former, removed: map[string]bool{}, salvage: r.anew != nil, keep: func(e *logEntry, data []byte) {
		flag := flagOf(e.epoch == d.epoch, e.changes)
		if flag&tailPurge != 0 {
			d.eraseSoon()
		}
		r.tail.keepEntry(data, flag)
	}}
	err := c.replayLog(r.ctx, r.o.Log, time.Time{})
	if errors.Is(err, ErrCorrupt) && c.place == r.place {
		found, failed := d.findPlace()
		switch {
		case failed != nil:
			err = failed
		case found:
			c.place = r.place
			err = c.replayLog(r.ctx, r.o.Log, time.Time{})
		}
	}
	r.place = c.place
	// Changes that the last base has need no further one.
	if c.rebased {
		r.since.Store(0)
	}
	r.since.Add(c.total) // so that lives which are short leave no long log
	r.replayed += c.bytesRead
	d.removePurged(c.removed)
	return d.indexError(err)
}

// removePurged removes the files of runs that were purged elsewhere.
func (d *Dir) removePurged(names map[string]bool) {
	last, failed, left := "", error(nil), 0
	for name := range names {
		if err := d.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			last, failed, left = name, err, left+1
		}
	}
	if left > 0 {
		d.options.Logger.Warn("files of runs that were purged are left behind", "files", left, "file", d.pathOf(last), "error", failed)
	}
}

// A replayer executes the entries of a log in a pawl.db.
//
// It commits whenever there is much, and at the end. place and next differ by the transaction
// that is under way: a failure takes next back to place. It has no lock, for its caller has the
// connection to itself.
type replayer struct {
	db      *sqlite.Conn
	place   index.LogPlace                 // how much of the log is in it
	former  state.Epoch                    // of the life in which it was written, of one that no base has yet
	removed map[string]bool                // files of runs that are not in the index any more, of what was kept
	keep    func(e *logEntry, data []byte) // is called with each entry that was executed; may be nil

	next  index.LogPlace // as place, with the transaction under way
	gone  []string       // files of runs that it deletes
	bytes int            // of that; -1: no transaction is under way
	total int64          // bytes of all transactions since the last base
	count int            // of transactions
	at    time.Time      // of the last entry

	salvage bool // what came before an entry that cannot be read is executed and kept
	torn    bool // a transaction was not executed as a whole

	rebased   bool  // there was a base
	bytesRead int64 // of all transactions
}

// replayLog executes what a log has behind the place, up to an instant unless that is zero. If it fails, place
// is of what was executed and kept.
//
// An error at the first entry may mean that the log has dropped what comes behind the place,
// which has an answer of its own: the directory is made anew.
func (c *replayer) replayLog(ctx context.Context, log Log, until time.Time) error {
	c.next, c.bytes = c.place, -1
	first := true
	for entry, err := range log.Read(ctx, Position{Seq: c.place.Seq, Sum: c.place.Sum}) {
		if err == nil {
			err = c.replayEntry(entry, until)
		}
		if first && err != nil && !errors.Is(err, errLater) {
			if behind := isDropped(ctx, log, c.place.Seq); behind != nil {
				err = behind
			}
		}
		first = false
		if errors.Is(err, errLater) {
			break
		}
		if errors.Is(err, errAnew) {
			return errors.Join(c.commitReplayed(), err)
		}
		if err != nil && c.salvage && !c.torn {
			return errors.Join(err, c.commitReplayed())
		}
		if err != nil {
			c.rollBack()
			return err
		}
	}
	return c.commitReplayed()
}

// errLater ends a replay.
var errLater = errors.New("it is of later")

// isDropped returns errBehind if a log has dropped the entry behind one.
//
// The first entry that the log has tells.
func isDropped(ctx context.Context, log Log, seq uint64) error {
	for entry, err := range log.Read(ctx, Position{}) {
		if err == nil && entry.Seq > seq+1 {
			return errBehind
		}
		return nil
	}
	return nil
}

// replayEntry executes an entry.
//
// It is executed only if it names the entry before it, as this directory knows that. So an
// entry of a writer that had lost the log, and one that was changed or follows a gap, never
// gets into pawl.db.
//
// An opening changes nothing but the chain. Before the first base nothing else may come, unless
// it is the base that this directory has announced: then the log is its own, and the process died
// before that was noted.
func (c *replayer) replayEntry(entry Entry, until time.Time) error {
	e, err := decodeEntry(entry.Data)
	switch {
	case err != nil && errors.Is(err, ErrVersion):
		return fmt.Errorf("%s: %w", nameOfEntry(entry.Seq), err)
	case err != nil:
		return &CorruptError{File: nameOfEntry(entry.Seq), What: "it cannot be read", Err: err}
	case e.before != c.next.Sum:
		return &CorruptError{File: nameOfEntry(entry.Seq), What: fmt.Sprintf("it does not go on from the one before it, %d, as the directory knows that", c.next.Seq)}
	case !until.IsZero() && e.at.After(until):
		return errLater
	}
	switch {
	case e.kind == entryOpen:
	case e.kind == entryAnew:
		return errAnew
	case !c.next.Based && (e.kind != entryBase || e.epoch != c.former && firstOf(e.base) != c.next.First):
		return fmt.Errorf("%w: another one came before this had a base in it; use a log of its own", ErrOtherLog)
	case e.kind == entryBase:
		c.next.Based, c.rebased, c.total = true, true, 0
	default:
		if err := c.replayTapes(e.changes); err != nil {
			c.torn = true
			return &CorruptError{File: nameOfEntry(entry.Seq), What: "it does not fit the directory", Err: err}
		}
	}
	if c.keep != nil {
		c.keep(e, entry.Data)
	}
	p := PositionOf(entry.Seq, entry.Data)
	c.next.Seq, c.next.Sum, c.at = p.Seq, p.Sum, e.at
	if c.bytes >= replayOnce {
		return c.commitReplayed()
	}
	return nil
}

// replayTapes executes tapes in the transaction that is under way, or begins one.
//
// A statement that changes another number of rows than it did for the writer shows that the two
// differ, but for those that drop records: of these each copy has others, since it brings its
// files up to date by itself.
func (c *replayer) replayTapes(tapes [][]byte) error {
	if c.bytes < 0 {
		if _, err := c.db.Exec(begin); err != nil {
			return err
		}
		c.bytes = 0
	}
	for _, tape := range tapes {
		c.bytes += len(tape)
		c.total += int64(len(tape))
		c.bytesRead += int64(len(tape))
		c.count++
		if err := c.noteStatements(tape); err != nil {
			return err
		}
		if err := c.db.PlayTape(tape, isTrim); err != nil {
			return err
		}
	}
	return nil
}

// noteStatements notes which numbers of spills a tape uses, and which runs it deletes: that
// has to be known before.
//
// Numbers of spills that the log has used must not be given again; files of runs that are deleted
// here are removed, once that is committed, since no other statement tells of them.
func (c *replayer) noteStatements(tape []byte) error {
	return sqlite.EachStatement(tape, func(s *sqlite.Statement) error {
		if len(s.Args) == 0 {
			return nil
		}
		switch {
		case s.Text == putPart:
			n, _ := s.Args[0].(int64)
			c.next.Spill = max(c.next.Spill, n>>partBits)
		case strings.HasPrefix(s.Text, deleteListed):
			return c.db.Each(listedRuns, c.noteGone, s.Args[0])
		case s.Text == deleteRun:
			return c.db.Each(index.RunColumns+`WHERE num = ?`, c.noteGone, s.Args[0])
		}
		return nil
	})
}

const (
	listedRuns = index.RunColumns + `WHERE num IN (SELECT value FROM json_each(?))`
	// deleteRun is what an earlier program deleted a run by.
	deleteRun = `DELETE FROM runs WHERE num = ? AND status >= 4 RETURNING workflow, status, tenant, file_size, filed`
)

// noteGone notes the files of a run that is about to be deleted.
func (c *replayer) noteGone(x *sqlite.Row) error {
	row := index.ScanRow(x)
	for _, slot := range []index.Slot{1, 2} {
		c.gone = append(c.gone, filepath.FromSlash(index.FileName(row.Run, row.Nonce, slot)))
	}
	return nil
}

// commitReplayed commits the transaction under way.
//
// Nothing is done if nothing has come. Entries without changes move the place, too.
func (c *replayer) commitReplayed() error {
	if c.next == c.place {
		return nil
	}
	err := index.KeepLogPlace(c.db, c.next)
	if err == nil && c.bytes >= 0 {
		_, err = c.db.Exec(commit)
	}
	if err != nil {
		c.rollBack()
		return err
	}
	c.place, c.bytes = c.next, -1
	for _, name := range c.gone {
		c.removed[name] = true
	}
	c.gone = nil
	return nil
}

// rollBack undoes what was executed since the last commit.
func (c *replayer) rollBack() {
	if c.bytes >= 0 {
		_, _ = c.db.Exec(rollback) // whoever calls it has an error that tells more
		c.bytes = -1
	}
	c.next, c.gone = c.place, nil
}

// warn logs a warning while there is no Dir yet.
func (o *Options) warn(text string, args ...any) {
	if o.Logger != nil {
		o.Logger.Warn(text, args...)
	}
}

// A logSurvey is what there is in a log.
//
// It is filled entry by entry, by readSome.
type logSurvey struct {
	report     RecoverReport
	generation uint64   // the highest
	later      bool     // it has a base of a later generation than the directory
	bases      []string // that the log names
}

// maxHole is behind how many numbers in a row that cannot be read a survey passes over some.
const maxHole = 1000

// surveyLog looks at everything in the log, up to its end.
//
// It goes on behind what cannot be read, number by number, until entries can be read again: so what lies behind a hole is counted, and told. In a
// large hole each step is twice as long as the last one, and each number that it passes over counts as one more that is given up: nobody has looked whether
// there is an entry. The last entry is never passed over. known has the entries of the directory by their sums: the one that pawl.db
// has last, and those of the tail.
func (d *Dir) surveyLog(end Position) (*logSurvey, error) {
	r := d.remote
	known := map[[32]byte]bool{r.place.Sum: true}
	err := r.tail.eachRecord(func(_ string, _ int64, entry []byte, _ tailFlag) { known[PositionOf(0, entry).Sum] = true })
	if err != nil {
		return nil, err
	}
	s := &logSurvey{}
	s.report.Directory, s.report.Generation = Position{Seq: r.place.Seq, Sum: r.place.Sum}, r.place.Generation
	missing := uint64(0)
	for after := (Position{}); ; {
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
		if missing == 0 {
			s.report.GivenUp++ // nobody can tell what it was
		}
		next := max(after.Seq, s.report.Log.Seq) + 1
		if after.Seq = next; missing >= maxHole && next+1 < end.Seq {
			after.Seq = min(next+missing, end.Seq-1)
			s.report.GivenUp += int(after.Seq - next) //nolint:gosec // numbers of entries in one log
		}
		if missing += after.Seq - next + 1; after.Seq >= end.Seq {
			break
		}
	}
	if r.place.Seq > s.report.Common {
		s.report.Lacks = r.place.Seq - s.report.Common
	}
	return s, nil
}

// checkBases fails with ErrOtherLog if nothing in the log is known to the directory, and a base in it is of another one. If none of the bases can
// be read, each may hold commits, and counts as one entry that is given up.
func (d *Dir) checkBases(s *logSurvey) error {
	if s.report.Common > 0 {
		return nil
	}
	for _, base := range s.bases {
		if err := compareSecret(d.remote.ctx, d.remote.o.Bases, base, d.secret); !isUnreadable(err) {
			return err
		}
	}
	s.report.GivenUp += len(s.bases)
	return nil
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
		case e.kind == entryCommit && len(e.changes) > 0:
			s.report.GivenUp++
			if s.report.Until = e.at; s.report.Since.IsZero() {
				s.report.Since = e.at
			}
		default:
			s.generation = max(s.generation, e.generation())
			s.later = s.later || e.kind == entryBase && e.generation() > r.place.Generation
			if e.kind == entryBase {
				s.bases = append(s.bases, e.base)
			}
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

// fetchDirectory makes the directory of the last base in the log, if path has none but there is a base. The error is errNoDirectory
// if there is no base and the directory stands by.
//
// The directory appears whole or not at all, with pawl.db as the base has it; joinLog brings it
// to the end of the log.
func fetchDirectory(ctx context.Context, path string, o Options, r RemoteOptions) error {
	entries, err := os.ReadDir(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if len(entries) > 0 {
		return nil
	}
	f := &restorer{o: RestoreOptions{Log: r.Log, Bases: r.Bases, Codec: o.Codec}, stay: true}
	err = f.plan(ctx)
	switch {
	case errors.Is(err, ErrNoBase) && r.standsBy():
		return errNoDirectory // perhaps somebody is about to make it
	case errors.Is(err, ErrNoBase):
		return checkNoBases(ctx, r.Bases) // it is to be made
	}
	if err == nil {
		err = makeDir(filepath.Dir(filepath.Clean(path)))
	}
	if err == nil {
		err = newDirectory(o.Hook, path, func(building string) error { return f.fill(ctx, building) })
	}
	if err == nil && len(f.info.Damaged) > 0 {
		o.warn("the base of the directory lacks something", "directory", path, "damaged", f.info.Damaged)
	}
	return err
}

// leastBase is how many bytes a blob of a base has at least.
const leastBase = 64

// checkNoBases refuses a log without a base whose store has one: it is not a new log, but one that was lost, and with it
// everything that would be forgotten here without a word.
func checkNoBases(ctx context.Context, bases blob.Store) error {
	for info, err := range bases.All(ctx) {
		if err != nil {
			return err
		}
		if info.Size >= leastBase {
			return &CorruptError{File: "the log", What: "it has no base, but the store of bases has something: either the log was lost, and the directory is to be opened where it is, with Detach and then with a new log and a new store; or a first base was never finished, and the store is to be emptied"}
		}
	}
	return nil
}

// replaceDirectory makes a directory anew that does not fit its log any more. When the new one is whole, the old one is removed, or
// set aside under another name.
//
// The new one is made under another name while the old one stays, so that a failure leaves what
// was there. A crash between the two renamings leaves no directory under the name: the next
// opening makes one from the log, and what was there lies beside it.
func replaceDirectory(ctx context.Context, path string, o Options, r RemoteOptions, aside bool) error {
	path = filepath.Clean(path)
	fresh, old := path+".fetched", path+".behind"
	if err := os.RemoveAll(fresh); err != nil {
		return err
	}
	if err := fetchDirectory(ctx, fresh, o, r); err != nil {
		return err
	}
	if aside {
		old = freeName(path + ".superseded")
	}
	if err := os.RemoveAll(old); err != nil {
		return err
	}
	if err := os.Rename(path, old); err != nil {
		return err
	}
	if err := os.Rename(fresh, path); err != nil {
		return err
	}
	if err := syncAbove(path); err != nil {
		return err
	}
	if aside {
		o.warn("the log was begun anew from another directory: this one is made anew, and what was here is set aside", "directory", path, "aside", old)
		return nil
	}
	o.warn("the directory was too far behind its log, and is made anew", "directory", path)
	return os.RemoveAll(old)
}

// freeName returns a path at which nothing is.
func freeName(path string) string {
	name := path
	for n := 2; ; n++ {
		if _, err := os.Lstat(name); err != nil {
			return name
		}
		name = fmt.Sprintf("%s-%d", path, n)
	}
}
