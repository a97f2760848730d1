package inspector_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testing/harness/replays"
	"github.com/pawl-run/pawl/workflow"
)

// A slowDisk is a codec with which two runs take longer to store than a step of a page may take, and the second fails if err says so.
type slowDisk struct {
	run    atomic.Value // a string; "": none
	before atomic.Bool  // the one before has taken its time as well
	err    error
}

func (*slowDisk) KeyID() string { return "plain" }

func (d *slowDisk) Encode(place string, plain []byte) ([]byte, error) {
	run := d.run.Load().(string)
	if run != "" && (strings.Contains(place, run) || strings.Contains(place, "w-1") && d.before.CompareAndSwap(false, true)) {
		<-time.After(20 * time.Second)
	}
	if run != "" && strings.Contains(place, run) && d.err != nil {
		return nil, d.err
	}
	return plain, nil
}

func (*slowDisk) Decode(_, _ string, stored []byte) ([]byte, error) { return stored, nil }

// An error of the last run is told, also if the time of the step is over as well, and what goes on has the id of the
// signal, with which no run gets it twice.
func TestAnErrorAtTheEndOfAStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := &slowDisk{err: pawl.ErrNoSpace}
		disk.run.Store("")
		e, err := pawl.Open(t.Context(), replays.Dir(t), pawl.Options{Executor: later{}, Codec: disk})
		require.NoError(t, err)
		defer func() { require.NoError(t, e.Close(context.Background())) }()
		d, err := workflow.ParseYAML([]byte("name: waits\nstart: w\nnodes: [{id: w, wait: {event: go}}, {id: x, wait: {event: go}}]\ntransitions: [{from: w, to: x}]\n"))
		require.NoError(t, err)
		for i := range 4 {
			require.NoError(t, e.Start(t.Context(), workflow.Run{ID: workflow.RunID(fmt.Sprint("w-", i)), Definition: d}, nil))
		}
		ask := askDirectly(t, e)
		disk.run.Store("w-2")
		status, page, _ := ask("act", url.Values{"do": {"signal"}, "all": {"1"}, "name": {"go"}, "reason": {"they were paid"}})
		require.Equal(t, http.StatusConflict, status, page)
		require.Contains(t, textOf(t, page), "2 signalled")
		require.Contains(t, textOf(t, page), pawl.ErrNoSpace.Error())
		again := formOf(page)
		require.Equal(t, "w-1", again.Get("cursor"))
		require.Regexp(t, "^page-[A-Z0-9]{26}$", again.Get("id"))

		disk.run.Store("")
		again.Del("cursor") // as if the first two had been left open as well
		status, page, _ = ask("act", again)
		require.Equal(t, http.StatusSeeOther, status, page)
		for i := range 4 {
			ov, err := e.Overview(t.Context(), workflow.RunID(fmt.Sprint("w-", i)))
			require.NoError(t, err)
			require.Equal(t, workflow.RunRunning, ov.Status, "each waits at the second node")
		}
	})
}
