package pg

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-run/pawl/cluster"
)

// A Cell is a [cluster.Cell] in a row: the lease of a cluster. The server's clock says when it was written.
//
// A revision is that clock in microseconds, or one more than the last: a server that has lost some does not give them again. A write waits for the
// disk of the primary and for no standby, because the log and not the lease decides whose commits count.
type Cell struct {
	db   *Database
	name string
}

var _ cluster.Cell = (*Cell)(nil)

// OpenCell returns the cell of a name: letters, digits, _ and -, at most 32. Errors: as of OpenLog.
func (d *Database) OpenCell(ctx context.Context, name string) (*Cell, error) {
	if err := d.checkTables(ctx, name); err != nil {
		return nil, fmt.Errorf("open the cell %s: %w", name, err)
	}
	return &Cell{d, name}, nil
}

// Read implements [cluster.Cell].
func (c *Cell) Read(ctx context.Context) (v cluster.Value, err error) {
	var revision int64
	var written time.Time
	err = c.db.queryRow(ctx, `SELECT data, revision, written FROM pawl.cells WHERE name = $1`, []any{c.name}, &v.Data, &revision, &written)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return cluster.Value{}, nil
	case err != nil:
		return cluster.Value{}, fmt.Errorf("read the cell %s: %w", c.name, err)
	}
	v.Revision, v.Written = uint64(revision), written //nolint:gosec // from 1
	return v, nil
}

// Write implements [cluster.Cell].
func (c *Cell) Write(ctx context.Context, value []byte, revision uint64) (uint64, error) {
	const (
		now    = `(extract(epoch FROM clock_timestamp()) * 1000000)::bigint`
		insert = `INSERT INTO pawl.cells (name, data, revision, written) SELECT $1, $2, ` + now + `, clock_timestamp() FROM ` + keepsHere + ` ON CONFLICT DO NOTHING RETURNING revision`
		update = `UPDATE pawl.cells SET data = $2, revision = greatest(revision + 1, ` + now + `), written = clock_timestamp()
			FROM ` + keepsHere + ` WHERE name = $1 AND revision = $3 RETURNING revision`
	)
	sql, args := insert, []any{c.name, orEmpty(value)}
	if revision != 0 {
		sql, args = update, append(args, int64(revision)) //nolint:gosec // a revision that Read or Write has returned
	}
	var changed int64
	err := c.db.queryRow(ctx, sql, args, &changed)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return 0, cluster.ErrChanged
	case err != nil:
		return 0, fmt.Errorf("write the cell %s: %w", c.name, err)
	}
	return uint64(changed), nil //nolint:gosec // from 1
}
