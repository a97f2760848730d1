package pg_test

import (
	"bytes"
	"io"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/pg"
	"github.com/pawl-run/pawl/store"
)

// Rows that take the server so long to delete that a statement for a whole part is not answered in time are deleted in smaller parts.
func TestSlowDeletesComeToTheirEnd(t *testing.T) {
	url := newDatabase(t)
	db := open(t, url, pg.Options{})
	l, b := openLog(t, db, "slow"), openBlobs(t, db)
	execute(t, url, `INSERT INTO pawl.entries SELECT 'slow', n, gen_random_uuid(), 'x' FROM generate_series(1, 400) n;
		INSERT INTO pawl.chunks SELECT gen_random_uuid(), 0, clock_timestamp() - interval '2 days', 'x' FROM generate_series(1, 40) n;
		CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(TG_ARGV[0]::float8); RETURN OLD; END $$;
		CREATE TRIGGER wait BEFORE DELETE ON pawl.entries FOR EACH ROW EXECUTE FUNCTION wait(0.002);
		CREATE TRIGGER wait BEFORE DELETE ON pawl.chunks FOR EACH ROW EXECUTE FUNCTION wait(0.01)`)
	db.SetAnswerTimeout(300 * time.Millisecond) // also of what has nothing to do with it
	require.Eventually(t, func() bool { return l.Drop(t.Context(), store.Position{Seq: 400}) == nil }, 5*time.Minute, time.Millisecond)
	require.Eventually(t, func() bool {
		for _, err := range b.All(t.Context()) { // it deletes chunks first
			if err != nil {
				return false
			}
		}
		return queryText(t, url, `SELECT concat((SELECT string_agg(number::text, ',') FROM pawl.entries), ' ', (SELECT count(*) FROM pawl.chunks))`) == "400 0"
	}, 5*time.Minute, time.Millisecond)
}

// Silences that have nothing to do with how many rows are deleted end nothing, however many they are.
func TestSilencesBetweenDeletes(t *testing.T) {
	rows, silences := int64(1000), 0
	require.NoError(t, pg.DeleteParts(512, func(most int64) (int64, error) {
		if silences++; silences%2 > 0 {
			return 0, &pgconn.PgError{Code: "57014"}
		}
		n := min(most, rows)
		rows -= n
		return n, nil
	}))
	require.Zero(t, rows)
}

// The commit at the end of a Put may take as long as all its bytes need on their way to a standby.
func TestBlobsWaitForSlowStandbys(t *testing.T) {
	s := startServer(t, nil)
	url := s.URL("postgres")
	db := open(t, url, pg.Options{})
	b := openBlobs(t, db)
	setStandby(t, s, "nobody")
	ended := make(chan error)
	go func() {
		_, _, err := b.Put(t.Context(), io.MultiReader(bytes.NewReader(textOf(8<<20)), readerFunc(func([]byte) (int, error) {
			db.SetAnswerTimeout(2 * time.Second) // of the commit: all before it is inserted
			return 0, io.EOF
		})))
		ended <- err
	}()
	awaitWaiting(t, url, "1")
	select {
	case err := <-ended:
		require.NoError(t, err, "it was given up")
	case <-time.After(4 * time.Second):
	}
	setStandby(t, s, "")
	require.NoError(t, <-ended)
}
