package store

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/internal/testing/harness"
)

// earlier is a format that never was: what is published is in another table.
const earlier = index.Version - 1

// toEarlier makes a pawl.db of that format of one of the present, and toPresent leads back.
const (
	toEarlier = `CREATE TABLE early AS SELECT * FROM published; DELETE FROM published; PRAGMA user_version=7`
	toPresent = `INSERT INTO published SELECT * FROM early; DROP TABLE early`
)

// withMigration returns a hook that leads from the earlier format to this one. before and after are called in
// the transaction.
func withMigration(before, after func() error) *testhook.Hook {
	hook := &testhook.Hook{}
	hook.PlantMigration(earlier, func(script func(string) error) error {
		if err := before(); err != nil {
			return err
		}
		if err := script(toPresent); err != nil {
			return err
		}
		return after()
	})
	return hook
}

func nothing() error { return nil }

// makeEarlier makes a directory of the earlier format with a run and a published definition, closed or, as after a crash,
// with a lock file that says nothing.
func makeEarlier(t *testing.T, closed bool) string {
	require.Equal(t, 7, earlier, "toEarlier says so")
	dir := t.TempDir()
	d := openWith(t, dir, Options{})
	require.NoError(t, d.Publish(graph(t)))
	start(t, d, "r1").five(nil)
	epoch := d.Epoch()
	require.NoError(t, d.Close())
	path := filepath.Join(dir, indexFile)
	c, err := sqlite.Open(path, ``)
	require.NoError(t, err)
	require.NoError(t, c.Script(toEarlier))
	require.NoError(t, c.Close())
	text := ""
	if closed {
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		sum := sha256.Sum256(data)
		text = lockRecord{state: stateClosed, epoch: epoch, hash: hex.EncodeToString(sum[:])}.String()
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, lockName), []byte(text), 0o600))
	return dir
}

// checkPresent checks that a directory has all that it had, in the present format.
func checkPresent(t *testing.T, dir string) {
	t.Helper()
	d, err := Open(dir, Options{})
	require.NoError(t, err)
	var names []string
	for p, err := range d.AllPublished(t.Context(), "") {
		require.NoError(t, err)
		names = append(names, fmt.Sprint(p.Name, "@", p.Version))
	}
	require.Equal(t, []string{"fan@3"}, names)
	require.Len(t, all(t, d.History("r1")), 6)
	require.NoError(t, d.Close())
	data, err := os.ReadFile(filepath.Join(dir, indexFile))
	require.NoError(t, err)
	h, ok := sqlite.ParseHeader(data)
	require.True(t, ok)
	require.Equal(t, uint32(index.Version), h.UserVersion)
}

// A directory of an earlier format is brought to the present one when it is opened, and stays as it is where nothing leads there.
func TestMigration(t *testing.T) {
	for _, closed := range []bool{true, false} {
		dir := makeEarlier(t, closed)
		was := harness.Contents(t, dir)
		_, err := Open(dir, Options{})
		require.ErrorIs(t, err, ErrVersion)
		require.Equal(t, was, harness.Contents(t, dir))
		hook := withMigration(nothing, nothing)
		hook.PlantMigration(earlier-1, nil)
		_, err = Open(dir, Options{Hook: hook})
		require.ErrorIs(t, err, ErrVersion, "a step from another format leads nowhere")

		openWith(t, dir, Options{Hook: withMigration(nothing, nothing)}).Close()
		checkPresent(t, dir)
	}
}

// A directory that has a log elsewhere stays in its format, until it goes on without one.
func TestAMigrationOfADirectoryWithALog(t *testing.T) {
	dir := makeEarlier(t, true)
	c, err := sqlite.Open(filepath.Join(dir, indexFile), ``)
	require.NoError(t, err)
	require.NoError(t, index.KeepLogPlace(c, index.LogPlace{Seq: 3, Based: true}))
	require.NoError(t, c.Close())
	require.NoError(t, os.Remove(filepath.Join(dir, lockName))) // it knew another pawl.db
	was := harness.Contents(t, dir)
	hook := withMigration(nothing, nothing)
	_, err = Open(dir, Options{Hook: hook, LogAway: true})
	require.ErrorIs(t, err, ErrVersion)
	require.ErrorContains(t, err, "Detach")
	_, err = OpenRemote(t.Context(), dir, Options{Hook: hook}, RemoteOptions{Log: struct{ Log }{}, Bases: struct{ blob.Store }{}}) // neither is asked
	require.ErrorIs(t, err, ErrVersion)
	require.ErrorContains(t, err, "Detach")
	after := harness.Contents(t, dir)
	delete(after, lockName)
	delete(after, indexWAL) // an empty one
	require.Equal(t, was, after)
	openWith(t, dir, Options{Hook: hook, Detach: true}).Close()
	checkPresent(t, dir)
}

// A step that fails, or after which a table is not what it must be, leaves the earlier format, and comes again.
func TestAMigrationThatFails(t *testing.T) {
	broken := errors.New("broken")
	for _, hook := range []*testhook.Hook{
		withMigration(func() error { return broken }, nothing),
		withMigration(nothing, func() error { return broken }),
		func() *testhook.Hook {
			hook := &testhook.Hook{}
			hook.PlantMigration(earlier, func(script func(string) error) error { return script(`CREATE TABLE other (x)`) })
			return hook
		}(),
	} {
		dir := makeEarlier(t, true)
		_, err := Open(dir, Options{Hook: hook})
		require.Error(t, err)
		require.True(t, errors.Is(err, broken) || errors.Is(err, ErrCorrupt) && strings.Contains(err.Error(), "format 7"), err)
		_, err = Open(dir, Options{})
		require.ErrorIs(t, err, ErrVersion, "it is of the earlier format")
		openWith(t, dir, Options{Hook: withMigration(nothing, nothing)}).Close()
		checkPresent(t, dir)
	}
}

// A pawl.db of an earlier format with a page that is damaged is refused, though its rows cannot be checked yet.
func TestAMigrationOfDamage(t *testing.T) {
	dir := makeEarlier(t, false)
	path := filepath.Join(dir, indexFile)
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	for i := index.PageSize; i < len(data); i += index.PageSize {
		data[i] ^= 0x55 // the kind of each page
	}
	require.NoError(t, os.WriteFile(path, data, 0o600))
	_, err = Open(dir, Options{Hook: withMigration(nothing, nothing)})
	require.ErrorIs(t, err, ErrCorrupt)
}

// migrateInChild opens a directory of the earlier format, and dies at a place.
func migrateInChild(path string) {
	place := os.Getenv("PAWL_STORE_DIE")
	die := func(at string) func() error {
		return func() error {
			if place == at {
				harness.KillProcess()
			}
			return nil
		}
	}
	hook := withMigration(die("before"), die("after"))
	torn := 0
	hook.OnHit(func(point string) {
		if point == "mark.torn" {
			torn++
			point = fmt.Sprint(point, torn)
		}
		_ = die(point)()
	})
	d, err := Open(path, Options{Hook: hook})
	check(err)
	check(d.Close())
}

// Killed anywhere, a directory is of the one format or of the other, and the next Open goes on.
func TestKillAMigration(t *testing.T) {
	harness.InTurn(t, 4)
	t.Parallel()
	for _, closed := range []bool{true, false} {
		for _, place := range []string{"mark.torn1", "before", "after", "mark.torn2", "open.epoch", "mark.torn3"} {
			dir := makeEarlier(t, closed)
			cmd := exec.CommandContext(t.Context(), os.Args[0])
			cmd.Env = harness.Environment("PAWL_STORE_MIGRATE="+dir, "PAWL_STORE_DIE="+place)
			out, err := cmd.CombinedOutput()
			require.True(t, harness.Killed(err), "%s: %v: %s", place, err, out)
			d, err := Open(dir, Options{Hook: withMigration(nothing, nothing)})
			require.NoError(t, err, place)
			require.NoError(t, d.Close())
			checkPresent(t, dir)
		}
	}
}
