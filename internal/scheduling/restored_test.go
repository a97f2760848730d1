package scheduling_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/rescue"
)

// The schedules of a directory that was restored are paused when it is opened, also beside the original, which goes on; each says why.
// Resumed, they fire what comes from then on. The next opening pauses nothing.
func TestRestoredSchedulesArePaused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		folder := t.TempDir()
		o := open(t, filepath.Join(folder, "original"), done)
		o.publish()
		o.applyFields("every: 1h")
		pass(90 * time.Minute)
		_, err := o.Backup(t.Context(), filepath.Join(folder, "backup"))
		require.NoError(t, err)
		pass(90 * time.Minute)
		into := filepath.Join(folder, "copy")
		_, err = pawl.Restore(t.Context(), into, pawl.RestoreOptions{Folder: filepath.Join(folder, "backup")})
		require.NoError(t, err)

		e, err := pawl.Open(t.Context(), into, pawl.Options{Maintenance: true}) // it changes nothing
		require.NoError(t, err)
		held, err := e.Schedules().Get(t.Context(), "s")
		require.NoError(t, err)
		require.Empty(t, held.Next)
		require.Equal(t, "the directory was restored: your program pauses the schedule when it opens it, until somebody resumes it", held.Why)
		require.NoError(t, e.Close(context.Background()))
		var log bytes.Buffer
		e, err = pawl.Open(t.Context(), into, pawl.Options{Executor: pawl.Handlers{"work": done}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		require.NoError(t, err)
		require.NoError(t, e.Close(context.Background()))
		require.Contains(t, log.String(), "the directory was restored, and its schedules are paused until somebody resumes them")
		c := open(t, into, done)
		pass(90 * time.Minute)
		require.Equal(t, []string{"2000-01-01T01:00:00Z completed"}, c.runs())
		require.Equal(t, []string{"2000-01-01T01:00:00Z completed", "2000-01-01T02:00:00Z completed", "2000-01-01T03:00:00Z completed", "2000-01-01T04:00:00Z completed"}, o.runs())
		st := c.readStanding()
		require.Equal(t, "it is paused since 2000-01-01T01:00:00Z by restore: the directory was restored from a backup, "+
			"and the original may fire this schedule: resume it if it does not", st.Why)
		require.False(t, st.Paused.Incident)

		require.NoError(t, c.Schedules().Resume(t.Context(), "s"))
		pass(time.Hour)
		require.Equal(t, []string{"started 01T01:00:00 completed", "paused", "skipped 01T02:00:00 paused x3", "resumed", "started 01T05:00:00 completed"}, c.events())
		c.shut()
		again := open(t, into, done)
		require.Nil(t, again.readStanding().Paused)
	})
}

// Schedules of a restored directory that are resumed or applied before it is opened to go on fire then, and the others are paused.
func TestActsOnARestoredDirectoryStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		folder := t.TempDir()
		o := open(t, filepath.Join(folder, "original"), done)
		o.publish()
		o.applyFields("every: 1h")
		_, err := o.Backup(t.Context(), filepath.Join(folder, "backup"))
		require.NoError(t, err)
		for name, act := range map[string]func(pawl.Schedules) error{
			"resume": func(s pawl.Schedules) error { return s.Resume(t.Context(), "s") },
			"apply": func(s pawl.Schedules) error {
				_, err := s.Apply(t.Context(), one(t, "every: 2h"), pawl.ApplyOptions{})
				return err
			},
		} {
			into := filepath.Join(folder, name)
			_, err = pawl.Restore(t.Context(), into, pawl.RestoreOptions{Folder: filepath.Join(folder, "backup")})
			require.NoError(t, err)
			e, err := pawl.Open(t.Context(), into, pawl.Options{Maintenance: true})
			require.NoError(t, err)
			require.NoError(t, act(e.Schedules()))
			before, err := e.Schedules().Get(t.Context(), "s")
			require.NoError(t, err)
			require.NoError(t, e.Close(context.Background()))
			c := open(t, into, done)
			after := c.readStanding()
			require.Equal(t, before.Paused, after.Paused, name)
			require.Equal(t, name == "resume", after.Paused == nil)
			c.shut()
		}
	})
}

// A copy of a restored directory that was not opened yet is opened with its schedules paused as well: a backup, and what a repair makes.
func TestCopiesOfARestoredDirectoryArePaused(t *testing.T) {
	for name, mark := range map[string]string{"sound": "", "damaged": "{", "of no instant": `{"asOf":7}`} {
		t.Run(name, func(t *testing.T) { testCopiesOfARestoredDirectory(t, mark) })
	}
}

func testCopiesOfARestoredDirectory(t *testing.T, mark string) {
	synctest.Test(t, func(t *testing.T) {
		folder := t.TempDir()
		at := func(name string) string { return filepath.Join(folder, name) }
		o := open(t, at("original"), done)
		o.publish()
		o.applyFields("every: 1h")
		_, err := o.Backup(t.Context(), at("backup"))
		require.NoError(t, err)
		_, err = pawl.Restore(t.Context(), at("restored"), pawl.RestoreOptions{Folder: at("backup")})
		require.NoError(t, err)
		if mark != "" {
			require.NoError(t, os.WriteFile(at("restored/RESTORED"), []byte(mark), 0o600))
		}

		e, err := pawl.Open(t.Context(), at("restored"), pawl.Options{Maintenance: true})
		require.NoError(t, err)
		_, err = e.Backup(t.Context(), at("again"))
		require.NoError(t, err)
		require.NoError(t, e.Close(context.Background()))
		_, err = rescue.Repair(t.Context(), at("restored"), at("repaired"), rescue.Options{})
		require.NoError(t, err)
		for _, name := range []string{"again", "repaired"} {
			c := open(t, at(name), done)
			pass(90 * time.Minute)
			require.Empty(t, c.runs(), name)
			require.Contains(t, c.readStanding().Why, "by restore: the directory was restored from a backup", name)
		}
	})
}

// A mark that cannot be read keeps the directory from being opened: nobody knows whether another one fires its schedules.
func TestADamagedMarkOfARestore(t *testing.T) {
	dir := t.TempDir()
	open(t, dir, done).shut()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "RESTORED"), []byte("{"), 0o600))
	_, err := pawl.Open(t.Context(), dir, pawl.Options{Executor: pawl.Handlers{}})
	require.ErrorContains(t, err, "says when the directory was restored")
}
