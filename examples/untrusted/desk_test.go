package main

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/workflow"
)

// An author may bound the costs of a run, and lower any limit.
func TestAuthorsLimits(t *testing.T) {
	text := `{"name": "x", "start": "a", "nodes": [{"id": "a", "task": "fetch", "budget": {"cost": 1}}], "limits": {"tokens": 7, "loop": 1000000, "meta": {"cost": 5}}}`
	def, err := admit("ann", []byte(text), offers{}.handlers())
	require.NoError(t, err)
	require.Equal(t, map[string]float64{"cost": 5}, def.Limits.Meta)
	require.Equal(t, 7, def.Limits.Tokens)
	require.Equal(t, limits().Loop, def.Limits.Loop)
}

const (
	waiting = `{"name": "w", "start": "a", "signals": ["spam"], "nodes": [{"id": "a", "wait": {"event": "go"}}]}`
	brief   = `{"name": "b", "start": "a", "nodes": [{"id": "a"}]}`
)

// Calls of one tenant that wait hold up nobody else, and a start keeps its place among the tenant's runs.
func TestATenantThatWaits(t *testing.T) {
	hook := &testhook.Hook{}
	d, err := openDesk(testhook.With(t.Context(), hook), t.TempDir(), offers{})
	require.NoError(t, err)
	defer func() { require.NoError(t, d.engine.Close(context.Background())) }()
	id, err := d.start(t.Context(), "eve", []byte(waiting), nil)
	require.NoError(t, err)
	held, proceed, done := make(chan struct{}, 9), make(chan struct{}), make(chan error, 2)
	defer hook.OnAsk(func(run string, _ any) {
		if strings.HasPrefix(run, "eve:") {
			held <- struct{}{}
			<-proceed
		}
	})()
	go func() { done <- d.signal(t.Context(), "eve", id, "spam", nil) }()
	<-held
	go func() {
		_, err := d.start(t.Context(), "eve", []byte(waiting), nil)
		done <- err
	}()
	<-held
	d.mu.Lock()
	n := d.starting["eve"]
	d.mu.Unlock()
	require.Equal(t, 1, n)
	_, err = d.start(t.Context(), "ann", []byte(brief), nil)
	require.NoError(t, err)
	close(proceed)
	require.NoError(t, <-done)
	require.NoError(t, <-done)
	require.Empty(t, d.starting)
}

// The desk forgets the signals of runs that have ended.
func TestSignalsAreForgotten(t *testing.T) {
	d, err := openDesk(t.Context(), t.TempDir(), offers{})
	require.NoError(t, err)
	defer func() { require.NoError(t, d.engine.Close(context.Background())) }()
	begin := func(text string) workflow.RunID {
		id, err := d.start(t.Context(), "ann", []byte(text), nil)
		require.NoError(t, err)
		return id
	}
	one, two := begin(waiting), begin(waiting)
	require.ErrorIs(t, d.signal(t.Context(), "ann", "ann:nothing", "go", nil), errNotYours)
	require.NoError(t, d.signal(t.Context(), "ann", two, "spam", nil))
	require.NoError(t, d.signal(t.Context(), "ann", one, "go", nil))
	_, err = d.engine.Wait(t.Context(), one)
	require.NoError(t, err)
	require.Equal(t, map[workflow.RunID]int{one: 1, two: 1}, d.signals["ann"])
	require.ErrorIs(t, d.signal(t.Context(), "ann", one, "go", nil), pawl.ErrEnded)
	require.Equal(t, map[workflow.RunID]int{two: 1}, d.signals["ann"])
	require.NoError(t, d.signal(t.Context(), "ann", two, "go", nil))
	_, err = d.engine.Wait(t.Context(), two)
	require.NoError(t, err)
	begin(brief)
	require.Empty(t, d.signals["ann"])
	require.Empty(t, d.starting)
}
