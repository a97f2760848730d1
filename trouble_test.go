package pawl_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/replay"
	"github.com/pawl-run/pawl/workflow"
)

// Instants outside of the years 1 to 9999 are refused in an export, with their place: nothing could show them. The lists keep the run
// that was there before, and no other.
func TestAnExportOfImpossibleInstants(t *testing.T) {
	e := open(t, t.TempDir(), pawl.Options{})
	def := define(t, "name: a\nstart: a\nnodes: [{id: a, wait: {event: go}}]")
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "old", Definition: def}, nil))
	require.NoError(t, e.Signal(t.Context(), "old", workflow.Signal{Name: "go"}))
	var text bytes.Buffer
	require.NoError(t, e.Export(t.Context(), "old", &text, pawl.ExportOptions{}))
	for _, at := range []int64{316516809600000, math.MaxInt64, math.MinInt64, -62167219200001} { // of the year 12000, and others
		path := filepath.Join(t.TempDir(), "edited.pawl")
		require.NoError(t, os.WriteFile(path, []byte(withInstants(t, text.String(), at)), 0o600))
		rec, err := replay.Find(path + ":old")
		if err == nil {
			err = e.Import(t.Context(), rec, "new", pawl.ForkOptions{})
		}
		require.ErrorContains(t, err, "there are instants of the years 1 to 9999 only")
		require.ErrorContains(t, err, "line 3")
	}
	// The clock of the machine may have been set back while a run went on.
	path := filepath.Join(t.TempDir(), "back.pawl")
	require.NoError(t, os.WriteFile(path, []byte(withInstants(t, text.String(), 0)), 0o600))
	_, err := replay.Find(path + ":old")
	require.NoError(t, err)
	var ids []workflow.RunID
	for r, err := range e.Runs(t.Context(), pawl.RunFilter{}) {
		require.NoError(t, err)
		ids = append(ids, r.Run)
	}
	require.Equal(t, []workflow.RunID{"old"}, ids)
}

// withInstants edits an export: its first record has another instant.
func withInstants(t *testing.T, text string, at int64) string {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	before, rest, ok := strings.Cut(lines[2], `"at":`)
	require.True(t, ok, lines[2])
	lines[2] = before + fmt.Sprintf(`"at":%d`, at) + strings.TrimLeft(rest, "0123456789")
	body := strings.Join(lines[:len(lines)-1], "\n") + "\n"
	end := lines[len(lines)-1]
	i := strings.Index(end, `"sha256":"`) + len(`"sha256":"`)
	return body + end[:i] + fmt.Sprintf("%x", sha256.Sum256([]byte(body))) + end[i+64:] + "\n"
}

// Two names of tenants that look the same would have the limits of two: only one of them is one.
func TestTenantsThatLookTheSame(t *testing.T) {
	e := open(t, t.TempDir(), pawl.Options{})
	def := define(t, "name: a\nstart: a\nnodes: [{id: a}]")
	for _, tenant := range []string{"mallory ", " mallory", "mallory\u00a0", "ｍallory", "mallory\u2002", "ﬁn", "e\u0301"} {
		err := e.Start(t.Context(), workflow.Run{ID: "a", Definition: def, Tenant: tenant}, nil)
		require.ErrorIs(t, err, pawl.ErrInvalid, "%+q", tenant)
		_, err = pawl.Open(t.Context(), t.TempDir(), pawl.Options{Tenants: map[string]pawl.TenantLimit{tenant: {Active: 1}}})
		require.ErrorIs(t, err, pawl.ErrInvalid, "%+q", tenant)
	}
	for i, tenant := range []string{"mallory", "ümlaut", "客户 7", "*"} {
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: workflow.RunID(fmt.Sprint("ok", i)), Definition: def, Tenant: tenant}, nil))
	}
}
