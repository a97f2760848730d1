package store

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/testhook"
)

// FuzzLockRecord reads any bytes as the lock file: they are a lock record, in its one
// spelling, or nothing is said.
func FuzzLockRecord(f *testing.F) {
	for _, m := range []lockRecord{{state: stateClosed}, {state: stateOpen, epoch: 7}, {state: stateSynced, epoch: 1 << 63}, {stateClosed, 7, hashOfNothing, ""}, {stateClosed, 7, hashOfNothing, "2-17"}} {
		f.Add(m.String())
		f.Add(m.String()[1:])
		f.Add(m.String()[:len(m.String())-2])
	}
	f.Add("closed 0000000000000007 " + hashOfNothing + "0\n")
	f.Add("other 0000000000000007\n")
	f.Fuzz(func(t *testing.T, text string) {
		m := parseLockRecord(text)
		if m.String() == text {
			require.Contains(t, []closingState{stateClosed, stateOpen, stateSynced}, m.state)
			return
		}
		require.Equal(t, lockRecord{}, m)
	})
}

const hashOfNothing = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

// A crash while the lock record is written leaves the one before or the new one, in every order of them, as the same file.
func TestLockRecordAfterACrash(t *testing.T) {
	records := []lockRecord{{state: stateClosed}, {state: stateSynced, epoch: 7}, {stateClosed, 7, hashOfNothing, ""}, {stateClosed, 7, hashOfNothing, "2-17"}}
	for _, before := range records {
		for _, after := range records {
			f, err := os.Create(filepath.Join(t.TempDir(), lockName))
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, f.Close()) })
			hook := &testhook.Hook{}
			d := &Dir{lock: f, hook: hook}
			require.NoError(t, d.writeLockRecord(before))
			room := 0 // that the file has before the record comes, which needs no more
			hook.OnHit(func(at string) {
				text, err := os.ReadFile(f.Name())
				require.NoError(t, err)
				require.True(t, isLockRecord(string(text)))
				want := after
				if at == "mark.room" {
					want, room = before, len(text)
				}
				got, err := d.readLockRecord()
				require.NoError(t, err)
				require.Equal(t, want, got, "%q", text)
				require.Len(t, text, room)
			})
			require.NoError(t, d.writeLockRecord(after))
			require.NotZero(t, room)
			text, err := os.ReadFile(f.Name())
			require.NoError(t, err)
			require.Equal(t, after.String(), string(text))
		}
	}
	require.False(t, isLockRecord("synced 0000000000000007"), "it has no end")
}
