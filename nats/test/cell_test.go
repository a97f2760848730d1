package natstest

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	pawlcluster "github.com/pawl-run/pawl/cluster"
	"github.com/pawl-run/pawl/nats/natscluster"
)

// A cell changes only for a caller who knows what it is.
func TestCell(t *testing.T) {
	s := startServer(t)
	open := func() *natscluster.Cell {
		c, err := natscluster.OpenCell(t.Context(), connect(t, s.ClientURL()), natscluster.CellOptions{Bucket: "b", Key: "k"})
		require.NoError(t, err)
		return c
	}
	a, b := open(), open()
	value, err := a.Read(t.Context())
	require.NoError(t, err)
	require.Zero(t, value)
	began := time.Now()
	first, err := a.Write(t.Context(), []byte("one"), 0)
	require.NoError(t, err)
	_, err = b.Write(t.Context(), []byte("two"), 0)
	require.ErrorIs(t, err, pawlcluster.ErrChanged)
	value, err = b.Read(t.Context())
	require.NoError(t, err)
	require.Equal(t, "one", string(value.Data))
	require.Equal(t, first, value.Revision)
	require.WithinRange(t, value.Written, began, time.Now(), "it is the server's stamp")
	second, err := b.Write(t.Context(), []byte("two"), first)
	require.NoError(t, err)
	_, err = a.Write(t.Context(), []byte("three"), first)
	require.ErrorIs(t, err, pawlcluster.ErrChanged)
	value, err = a.Read(t.Context())
	require.NoError(t, err)
	require.Equal(t, second, value.Revision)
	for _, o := range []natscluster.CellOptions{{Key: "k"}, {Bucket: "b"}, {Bucket: "b", Key: "k", Replicas: 9}} {
		_, err = natscluster.OpenCell(t.Context(), connect(t, s.ClientURL()), o)
		require.ErrorIs(t, err, pawl.ErrInvalid)
	}
	_, err = natscluster.Open(t.Context(), connect(t, s.ClientURL()), natscluster.Options{Name: strings.Repeat("x", 30)})
	require.ErrorIs(t, err, pawl.ErrInvalid)
}
