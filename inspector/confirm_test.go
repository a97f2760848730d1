package inspector_test

import (
	"fmt"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/workflow"
)

// The page that asks whether to fork shows what the new run would begin with, or why there would be none.
func TestAForkIsTriedFirst(t *testing.T) {
	s := openShop(t)
	s.startOrder("order-1")
	ann := s.serve(as("ann", api.All))
	before := s.journals()
	for _, name := range []string{"", "order-1b"} {
		page := textOf(t, ann.see("act?do=fork&target=0+order-1&at=1&name="+name))
		require.Contains(t, page, "workflow.forked", name)
		require.Contains(t, page, "Tried on a copy. Nothing has been changed.")
		require.NotContains(t, page, "Not tried")
	}
	require.Contains(t, textOf(t, ann.see("act?do=fork&target=0+order-1&at=1&name=order-1")), "It would be refused")
	require.Contains(t, textOf(t, ann.see("act?do=fork&target=0+order-1&at=99&name=b")), "It would be refused")
	require.Equal(t, before, s.journals())
	_, err := s.engine.Summary(t.Context(), "order-1b")
	require.ErrorIs(t, err, pawl.ErrRunNotFound)
}

// A form for many says how many of them were tried.
func TestHowManyWereTried(t *testing.T) {
	s := openShop(t)
	ann := s.serve(as("ann", api.All))
	form := url.Values{"do": {"pause"}}
	for i := range 7 {
		id := fmt.Sprint("w-", i)
		s.start(workflow.RunID(id), "name: waits\nstart: w\nnodes: [{id: w, wait: {event: go}}]\n", nil)
		form.Add("target", "0 "+id)
		page := textOf(t, ann.see("act?"+form.Encode()))
		switch i {
		case 0:
			require.Contains(t, page, "Tried on a copy.")
		case 4:
			require.Contains(t, page, "All 5 were tried, each on a copy.")
		case 6:
			require.Contains(t, page, "The first 5 of 7 were tried, each on a copy; the others were not.")
		}
	}
	form.Set("do", "signal")
	require.Contains(t, textOf(t, ann.see("act?"+form.Encode())), "Not tried yet: say first what to do.")
}
