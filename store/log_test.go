package store

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/pawl-run/pawl/internal/state"
)

// A plainLog has entries, whoever wrote them.
type plainLog [][]byte

func (l plainLog) Take(context.Context, func(Position) []byte) (Position, error) { panic("it is read") }
func (l plainLog) Append(context.Context, []byte) (Position, error)              { panic("it is read") }
func (l plainLog) Drop(context.Context, Position) error                          { panic("it is read") }

func (l plainLog) Read(_ context.Context, after Position) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for i, data := range l {
			if seq := uint64(i) + 1; seq > after.Seq && !yield(Entry{Seq: seq, Data: data}, nil) { //nolint:gosec // an index
				return
			}
		}
	}
}

// An entry is read as it was written; a changed one is told, and one of a later version too.
func TestEntries(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := logEntry{
			kind: rapid.SampledFrom([]entryKind{entryOpen, entryChanges, entryBase}).Draw(t, "kind"),
			at:   time.UnixMilli(rapid.Int64Range(-1<<50, 1<<50).Draw(t, "at")).UTC(), epoch: state.Epoch(rapid.Uint64().Draw(t, "epoch")),
		}
		copy(e.before[:], rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "before"))
		switch e.kind {
		case entryChanges:
			e.number = rapid.Int64().Draw(t, "number")
			e.changes = rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 1, 40), 1, 4).Draw(t, "changes")
		case entryBase:
			e.number, e.base = rapid.Int64().Draw(t, "number"), rapid.String().Draw(t, "base")
		}
		data := e.encode()
		got, err := decodeEntry(data)
		require.NoError(t, err)
		require.Equal(t, &e, got)
		data[rapid.IntRange(1, len(data)-1).Draw(t, "changed")] ^= 1
		_, err = decodeEntry(data)
		require.ErrorIs(t, err, errBadEntry)
		_, err = decodeEntry(data[:rapid.IntRange(0, len(data)-1).Draw(t, "cut")])
		require.Error(t, err)
	})
}

// An entry of a writer that had lost the log does not count, wherever it stands; nor does
// any entry that names it.
func TestVoidEntries(t *testing.T) {
	var log plainLog
	head := map[string]Position{}
	epochs := map[string]state.Epoch{"ann": 1, "ben": 2, "cid": 3}
	add := func(who string, kind entryKind, number int64) {
		e := logEntry{kind: kind, at: zero, epoch: epochs[who], number: number, before: head[who].Sum}
		data := e.encode()
		log = append(log, data)
		head[who] = PositionOf(uint64(len(log)), data)
	}
	add("ann", entryOpen, 0)
	add("ann", entryChanges, 1)
	add("ben", entryOpen, 0)
	add("ann", entryChanges, 2)
	add("ben", entryChanges, 3)
	add("ann", entryChanges, 4)
	add("ben", entryChanges, 5)
	add("cid", entryOpen, 0)
	add("ben", entryChanges, 6)
	var got []string
	require.NoError(t, readLog(t.Context(), log, Position{}, func(p Position, e *logEntry) error {
		got = append(got, fmt.Sprintf("%d:%d:%d", p.Seq, e.kind, e.number))
		return nil
	}))
	require.Equal(t, []string{"1:1:0", "2:2:1", "3:1:0", "5:2:3", "7:2:5", "8:1:0"}, got)

	log[4][len(log[4])-1] ^= 1
	got = nil
	require.NoError(t, readLog(t.Context(), log, Position{}, func(p Position, e *logEntry) error {
		got = append(got, fmt.Sprintf("%d:%d:%d", p.Seq, e.kind, e.number))
		if e.kind == entryDamaged {
			damage := (*CorruptError)(nil)
			require.ErrorAs(t, e.damage, &damage)
			require.Equal(t, "entry 5 of the log", damage.File)
		}
		return nil
	}))
	require.Equal(t, []string{"1:1:0", "2:2:1", "3:1:0", "5:0:0", "6:2:4", "8:1:0"}, got, "nobody can tell whether the sixth goes on from the fifth")
}

// An entry that does not go on from the one before it is damaged, unless its writer may have lost the log.
func TestEntriesThatDoNotGoOn(t *testing.T) {
	chain := func(from int64, epoch state.Epoch, n int) (log plainLog) {
		head := Position{}
		for i := range n {
			e := logEntry{kind: entryChanges, at: zero, epoch: epoch, number: from + int64(i), before: head.Sum}
			if i == 0 {
				e.kind, e.number = entryOpen, 0
			}
			log = append(log, e.encode())
			head = PositionOf(uint64(len(log)), log[i])
		}
		return log
	}
	ours, other := chain(1, 1, 6), chain(40, 2, 6)
	for _, tt := range []struct {
		name    string
		log     plainLog
		dropped uint64
		want    string // the numbers of those that are read, with ! of those that are damaged
	}{
		{"sound", ours, 0, "1 2 3 4 5 6"},
		{"a copy of the one before", plainLog{ours[0], ours[1], ours[2], ours[2], ours[4], ours[5]}, 0, "1 2 3 !4 5 6"},
		{"a copy at the end", plainLog{ours[0], ours[1], ours[2], ours[1]}, 0, "1 2 3 !4"},
		{"a copy of the opening", plainLog{ours[0], ours[1], ours[2], ours[0], ours[4]}, 0, "1 2 3 !4 5"},
		{"one is left out", plainLog{ours[0], ours[1], ours[3], ours[4], ours[5]}, 0, "1 2 !3 4 5"},
		{"one is left out of a log that has dropped some", plainLog{ours[0], ours[1], ours[3], ours[4], ours[5]}, 1, "2 !3 4 5"},
		{"one of another log", plainLog{ours[0], ours[1], ours[2], other[3], ours[4]}, 0, "1 2 3 !4 5"},
		{"one of a writer that lost a log which has dropped some since", plainLog{other[0], ours[0], ours[1], other[1], ours[2]}, 2, "3 5"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			require.NoError(t, readLog(t.Context(), droppedLog{tt.log, tt.dropped}, Position{}, func(p Position, e *logEntry) error {
				text := fmt.Sprint(p.Seq)
				if e.kind == entryDamaged {
					require.ErrorContains(t, e.damage, fmt.Sprintf("it does not go on from the one before it (entry %d of the log", p.Seq))
					text = "!" + text
				}
				got = append(got, text)
				return nil
			}))
			require.Equal(t, tt.want, strings.Join(got, " "))
		})
	}
}

// A droppedLog has dropped its first entries.
type droppedLog struct {
	plainLog
	dropped uint64
}

func (l droppedLog) Read(ctx context.Context, after Position) iter.Seq2[Entry, error] {
	return l.plainLog.Read(ctx, Position{Seq: max(after.Seq, l.dropped)})
}
