package pg_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/testing/blobtest"
	"github.com/pawl-run/pawl/internal/testing/servers"
	"github.com/pawl-run/pawl/pg"
)

// A deafConn loses requests to cancel statements, as a firewall may: the server goes on with them.
type deafConn struct{ net.Conn }

func (c deafConn) Write(p []byte) (int, error) {
	const cancelRequest = 80877102
	if len(p) >= 8 && binary.BigEndian.Uint32(p[4:]) == cancelRequest {
		return 0, errors.New("lost")
	}
	return c.Conn.Write(p)
}

// loseCancels has a pool lose its requests to cancel statements.
func loseCancels(c *pgxpool.Config) {
	dial := c.ConnConfig.DialFunc
	c.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		return deafConn{conn}, err
	}
}

// setStandby names the standbys that commits wait for from then on.
func setStandby(t *testing.T, s *servers.Postgres, names string) {
	t.Helper()
	require.NoError(t, s.Reload(map[string]string{"synchronous_standby_names": names}))
	require.Eventually(t, func() bool { return queryText(t, s.URL("postgres"), `SHOW synchronous_standby_names`) == names }, time.Minute, time.Millisecond)
	awaitSettings(t, s.URL("postgres"))
}

// awaitSettings returns when all commits go by the settings that a new connection has: the checkpointer tells others whether to wait for standbys,
// after it has read the settings itself.
func awaitSettings(t *testing.T, url string) {
	t.Helper()
	execute(t, url, `CHECKPOINT`)
}

// awaitWaiting waits until so many commits wait for a standby.
func awaitWaiting(t *testing.T, url, n string) {
	t.Helper()
	require.Eventually(t, func() bool {
		return queryText(t, url, `SELECT count(*)::text FROM pg_stat_activity WHERE wait_event = 'SyncRep'`) == n
	}, time.Minute, time.Millisecond)
}

// A blob is whole when it is put again and the commit of that waits for a standby: neither the Put that was given up deletes the content that the
// blob will have, nor does All, days later. The content that it had is deleted in the end.
func TestBlobsWhoseCommitIsInDoubt(t *testing.T) {
	s := startServer(t, nil)
	url := s.URL("postgres")
	db := open(t, url, pg.Options{Configure: loseCancels})
	b := openBlobs(t, db)
	content := textOf(600 << 10)
	hash := blobtest.Put(t, b, content)
	setStandby(t, s, "nobody")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, _, err := b.Put(ctx, bytes.NewReader(content))
		ended <- err
	}()
	awaitWaiting(t, url, "1")
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
	const age = `UPDATE pawl.chunks SET put_at = put_at - interval '2 days'`
	execute(t, url, `SET synchronous_commit = local; `+age)
	require.Equal(t, []string{hash}, blobtest.ListHashes(t, b))
	setStandby(t, s, "")
	awaitWaiting(t, url, "0")
	got, err := blobtest.Read(t, b, hash)
	require.NoError(t, err)
	require.True(t, bytes.Equal(content, got))
	countChunks := func() string { return queryText(t, url, `SELECT count(*)::text FROM pawl.chunks`) }
	require.Eventually(t, func() bool { return countChunks() == "6" }, time.Minute, time.Millisecond, "the content that it had is there too")
	require.Eventually(t, func() bool {
		require.Equal(t, []string{hash}, blobtest.ListHashes(t, b))
		return countChunks() == "3"
	}, time.Minute, time.Millisecond)
	got, err = blobtest.Read(t, b, hash)
	require.NoError(t, err)
	require.True(t, bytes.Equal(content, got))
}

// A Put that the server has refused leaves nothing, nor does one that takes so long that All might meet it.
func TestBlobsThatAreRefused(t *testing.T) {
	url := newDatabase(t)
	b := openBlobs(t, open(t, url, pg.Options{}))
	execute(t, url, `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'refused'; END $$;
		CREATE TRIGGER refuse BEFORE INSERT ON pawl.blobs FOR EACH ROW EXECUTE FUNCTION refuse()`)
	content := textOf(600 << 10)
	_, _, err := b.Put(t.Context(), bytes.NewReader(content))
	require.ErrorContains(t, err, "refused")
	require.Equal(t, "0", queryText(t, url, `SELECT count(*)::text FROM pawl.chunks`))
	execute(t, url, `DROP TRIGGER refuse ON pawl.blobs`)
	_, _, err = b.Put(t.Context(), io.MultiReader(bytes.NewReader(content), readerFunc(func([]byte) (int, error) {
		execute(t, url, `UPDATE pawl.chunks SET put_at = put_at - interval '13 hours' WHERE number = 0`)
		return 0, io.EOF
	})))
	require.ErrorContains(t, err, "the blob was not put within 12 hours")
	require.Equal(t, "0", queryText(t, url, `SELECT count(*)::text FROM pawl.chunks`))
}

// A readerFunc is a reader that is a function.
type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
