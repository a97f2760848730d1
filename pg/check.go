package pg

import (
	"context"
	"fmt"
)

// A Report is what Check has found.
type Report struct {
	Version           string // of the server, such as 15.8
	Fsync             bool   // the server syncs its files
	SynchronousCommit string // of the connection; package pg sets "on" for what it must keep, or leaves remote_apply
	SynchronousNames  string // synchronous_standby_names: "" if commits wait for no standby
	FullPageWrites    bool
	DataChecksums     bool
	Tables            int // their version; 0 if there are none

	// Unsafe says why the server may lose what it has acknowledged, although no disk fails. Open refuses such a server.
	Unsafe []string
	// Notes says what somebody should know before relying on the server.
	Notes []string
}

// oldest is the oldest version of PostgreSQL that its makers still mend, as server_version_num.
const oldest = 140000

// Check asks the server how it keeps what it has acknowledged. Errors: what PostgreSQL says.
func (d *Database) Check(ctx context.Context) (r Report, err error) {
	if d == nil || d.pool == nil {
		return r, errNoDatabase
	}
	const sql = `SELECT current_setting('server_version'), current_setting('server_version_num')::int, current_setting('fsync')::bool,
		current_setting('full_page_writes')::bool, current_setting('synchronous_commit'), current_setting('synchronous_standby_names'),
		current_setting('data_checksums')::bool, pg_is_in_recovery()`
	var number int
	var standby bool
	err = d.queryRow(ctx, sql, nil, &r.Version, &number, &r.Fsync, &r.FullPageWrites, &r.SynchronousCommit, &r.SynchronousNames, &r.DataChecksums, &standby)
	if err == nil {
		r.Tables, err = d.readVersion(ctx)
	}
	if err != nil {
		return r, fmt.Errorf("check the server: %w", err)
	}
	if !r.Fsync {
		r.Unsafe = append(r.Unsafe, "fsync is off: a crash of its machine loses and damages data")
	}
	note := func(applies bool, text string) {
		if applies {
			r.Notes = append(r.Notes, text)
		}
	}
	note(r.SynchronousNames == "", "synchronous_standby_names is empty: what is acknowledged is on this server alone, and a failover to a standby may lose the end of a log")
	note(!r.FullPageWrites, "full_page_writes is off: right only on a file system that never writes half a page, such as ZFS")
	note(!r.DataChecksums, "data_checksums is off: the server does not notice what its disk damages; the engine does, when it reads the entry")
	note(standby, "it is a standby: connect to the primary")
	note(number < oldest, "version "+r.Version+" of PostgreSQL is no longer mended")
	note(r.Tables == 0, "there are no tables of pawl: call Migrate")
	return r, nil
}
