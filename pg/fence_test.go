package pg_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/cluster"
	"github.com/pawl-run/pawl/internal/testing/blobtest"
	"github.com/pawl-run/pawl/pg"
	"github.com/pawl-run/pawl/store"
)

// An append that was decided before others took the log, appended and dropped what they had appended, inserts nothing, although its number is free
// again: it has locked the row before it, or finds that gone.
func TestAppendsOfALogThatStandStill(t *testing.T) {
	url := newDatabase(t)
	db := open(t, url, pg.Options{})
	a, b := openLog(t, db, "late"), openLog(t, db, "late")
	takeLog(t, a, "a")
	holder, err := pgx.Connect(t.Context(), url) // it has the row that the append locks
	require.NoError(t, err)
	defer func() { require.NoError(t, holder.Close(context.Background())) }()
	tx, err := holder.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `SELECT FROM pawl.entries WHERE number = 1 FOR UPDATE`)
	require.NoError(t, err)
	ended := make(chan error)
	go func() {
		_, err := a.Append(t.Context(), []byte("late"))
		ended <- err
	}()
	require.Eventually(t, func() bool {
		return queryText(t, url, `SELECT count(*)::text FROM pg_locks WHERE NOT granted`) == "1"
	}, time.Minute, time.Millisecond)
	// The holder of the row does what B would do, and then Drop.
	_, err = tx.Exec(t.Context(), `INSERT INTO pawl.entries SELECT 'late', n, gen_random_uuid(), 'b' FROM generate_series(2, 4) n;`)
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `DELETE FROM pawl.entries WHERE number < 4`)
	require.NoError(t, err)
	require.NoError(t, tx.Commit(t.Context()))
	require.ErrorIs(t, <-ended, store.ErrFenced)
	takeLog(t, b, "b")
	requireEntries(t, b, "4 b", "5 b")
}

// An entry whose answer was lost is there once when it is appended again, and another one in its place is not ours.
func TestEntriesOfALogThatAreAppendedAgain(t *testing.T) {
	url := newDatabase(t)
	l := openLog(t, open(t, url, pg.Options{}), "again")
	first := takeLog(t, l, "open")
	execute(t, url, `INSERT INTO pawl.entries SELECT log, 2, writer, 'x' FROM pawl.entries`)
	require.Equal(t, store.PositionOf(first.Seq+1, []byte("x")), appendEntry(t, l, "x"))
	execute(t, url, `INSERT INTO pawl.entries SELECT log, 3, writer, 'y' FROM pawl.entries WHERE number = 2`)
	_, err := l.Append(t.Context(), []byte("z"))
	require.ErrorIs(t, err, store.ErrFenced)
	execute(t, url, `UPDATE pawl.entries SET data = 'z', writer = gen_random_uuid() WHERE number = 3`)
	_, err = l.Append(t.Context(), []byte("z"))
	require.ErrorIs(t, err, store.ErrFenced, "the same bytes of another writer")
	requireEntries(t, l, "1 open", "2 x", "3 z")
}

// A log that was shortened, emptied or has a hole is damage, which says where; one that another went on with has another writer.
func TestDamageOfALogInADatabase(t *testing.T) {
	url := newDatabase(t)
	db := open(t, url, pg.Options{})
	fill := func(name string) *pg.Log {
		l := openLog(t, db, name)
		takeLog(t, l, "1")
		for i := 2; i <= 5; i++ {
			appendEntry(t, l, fmt.Sprint(i))
		}
		return l
	}
	short := fill("short")
	execute(t, url, `DELETE FROM pawl.entries WHERE log = 'short' AND number > 3`)
	_, err := short.Append(t.Context(), []byte("6"))
	requireCorrupt(t, err, "entry 5 of the log short")
	takeLog(t, short, "4 anew")
	requireEntries(t, short, "1 1", "2 2", "3 3", "4 4 anew")

	hole := fill("hole")
	execute(t, url, `DELETE FROM pawl.entries WHERE log = 'hole' AND number = 3`)
	got, err := readLog(t, hole, store.Position{})
	requireCorrupt(t, err, "entry 3 of the log hole")
	require.Equal(t, []string{"1 1", "2 2"}, got)
	_, err = readLog(t, hole, store.Position{Seq: 2})
	requireCorrupt(t, err, "entry 3 of the log hole")
	got, err = readLog(t, hole, store.Position{Seq: 3})
	require.NoError(t, err)
	require.Equal(t, []string{"4 4", "5 5"}, got)

	gone := fill("gone")
	execute(t, url, `DELETE FROM pawl.entries WHERE log = 'gone'`)
	_, err = gone.Append(t.Context(), []byte("6"))
	requireCorrupt(t, err, "entry 5 of the log gone")
	takeLog(t, openLog(t, db, "gone"), "1 anew")
	_, err = gone.Append(t.Context(), []byte("6"))
	requireCorrupt(t, err, "entry 5 of the log gone")
	execute(t, url, `DELETE FROM pawl.logs WHERE name = 'gone'`)
	_, err = gone.Take(t.Context(), func(store.Position) []byte { return nil })
	requireCorrupt(t, err, "the log gone")

	// Another server's history, as long as this one's: each entry has another writer.
	other := fill("other")
	execute(t, url, `UPDATE pawl.entries SET writer = gen_random_uuid() WHERE log = 'other'`)
	_, err = other.Append(t.Context(), []byte("6"))
	require.ErrorIs(t, err, store.ErrFenced)
}

// A reader who is overtaken by a Drop is told to read again; one whose place was dropped has lost it.
func TestReadersOfALogThatAreOvertaken(t *testing.T) {
	url := newDatabase(t)
	l := openLog(t, open(t, url, pg.Options{}), "pages")
	takeLog(t, l, "1")
	execute(t, url, `INSERT INTO pawl.entries SELECT log, n, writer, 'x' FROM pawl.entries, generate_series(2, 2000) n`)
	count := 0
	for e, err := range l.Read(t.Context(), store.Position{}) {
		if count++; count == 10 {
			require.NoError(t, l.Drop(t.Context(), store.Position{Seq: 1500}))
		}
		if err != nil {
			require.NotErrorIs(t, err, store.ErrCorrupt)
			require.ErrorContains(t, err, "was dropped meanwhile: read again")
			require.Equal(t, 513, count)
			break
		}
		require.EqualValues(t, count, e.Seq)
	}
	_, err := readLog(t, l, store.Position{Seq: 700})
	requireCorrupt(t, err, "entry 701 of the log pages")
	got, err := readLog(t, l, store.Position{Seq: 1500})
	require.NoError(t, err)
	require.Len(t, got, 500)
}

// Large entries are whole, alone and in pages.
func TestLargeEntriesOfALog(t *testing.T) {
	db := open(t, newDatabase(t), pg.Options{})
	l := openLog(t, db, "large")
	sizes := []int{0, 9_000_000, 1, 2_000_000, 2_000_000, 1_000, 3_000_000}
	for i, n := range sizes {
		if i == 0 {
			takeLog(t, l, "")
			continue
		}
		require.Equal(t, store.PositionOf(uint64(i)+1, textOf(n)), appendEntry(t, l, string(textOf(n)))) //nolint:gosec // small
	}
	i := 0
	for e, err := range l.Read(t.Context(), store.Position{}) {
		require.NoError(t, err)
		require.Equal(t, textOf(sizes[i]), e.Data)
		i++
	}
	require.Len(t, sizes, i)
}

func requireCorrupt(t testing.TB, err error, file string) {
	t.Helper()
	var damage *store.CorruptError
	require.ErrorAs(t, err, &damage)
	require.Equal(t, file, damage.File)
}

// contendForLog has writers take a log from each other and append, at addresses that fail, until that many entries are acknowledged; disturb, which
// may be nil, is called now and then. All that was acknowledged must be there, once and in its order, and each writer's entries come behind its opening.
func contendForLog(t *testing.T, url string, writers, entries int, disturb func()) {
	t.Helper()
	acknowledged := map[uint64]string{}
	contendAt(t, url, writers, entries, disturb, acknowledged)
	requireAcknowledged(t, url, acknowledged)
}

// contendAt is contendForLog, and leaves it to the caller to look at what was acknowledged.
func contendAt(t *testing.T, url string, writers, entries int, disturb func(), acknowledged map[uint64]string) {
	t.Helper()
	var mu sync.Mutex
	late := time.Now().Add(5 * time.Minute)
	done := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(acknowledged) >= entries || time.Now().After(late)
	}
	note := func(p store.Position, entry string) {
		mu.Lock()
		defer mu.Unlock()
		if was, ok := acknowledged[p.Seq]; ok {
			t.Errorf("entry %d was acknowledged as %s and as %s", p.Seq, was, entry)
		}
		acknowledged[p.Seq] = entry
	}
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			db, err := pg.Open(t.Context(), url, pg.Options{})
			for err != nil && !done() {
				db, err = pg.Open(t.Context(), url, pg.Options{})
			}
			if err != nil {
				return
			}
			defer db.Close()
			writeContended(t, db, w, done, note)
		})
	}
	for disturb != nil && !done() {
		disturb()
	}
	all.Wait()
	require.GreaterOrEqual(t, len(acknowledged), entries, "within 5 minutes")
}

// writeContended takes the log, and appends until somebody else has it, again and again.
func writeContended(t *testing.T, db *pg.Database, w int, done func() bool, note func(store.Position, string)) {
	for life := 0; !done(); life++ {
		l, err := db.OpenLog(t.Context(), "contended")
		if err != nil {
			continue
		}
		open := fmt.Sprintf("open %d.%d", w, life)
		p, err := l.Take(t.Context(), func(store.Position) []byte { return []byte(open) })
		if err != nil {
			continue
		}
		note(p, open)
		for i := range 1 + rand.IntN(20) {
			entry := fmt.Sprintf("%d.%d %d", w, life, i)
			p, err := l.Append(t.Context(), []byte(entry))
			for err != nil && !isFenced(t, err) && !done() {
				p, err = l.Append(t.Context(), []byte(entry))
			}
			if err != nil {
				break
			}
			note(p, entry)
		}
	}
}

func isFenced(t *testing.T, err error) bool {
	if strings.Contains(err.Error(), "lost the end") {
		t.Error(err)
	}
	return errors.Is(err, store.ErrFenced)
}

// requireAcknowledged requires the entries that were acknowledged, none twice, and each behind the opening of its life, with no other life's between.
func requireAcknowledged(t *testing.T, url string, acknowledged map[uint64]string) {
	t.Helper()
	db := open(t, url, pg.Options{})
	seen, owner := map[string]bool{}, ""
	for e, err := range openLog(t, db, "contended").Read(t.Context(), store.Position{}) {
		require.NoError(t, err)
		text := string(e.Data)
		require.False(t, seen[text], "%s is there twice", text)
		seen[text] = true
		if want, ok := acknowledged[e.Seq]; ok {
			require.Equal(t, want, text)
			delete(acknowledged, e.Seq)
		}
		if life, ok := strings.CutPrefix(text, "open "); ok {
			owner = life
		} else {
			require.True(t, strings.HasPrefix(text, owner+" "), "%s behind the opening of %s", text, owner)
		}
	}
	require.Empty(t, acknowledged, "it was acknowledged and is not there")
}

// Writers that take the log from each other lose nothing.
func TestWritersThatContendForALog(t *testing.T) {
	contendForLog(t, migrated(t, newDatabase(t)), 4, 400, nil)
}

// migrated makes the tables.
func migrated(t testing.TB, url string) string {
	t.Helper()
	open(t, url, pg.Options{})
	return url
}

// Calls without a database, with names that cannot be, and on tables that are missing or newer say so.
func TestDatabasesThatAreRefused(t *testing.T) {
	for _, o := range []pg.Options{{Schema: "Pawl"}, {Schema: "a;b"}, {Prefix: "1"}, {Prefix: strings.Repeat("x", 33)}} {
		_, err := pg.Open(t.Context(), "postgres://127.0.0.1:1/x", o)
		require.ErrorIs(t, err, pawl.ErrInvalid)
		_, err = pg.MigrationSQL(o)
		require.ErrorIs(t, err, pawl.ErrInvalid)
	}
	_, err := pg.Open(t.Context(), "postgres://a:b:c", pg.Options{})
	require.ErrorIs(t, err, pawl.ErrInvalid)
	_, err = pg.Open(t.Context(), "postgres://127.0.0.1:1/x?connect_timeout=1", pg.Options{})
	require.Error(t, err)
	_, err = (&pg.Database{}).OpenLog(t.Context(), "x")
	require.ErrorIs(t, err, pawl.ErrInvalid)
	require.ErrorIs(t, (*pg.Database)(nil).Migrate(t.Context()), pawl.ErrInvalid)

	url := newDatabase(t)
	db, err := openDatabase(t.Context(), url, pg.Options{})
	require.NoError(t, err)
	defer db.Close()
	_, err = db.OpenBackend(t.Context(), "orders")
	require.ErrorIs(t, err, pg.ErrNoTables)
	require.NoError(t, db.Migrate(t.Context()))
	require.NoError(t, db.Migrate(t.Context()), "they are there")
	for _, name := range []string{"", "a b", strings.Repeat("x", 33)} {
		_, err = db.OpenLog(t.Context(), name)
		require.ErrorIs(t, err, pawl.ErrInvalid)
	}
	_, err = db.OpenBackend(t.Context(), strings.Repeat("x", 25))
	require.ErrorIs(t, err, pawl.ErrInvalid)
	l := openLog(t, db, "x")
	_, err = l.Append(t.Context(), nil)
	require.ErrorIs(t, err, pawl.ErrInvalid)
	_, err = l.Take(t.Context(), nil)
	require.ErrorIs(t, err, pawl.ErrInvalid)
	execute(t, url, `UPDATE pawl.version SET version = 99`)
	_, err = db.OpenLog(t.Context(), "x")
	require.ErrorIs(t, err, pawl.ErrVersion)
	execute(t, url, `DROP SCHEMA pawl CASCADE`)
	_, err = l.Take(t.Context(), func(store.Position) []byte { return nil })
	require.ErrorIs(t, err, pg.ErrNoTables)
}

// Other names of tables, made by Migrate or by its SQL, stand beside each other.
func TestNamesOfTables(t *testing.T) {
	url := newDatabase(t)
	a := open(t, url, pg.Options{Schema: "public", Prefix: "pawl_"})
	b := pg.Options{Schema: "public", Prefix: "x_"}
	sql, err := pg.MigrationSQL(b)
	require.NoError(t, err)
	execute(t, url, sql)
	takeLog(t, openLog(t, a, "x"), "a")
	other := open(t, url, b)
	takeLog(t, openLog(t, other, "x"), "b")
	requireEntries(t, openLog(t, a, "x"), "1 a")
	requireEntries(t, openLog(t, other, "x"), "1 b")
	require.Equal(t, "6", queryText(t, url, `SELECT count(*)::text FROM pg_tables WHERE schemaname = 'public' AND tablename LIKE 'x\_%'`))
	require.Equal(t, "6", queryText(t, url, `SELECT count(*)::text FROM pg_tables WHERE schemaname = 'public' AND tablename LIKE 'pawl\_%'`))
}

// Several processes may migrate at once.
func TestMigrationsAtOnce(t *testing.T) {
	url := newDatabase(t)
	var all sync.WaitGroup
	for range 6 {
		all.Go(func() {
			db, err := openDatabase(t.Context(), url, pg.Options{})
			if err != nil {
				t.Error(err)
				return
			}
			defer db.Close()
			if err := db.Migrate(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	require.Equal(t, "1", queryText(t, url, `SELECT string_agg(version::text, ' ') FROM pawl.version`))
}

// Words of SQL can be names of schemas, also in the printed migration.
func TestWordsOfSQLAreNames(t *testing.T) {
	for _, o := range []pg.Options{{Schema: "user"}, {Schema: "order", Prefix: "select"}, {Schema: "table", Prefix: "_"}} {
		url := newDatabase(t)
		sql, err := pg.MigrationSQL(o)
		require.NoError(t, err)
		execute(t, url, sql)
		for _, url := range []string{url, newDatabase(t)} { // made by psql, and by Migrate
			db := open(t, url, o)
			l, b := openLog(t, db, "l"), openBlobs(t, db)
			takeLog(t, l, "1")
			p := appendEntry(t, l, "2")
			requireEntries(t, l, "1 1", "2 2")
			require.NoError(t, l.Drop(t.Context(), p))
			hash := blobtest.Put(t, b, []byte("x"))
			require.Equal(t, []string{hash}, blobtest.ListHashes(t, b))
			_, err = b.Delete(t.Context(), hash, time.Now().Add(time.Hour))
			require.NoError(t, err)
			cell, err := db.OpenCell(t.Context(), "c")
			require.NoError(t, err)
			revision, err := cell.Write(t.Context(), []byte("1"), 0)
			require.NoError(t, err)
			_, err = cell.Write(t.Context(), []byte("2"), revision)
			require.NoError(t, err)
			value, err := cell.Read(t.Context())
			require.NoError(t, err)
			require.Equal(t, cluster.Value{Data: []byte("2"), Revision: value.Revision, Written: value.Written}, value)
		}
	}
}
