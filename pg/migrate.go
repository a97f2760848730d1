package pg

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

//go:embed migrations/1.sql
var migration1 string

// migrations has the SQL of each version of the tables, from the first.
var migrations = []string{migration1}

// MigrationSQL returns the statements that make the tables of these options, from no tables at all: run them in one transaction. Errors:
// pawl.ErrInvalid.
func MigrationSQL(o Options) (string, error) {
	o, err := o.withDefaults()
	if err != nil {
		return "", err
	}
	return newNames(o).Replace(strings.Join(migrations, "\n")), nil
}

// Migrate makes the tables, or brings older ones to this version, in one transaction; others may call it at the same time. The user of the connection
// needs USAGE and CREATE of the schema, or CREATE of the database if the schema is missing.
func (d *Database) Migrate(ctx context.Context) error {
	if d == nil || d.pool == nil {
		return errNoDatabase
	}
	version, err := d.readVersion(ctx)
	if err != nil || version >= len(migrations) {
		return err
	}
	err = d.migrateFrom(ctx, version)
	if err != nil {
		if now, _ := d.readVersion(ctx); now >= len(migrations) { // somebody else was faster
			return nil
		}
		return fmt.Errorf("migrate: %w", d.explainMigration(err))
	}
	return nil
}

// explainMigration is explain for the statements of migrations, which need other rights than those of logs and blobs.
func (d *Database) explainMigration(err error) error {
	var said *pgconn.PgError
	if errors.As(err, &said) && said.Code == codeForbidden {
		return fmt.Errorf("the user of the connection needs USAGE and CREATE of the schema %s, or CREATE of the database if the schema is missing: %w", d.options.Schema, err)
	}
	return d.explain(err)
}

// migrateFrom runs the SQL of the versions behind one. Several statements that are sent at once are one transaction, also for a pooler.
func (d *Database) migrateFrom(ctx context.Context, version int) error {
	conn, err := d.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	sql := fmt.Sprintf("SELECT pg_advisory_xact_lock(%d);\n%s", migrationLock, strings.Join(migrations[version:], "\n"))
	_, err = conn.Conn().PgConn().Exec(ctx, d.names.Replace(sql)).ReadAll()
	return err
}

// migrationLock is the number of the advisory lock behind which one process migrates at a time.
const migrationLock = 0x7061776c // "pawl"
