package store

import (
	"sync"

	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/sqlite"
)

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
