package pg_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/pg"
)

// A user who may create no schema makes the tables in one that somebody has made for them, whatever its name is, by Migrate and by the SQL
// for psql.
func TestSchemasThatOthersHaveMade(t *testing.T) {
	url := newDatabase(t)
	execute(t, url, `DROP ROLE IF EXISTS app; CREATE ROLE app LOGIN`)
	app := strings.Replace(url, "postgres@", "app@", 1)
	for _, o := range []pg.Options{{}, {Schema: "user"}, {Schema: "table", Prefix: "p_"}, {Schema: "user", Prefix: "select_"}} {
		schema := o.Schema
		if schema == "" {
			schema = "pawl"
		}
		execute(t, url, `CREATE SCHEMA IF NOT EXISTS `+pgx.Identifier{schema}.Sanitize()+` AUTHORIZATION app`)
		l := openLog(t, open(t, app, o), "x")
		takeLog(t, l, "open")
		requireEntries(t, l, "1 open")
		require.NoError(t, open(t, app, o).Migrate(t.Context()), "the tables are there")
	}
	printed := pg.Options{Schema: "user", Prefix: "printed_"}
	sql, err := pg.MigrationSQL(printed)
	require.NoError(t, err)
	execute(t, app, sql)
	db, err := openDatabase(t.Context(), app, printed)
	require.NoError(t, err)
	defer db.Close()
	takeLog(t, openLog(t, db, "x"), "open")
}

// A user who may not make the tables is told which rights that takes, and makes them when they are granted.
func TestMigrationsThatAreForbidden(t *testing.T) {
	url := newDatabase(t)
	execute(t, url, `DROP ROLE IF EXISTS maker; CREATE ROLE maker LOGIN`)
	maker := strings.Replace(url, "postgres@", "maker@", 1)
	db, err := openDatabase(t.Context(), maker, pg.Options{Schema: "jobs"})
	require.NoError(t, err)
	defer db.Close()
	const advice = "migrate: the user of the connection needs USAGE and CREATE of the schema jobs, or CREATE of the database if the schema is missing: "
	forbidden := func(what string) {
		t.Helper()
		err := db.Migrate(t.Context())
		require.ErrorContains(t, err, advice)
		require.ErrorContains(t, err, "permission denied for "+what)
	}
	forbidden("database")
	execute(t, url, `CREATE SCHEMA jobs; GRANT USAGE ON SCHEMA jobs TO maker`)
	forbidden("schema jobs")
	execute(t, url, `GRANT CREATE ON SCHEMA jobs TO maker`)
	require.NoError(t, db.Migrate(t.Context()))

	other, err := openDatabase(t.Context(), maker, pg.Options{Schema: "others"})
	require.NoError(t, err)
	defer other.Close()
	name := url[strings.LastIndex(url, "/")+1 : strings.Index(url, "?")]
	execute(t, url, `GRANT CREATE ON DATABASE `+name+` TO maker`)
	require.NoError(t, other.Migrate(t.Context()))
}
