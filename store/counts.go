package store

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/workflow"
)

// A RunCount says how many runs of a workflow have a status.
type RunCount struct {
	Workflow string
	Status   workflow.RunStatus
	Runs     int64
}

// getIncidents finds the runs that go on by the index over statuses, and looks at a row of each.
const (
	getCounts = `SELECT workflow, status, runs, crc FROM run_counts`
	putCount  = `INSERT INTO run_counts (workflow, status, runs, crc) VALUES (?1, ?2, ?3, ?4)
		ON CONFLICT DO UPDATE SET runs = excluded.runs, crc = excluded.crc`
	dropCount = `DELETE FROM run_counts WHERE workflow = ? AND status = ?`

	getIncidents = `SELECT num FROM runs INDEXED BY runs_status WHERE status IN (1, 2) AND failure IS NOT NULL`
)

type countKey struct {
	workflow string
	status   workflow.RunStatus
}

// runCounts are the rows of run_counts, which runs have an incident, and how the transaction under way
// changes both. The lock of the index guards them.
//
// rows says what the last commit left, and changed what the transaction under way adds to that. A
// transaction that fails leaves changed as it is, and the next one clears it before it begins.
type runCounts struct {
	rows      map[countKey]int64
	changed   map[countKey]int64
	incidents map[int64]bool // by the number of the run; all are true
	noted     map[int64]bool // false: it has none any more
}

// loadCounts reads the rows.
//
// A row that has changed is refused, since a count that is wrong would stay wrong.
func (d *Dir) loadCounts() error {
	d.counts = runCounts{map[countKey]int64{}, map[countKey]int64{}, map[int64]bool{}, map[int64]bool{}}
	err := d.db.Each(getIncidents, func(r *sqlite.Row) error { d.counts.incidents[r.Int64(0)] = true; return nil })
	if err != nil {
		return err
	}
	return d.db.Each(getCounts, func(r *sqlite.Row) error {
		if !index.CRCMatches(r, 1, 3) {
			return &CorruptError{File: d.pathOf(indexFile), What: "a row of its table run_counts has changed: " + r.Text(0)}
		}
		d.counts.rows[countKey{r.Text(0), workflow.RunStatus(r.Int64(1))}] = r.Int64(2)
		d.standing.addRun(countKey{r.Text(0), workflow.RunStatus(r.Int64(1))}, r.Int64(2))
		return nil
	})
}

// countRun notes that the transaction under way makes one more run, or with -1 one less.
//
// It is called where a row of a run is written, with a status that the row has left or taken.
func (c *runCounts) countRun(name string, s workflow.RunStatus, n int64) {
	c.changed[countKey{name, s}] += n
}

// hasIncident reports whether a run goes on and has a failure nevertheless, which is an incident.
func hasIncident(h *Head) bool {
	return h.Failure != nil && (h.Status == workflow.RunRunning || h.Status == workflow.RunPaused)
}

// noteIncident notes whether the transaction under way leaves a run with an incident.
func (c *runCounts) noteIncident(num int64, before, after *Head) {
	if has := hasIncident(after); has || hasIncident(before) {
		c.noted[num] = has
	}
}

// clearChanges forgets what a transaction has changed.
func (c *runCounts) clearChanges() {
	clear(c.changed)
	clear(c.noted)
}

// writeChanges writes what the transaction under way has changed, as its last statements.
func (c *runCounts) writeChanges(db *sqlite.Conn) error {
	for key, n := range c.changed {
		status, runs := int64(key.status), c.rows[key]+n
		var err error
		switch {
		case n == 0:
		case runs > 0:
			_, err = db.Exec(putCount, index.RowWithCRC(key.workflow, status, runs)...)
		default:
			_, err = db.Exec(dropCount, key.workflow, status)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// keepChanges takes over what the transaction has changed, which is committed now.
func (c *runCounts) keepChanges() {
	for key, n := range c.changed {
		if c.rows[key] += n; c.rows[key] <= 0 {
			delete(c.rows, key)
		}
	}
	for num, has := range c.noted {
		if c.incidents[num] = has; !has {
			delete(c.incidents, num)
		}
	}
	c.clearChanges()
}

// Counts returns how many runs there are, by workflow and status, in the order of both. It
// looks at no run.
func (d *Dir) Counts(ctx context.Context) ([]RunCount, error) {
	var out []RunCount
	err := d.readIndexUntil(ctx, func(*sqlite.Conn) error {
		all := maps.Clone(d.counts.rows)
		for key, n := range d.redo.ahead {
			all[key] += n
		}
		for key, n := range all {
			if n > 0 {
				out = append(out, RunCount{key.workflow, key.status, n})
			}
		}
		return nil
	})
	slices.SortFunc(out, func(a, b RunCount) int {
		return cmp.Or(cmp.Compare(a.Workflow, b.Workflow), cmp.Compare(a.Status, b.Status))
	})
	return out, err
}

// countOf returns how many runs fit a name and statuses; no status means any.
//
// It is used to choose an index, so it need not be of one moment with what is read.
func (c *runCounts) countOf(name string, statuses []workflow.RunStatus) (n int64) {
	for key := range maps.Keys(c.rows) {
		if (name == "" || key.workflow == name) && (len(statuses) == 0 || slices.Contains(statuses, key.status)) {
			n += c.rows[key]
		}
	}
	return n
}

// A Backlog says how many wait, and how many may: then those who come next wait before.
type Backlog struct{ Waiting, Most int64 }

// Backlogs returns how many commits wait for the goroutine that makes them, how many runs for their files, and how many bytes of
// the redo log for their move into pawl.db. A directory with a log outside has no redo log: Most is 0. It waits for no commit.
func (d *Dir) Backlogs() (commits, files, redo Backlog) {
	f := &d.flusher
	f.mu.Lock()
	defer f.mu.Unlock()
	commits, files = Backlog{d.committer.waiting.Load(), maxQueue}, Backlog{int64(len(f.queue)), maxBacklog}
	return commits, files, Backlog{d.redo.used.Load(), d.redo.most.Load()}
}

const nextSizes = `SELECT num, file_size FROM runs WHERE num > ? ORDER BY num LIMIT ?`

// startSizes begins to count the files of runs, if there are metrics. Close waits for the end.
func (d *Dir) startSizes() {
	if d.options.Metrics == nil {
		return
	}
	d.measureIndex()
	d.sweeping.Go(func() {
		last, n := int64(math.MinInt64), sweptOnce
		for n == sweptOnce { // an error ends the directory, or another look at it tells the same
			n = 0
			err := d.readIndex(func(db *sqlite.Conn) error {
				err := db.Each(nextSizes, func(r *sqlite.Row) error {
					last = r.Int64(0)
					n++
					d.sizes.CountFile(last, r.Int64(1))
					return nil
				}, last, int64(sweptOnce))
				if err == nil && n < sweptOnce {
					d.sizes.Finish()
				}
				return err
			})
			if err != nil {
				return
			}
		}
	})
}

// measureIndex notes how large pawl.db is: at a checkpoint, since it grows with these alone.
func (d *Dir) measureIndex() {
	if d.options.Metrics == nil {
		return
	}
	if info, err := d.root.Stat(indexFile); err == nil {
		d.sizes.Index.Store(info.Size())
	}
}

// Sizes returns how many bytes pawl.db with its logs takes, and the files of runs; counted is false until these were counted once after
// Open. It waits for no commit. It counts nothing without Options.Metrics.
func (d *Dir) Sizes() (index, runs int64, counted bool) {
	runs, counted = d.sizes.Files()
	return d.sizes.Index.Load() + d.sizes.Log.Load() + d.redo.used.Load(), runs, counted
}

// Commits returns how many transactions this life of the directory has committed.
func (d *Dir) Commits() int64 { return d.commits.Load() }

// tenantBytes count how many bytes the runs of each tenant take on the disk: their files, and
// what the log has behind them. Open counts anew, so that nothing but a number changes with a commit.
type tenantBytes struct {
	changed map[string]int64 // by the transaction under way; nil if nothing is counted. The lock of the index guards it
	mu      sync.Mutex
	stored  map[string]int64
}

// A record takes in the log what runfile.Entry.LogSize says of it; length reads no content. The rows of runs are read in
// their own order: that is twice as fast as in the order of tenants.
const (
	logSize = `coalesce(sum(100 + length(message) + length(decisions) + coalesce(length(vals), 0) +
		coalesce((SELECT sum(length(data)) FROM parts WHERE parts.key BETWEEN log.parts << 20 AND (log.parts + 1 << 20) - 1), 0)), 0)`
	sumFiles = `SELECT tenant, sum(file_size) FROM runs NOT INDEXED WHERE tenant <> '' GROUP BY tenant`
	sumLogs  = `SELECT tenant, ` + logSize + ` FROM log JOIN runs ON num = log.key >> 32 WHERE tenant <> '' AND log.key & 4294967295 > filed GROUP BY tenant`
	sumLog   = `SELECT ` + logSize + ` FROM log WHERE key BETWEEN ? AND ?`
)

// loadTenantBytes counts what the directory has, if that is wanted. Dead records are not
// in the log any more.
//
// Two queries read every run that has a tenant, and the records in the log: what Open takes
// longer for the sake of it, nobody pays who has no quotas.
func (d *Dir) loadTenantBytes() error {
	if !d.options.CountTenants {
		return nil
	}
	b := &d.tenants
	b.changed, b.stored = map[string]int64{}, map[string]int64{}
	for _, text := range []string{sumFiles, sumLogs} {
		if err := d.db.Each(text, func(r *sqlite.Row) error { b.stored[r.Text(0)] += r.Int64(1); return nil }); err != nil {
			return err
		}
	}
	return nil
}

// countBytes notes that the transaction under way makes the runs of a tenant take so many more
// bytes, or less.
func (b *tenantBytes) countBytes(tenant string, n int64) {
	if b.changed != nil && tenant != "" {
		b.changed[tenant] += n
	}
}

// countPurged notes that a run is deleted, whose records are in the log still.
//
// A purge gives back what the run takes: its file, and the records behind that.
func (b *tenantBytes) countPurged(db *sqlite.Conn, num, filed int64, tenant string, fileSize int64) error {
	if b.changed == nil || tenant == "" {
		return nil
	}
	b.countBytes(tenant, -fileSize)
	return db.Each(sumLog, func(r *sqlite.Row) error { b.countBytes(tenant, -r.Int64(0)); return nil }, index.LogKey(num, filed+1), index.LogKey(num, index.MaxSeq))
}

// keepBytes takes over what the transaction has changed, which is committed now.
//
// It has a lock of its own, so that whoever asks for a tenant does not wait for a commit.
func (b *tenantBytes) keepBytes() {
	if len(b.changed) == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for tenant, n := range b.changed {
		if b.stored[tenant] += n; b.stored[tenant] <= 0 {
			delete(b.stored, tenant)
		}
	}
	clear(b.changed)
}

// TenantBytes returns about how many bytes the runs of a tenant take on the disk, ended runs included:
// their files and their records in the log, without blobs. It returns 0 without Options.CountTenants.
func (d *Dir) TenantBytes(tenant string) int64 {
	d.tenants.mu.Lock()
	defer d.tenants.mu.Unlock()
	return d.tenants.stored[tenant]
}

// TenantsBytes returns TenantBytes of all tenants that have some. It waits for no commit.
func (d *Dir) TenantsBytes() map[string]int64 {
	d.tenants.mu.Lock()
	defer d.tenants.mu.Unlock()
	return maps.Clone(d.tenants.stored)
}

// readRoom returns the number of a child's root, 0 without, and how many descendants
// that may still have. It refuses the child if the root may have no more, or is gone.
//
// A root has a number of descendants that it may have in its life, however deep they are, so that
// a definition which starts itself comes to an end. Each child takes one when its row is written,
// in the same transaction: two that begin at once cannot both take the last one. A run that is
// restored from another directory was counted there, and is not refused.
func (r *Run) readRoom(db *sqlite.Conn, id workflow.RunID) (root, room int64, err error) {
	if id == "" {
		return 0, 0, nil
	}
	sound := true
	_, err = db.One(getRoom, func(x *sqlite.Row) error {
		root, room, sound = x.Int64(0), x.Int64(1), index.CRCMatches(x, 1, 2)
		return nil
	}, string(id))
	switch {
	case err != nil:
	case !sound:
		err = &refusal{&CorruptError{Run: id, File: r.dir.pathOf(indexFile), What: "its row in the index is damaged"}}
	case room <= 0 && !r.adopted:
		err = refuseRequest("%w: run %q", ErrNoRoom, string(id))
	}
	return root, room, err
}

// Metrics of the directory have counts of their own, beside those of the commits and under other locks: nobody who asks waits
// for a commit, nor a commit for long.

// standingRuns count the runs by workflow and status: what run_counts has in pawl.db and what the redo log has ahead of it,
// together. The zero value counts none.
type standingRuns struct {
	mu sync.Mutex
	of map[countKey]int64
}

// addRuns adds to counts.
func (s *standingRuns) addRuns(changed map[countKey]int64) {
	if len(changed) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, n := range changed {
		s.addLocked(key, n)
	}
}

// addRun adds to one count.
func (s *standingRuns) addRun(key countKey, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addLocked(key, n)
}

func (s *standingRuns) addLocked(key countKey, n int64) {
	if s.of == nil {
		s.of = map[countKey]int64{}
	}
	if s.of[key] += n; s.of[key] == 0 {
		delete(s.of, key)
	}
}

// StandingRuns returns how many runs have not ended, by workflow and status, in the order of both. It waits for no commit.
func (d *Dir) StandingRuns() (out []RunCount) {
	d.standing.mu.Lock()
	for key, n := range d.standing.of {
		if n > 0 && !key.status.Final() {
			out = append(out, RunCount{key.workflow, key.status, n})
		}
	}
	d.standing.mu.Unlock()
	slices.SortFunc(out, func(a, b RunCount) int {
		return cmp.Or(cmp.Compare(a.Workflow, b.Workflow), cmp.Compare(a.Status, b.Status))
	})
	return out
}

// Unfiled returns how many committed records are in no file of a run, and when the oldest of them was made; zero without any.
// Records of runs that nobody has loaded since Open do not count. It waits for no commit, and looks at each run that has such
// records. It counts nothing without Options.Metrics.
func (d *Dir) Unfiled() (records int64, oldest time.Time) { return d.unfiled.Count() }

// A LogStand says how a directory stands with its log outside.
type LogStand struct {
	Waits   time.Duration // for how long the entry has waited that is being appended; 0 if none is
	Unbased int64         // bytes of changes since the last base was begun
}

// LogOutside returns how the directory stands with its log; ok is false without one. It waits for no commit.
func (d *Dir) LogOutside() (s LogStand, ok bool) {
	if d.remote == nil {
		return s, false
	}
	if since := d.remote.appending.Load(); since != nil {
		s.Waits = time.Since(*since)
	}
	s.Unbased = d.remote.since.Load()
	return s, true
}

// keepRuns takes over what the transaction has changed of the counts of runs, which is committed now.
func (d *Dir) keepRuns() {
	d.standing.addRuns(d.counts.changed)
	d.counts.keepChanges()
	d.redo.keepMoved()
}

// A RunSize says how many bytes the file of a run has. Its Head has no output, failure, artifacts or labels.
type RunSize struct {
	Head
	Bytes   int64 // 0 before the run has a file, and of a damaged row
	Damaged bool  // the row is not what was written, and its Head may be wrong
	Ended   bool  // the run, and the first of its ancestors, so that Purge forgets it
}

// RunSizes yields how large the files of all runs are, in the order of their starts, in pages: commits go on in between. It opens
// none of them, and reads no output of more than 4 KB: whether that, or the status beside it, is damaged, is not looked at. An error is
// the last one.
func (d *Dir) RunSizes(ctx context.Context) iter.Seq2[RunSize, error] {
	return func(yield func(RunSize, error) bool) {
		last, next, page := int64(math.MinInt64), int64(0), make([]RunSize, 0, listRows)
		for full := true; full; full = len(page) == listRows {
			err := ctx.Err()
			if err == nil {
				err = d.readRuns(ctx, func(db *sqlite.Conn) error {
					page = page[:0]
					return db.Each(index.SizeColumns, func(r *sqlite.Row) error {
						row, sound, ended := index.ScanSize(r)
						next = row.Num
						page = append(page, RunSize{Head: row.Head, Bytes: row.FileSize, Damaged: !sound, Ended: ended})
						return nil
					}, last, int64(listRows))
				})
			}
			if err != nil {
				yield(RunSize{}, err)
				return
			}
			last = next
			for i := range page {
				if !yield(page[i], nil) {
					return
				}
			}
		}
	}
}
