package logtest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/store"
)

// Run tests a Log. open opens the same log, empty in each test, as another writer would.
func Run(t *testing.T, newLog func(t *testing.T) (open func() store.Log)) {
	for name, test := range map[string]func(*testing.T, func() store.Log){
		"Order": testOrder, "Fence": testFence, "FenceBehindDrop": testFenceBehindDrop, "Again": testAgain, "Drop": testDrop, "Ends": testEnds, "Reopen": testReopen,
	} {
		t.Run(name, func(t *testing.T) { test(t, newLog(t)) })
	}
}

func takeLog(t *testing.T, l store.Log, entry string) store.Position {
	p, err := l.Take(t.Context(), func(store.Position) []byte { return []byte(entry) })
	require.NoError(t, err)
	return p
}

func addEntry(t *testing.T, l store.Log, entry string) store.Position {
	p, err := l.Append(t.Context(), []byte(entry))
	require.NoError(t, err)
	return p
}

func entriesOf(t *testing.T, l store.Log, after store.Position) (out []string) {
	for e, err := range l.Read(t.Context(), after) {
		require.NoError(t, err)
		out = append(out, fmt.Sprintf("%d %s", e.Seq, e.Data))
	}
	return out
}

// Entries are read in the order in which they were appended, by anybody.
func testOrder(t *testing.T, open func() store.Log) {
	l := open()
	require.Empty(t, entriesOf(t, l, store.Position{}))
	p := takeLog(t, l, "open")
	require.Equal(t, store.PositionOf(1, []byte("open")), p)
	for i := range 12 {
		p = addEntry(t, l, fmt.Sprint(i))
		require.Equal(t, store.PositionOf(uint64(i)+2, []byte(fmt.Sprint(i))), p) //nolint:gosec // small
	}
	for _, reader := range []store.Log{l, open()} {
		got := entriesOf(t, reader, store.Position{})
		require.Len(t, got, 13)
		require.Equal(t, "1 open", got[0])
		require.Equal(t, "13 11", got[12])
		require.Equal(t, []string{"12 10", "13 11"}, entriesOf(t, reader, store.Position{Seq: 11}))
		require.Empty(t, entriesOf(t, reader, p))
	}
}

// Nobody appends who has lost the log, and the next one's entry names the last one's.
func testFence(t *testing.T, open func() store.Log) {
	a, b := open(), open()
	takeLog(t, a, "a")
	last := addEntry(t, a, "1")
	_, err := b.Take(t.Context(), func(found store.Position) []byte {
		require.Equal(t, last, found)
		return []byte("b")
	})
	require.NoError(t, err)
	for range 2 {
		_, err = a.Append(t.Context(), []byte("2"))
		require.ErrorIs(t, err, store.ErrFenced)
	}
	addEntry(t, b, "3")
	_, err = a.Append(t.Context(), []byte("4"))
	require.ErrorIs(t, err, store.ErrFenced)
	takeLog(t, a, "a again")
	addEntry(t, a, "5")
	require.Equal(t, []string{"1 a", "2 1", "3 b", "4 3", "5 a again", "6 5"}, entriesOf(t, open(), store.Position{}))
}

// Nobody appends who has lost the log, although the entries are dropped that say so.
func testFenceBehindDrop(t *testing.T, open func() store.Log) {
	a, b := open(), open()
	takeLog(t, a, "a")
	takeLog(t, b, "b")
	addEntry(t, b, "1")
	third := addEntry(t, b, "2")
	addEntry(t, b, "3")
	require.NoError(t, b.Drop(t.Context(), third))
	for range 2 {
		_, err := a.Append(t.Context(), []byte("4"))
		require.ErrorIs(t, err, store.ErrFenced)
	}
	addEntry(t, b, "5")
	require.Equal(t, []string{"5 3", "6 5"}, entriesOf(t, open(), store.Position{}))
}

// A writer that has not taken the log appends nothing.
func testAgain(t *testing.T, open func() store.Log) {
	l := open()
	_, err := l.Append(t.Context(), []byte("x"))
	require.Error(t, err)
	takeLog(t, l, "open")
	_, err = open().Append(t.Context(), []byte("x"))
	require.Error(t, err)
	require.Equal(t, []string{"1 open"}, entriesOf(t, l, store.Position{}))
}

// Dropped entries are gone, the numbers go on, and dropping them again does no harm.
func testDrop(t *testing.T, open func() store.Log) {
	l := open()
	takeLog(t, l, "open")
	second := addEntry(t, l, "1")
	addEntry(t, l, "2")
	require.NoError(t, l.Drop(t.Context(), store.Position{}))
	for range 2 {
		require.NoError(t, l.Drop(t.Context(), second))
		require.Equal(t, []string{"3 2"}, entriesOf(t, open(), store.Position{}))
	}
	addEntry(t, l, "3")
	require.Equal(t, []string{"3 2", "4 3"}, entriesOf(t, open(), second))
}

// Calls end with their context.
func testEnds(t *testing.T, open func() store.Log) {
	l := open()
	takeLog(t, l, "open")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := l.Append(ctx, []byte("1"))
	require.ErrorIs(t, err, context.Canceled)
	_, err = open().Take(ctx, func(store.Position) []byte { return nil })
	require.ErrorIs(t, err, context.Canceled)
	for _, err := range l.Read(ctx, store.Position{}) {
		require.ErrorIs(t, err, context.Canceled)
	}
	require.Equal(t, []string{"1 open"}, entriesOf(t, l, store.Position{}))

	refused := errors.New("it ends with something else")
	ending, stop := context.WithCancelCause(t.Context())
	_, err = open().Take(ending, func(store.Position) []byte { stop(refused); return []byte("x") })
	require.ErrorIs(t, err, refused)
	addEntry(t, l, "2") // nobody has taken it
	require.Equal(t, []string{"1 open", "2 2"}, entriesOf(t, l, store.Position{}))
}

// Somebody who opens a log with entries goes on behind them.
func testReopen(t *testing.T, open func() store.Log) {
	for i := range 3 {
		l := open()
		takeLog(t, l, fmt.Sprint("open ", i))
		addEntry(t, l, fmt.Sprint(i))
	}
	require.Equal(t, []string{"1 open 0", "2 0", "3 open 1", "4 1", "5 open 2", "6 2"}, entriesOf(t, open(), store.Position{}))
}
