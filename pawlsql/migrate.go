package pawlsql

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"strings"
)

// files are the migrations, by dialect and number, for the default names of the tables.
//
//go:embed migrations
var files embed.FS

// A Migration is one of the steps that make the tables.
type Migration struct {
	Version int // from 1
	// SQL are statements, separated by semicolons at the ends of lines, for the names of the outbox. The last one notes the version.
	SQL string
}

// schemaVersion is the version of the last migration.
const schemaVersion = 1

var names = [schemaVersion]string{"0001_tables.sql"}

// Migrations returns all steps, for hosts that apply migrations by tools of their own; the files are in the folder migrations of this
// package as well.
func (b *Outbox) Migrations() ([]Migration, error) {
	var out []Migration
	for i, name := range names {
		data, err := files.ReadFile("migrations/" + string(b.kind) + "/" + name)
		if err != nil {
			return nil, err
		}
		out = append(out, Migration{i + 1, b.renameTables(string(data))})
	}
	return out, nil
}

// renameTables puts the names of the outbox in place of the default ones, all at once: a table may have the default name of another. Indexes have
// no schema before their names.
func (b *Outbox) renameTables(text string) string {
	q := b.dialect.quote
	var pairs []string
	for _, n := range [][2]string{{"pawl_calls", b.options.Calls}, {"pawl_effects", b.options.Effects}} {
		pairs = append(pairs,
			q+n[0]+q, b.dialect.quoteName(n[1]),
			q+n[0]+"_version"+q, b.dialect.quoteName(n[1]+"_version"),
			q+n[0]+"_", q+plainName(n[1])+"_",
		)
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// Migrate makes the tables, or does what they lack. It may be called at every start, and by several processes at once. The user of
// the database needs the right to create tables only where there is something to do.
func (b *Outbox) Migrate(ctx context.Context) error {
	have, err := b.readVersion(ctx)
	if err != nil {
		return fmt.Errorf("pawlsql: migrate: %w", err)
	}
	if have >= schemaVersion {
		return b.checkVersion(ctx)
	}
	steps, err := b.Migrations()
	if err != nil {
		return err
	}
	how := &sql.TxOptions{}
	if b.kind == PostgreSQL { // a snapshot from before the lock would not see what another one has made meanwhile
		how.Isolation = sql.LevelReadCommitted
	}
	tx, err := b.db.BeginTx(ctx, how)
	if err != nil {
		return fmt.Errorf("pawlsql: migrate: %w", err)
	}
	if b.kind == PostgreSQL { // two that create a table at once would fail
		_, err = tx.ExecContext(ctx, "SELECT pg_advisory_xact_lock(hashtext($1))", "pawlsql "+b.options.Calls)
	}
	for _, step := range steps[have:] {
		for statement := range strings.SplitSeq(step.SQL, ";\n") {
			if err == nil && strings.TrimSpace(statement) != "" {
				_, err = tx.ExecContext(ctx, statement)
			}
		}
	}
	if err != nil {
		return errors.Join(fmt.Errorf("pawlsql: migrate: %w", err), tx.Rollback())
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("pawlsql: migrate: %w", err)
	}
	return b.checkVersion(ctx)
}

// readVersion returns the version of the tables, 0 if there are none.
func (b *Outbox) readVersion(ctx context.Context) (n int, err error) {
	schema, name, found := strings.Cut(b.options.Calls+"_version", ".")
	if !found {
		schema, name = "", schema
	}
	var there int
	err = b.db.QueryRowContext(ctx, b.fillText(b.dialect.exists), schema, schema, name).Scan(&there)
	if err != nil || there == 0 {
		return 0, err
	}
	err = b.db.QueryRowContext(ctx, b.fillText("SELECT COALESCE(MAX(version), 0) FROM {version}")).Scan(&n)
	return n, err
}

// checkVersion fails with a *SchemaError if the tables are not those of this version of the package, or with the error of
// the database.
func (b *Outbox) checkVersion(ctx context.Context) error {
	have, err := b.readVersion(ctx)
	if err == nil && have != schemaVersion {
		err = &SchemaError{Table: b.options.Calls, Have: have, Need: schemaVersion}
	}
	return err
}

// A SchemaError says that the tables are not there, or not those of this version of the package.
type SchemaError struct {
	Table      string // of calls
	Have, Need int    // versions; Have is 0 if there are no tables
}

// Error names the version, and says what to do.
func (e *SchemaError) Error() string {
	if e.Have > e.Need {
		return fmt.Sprintf("pawlsql: the tables of %s have version %d: this program knows %d, and must be newer", e.Table, e.Have, e.Need)
	}
	return fmt.Sprintf("pawlsql: the tables of %s have version %d and need %d: call Migrate, or apply the migrations", e.Table, e.Have, e.Need)
}
