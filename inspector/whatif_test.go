package inspector_test

import (
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/api"
)

// The page of a trial tells what would be decided if several things happened to a run, and what the run would be, and changes
// nothing.
func TestWhatIf(t *testing.T) {
	s := openShop(t)
	s.startOrder("order-1")
	before := s.journals()
	ask := func(lines ...string) (int, string) {
		t.Helper()
		q := url.Values{"view": {"whatif"}}
		for i, text := range lines {
			q.Add([]string{"do", "on", "value"}[i%3], text)
		}
		status, page := s.get("run/order-1?" + q.Encode())
		return status, textOf(t, page)
	}
	require.Contains(t, s.see("run/order-1"), `href="../run/order-1?view=whatif">What if</a>`)
	status, page := ask()
	require.Equal(t, 200, status)
	require.NotContains(t, page, "What would happen")

	status, page = ask("skip", "3", "{}", "returns", "load", "1", "", "", "", "approve", "approve", "", "elapse", "2h", "")
	require.Equal(t, 200, status)
	require.Contains(t, page, "What would happen, 2 h from now order-1 would be running")
	require.Contains(t, page, "approval.requested")
	require.Contains(t, page, "What would be decided")
	require.Contains(t, page, "request-approval")

	require.Contains(t, page, "Line 5", "there is room for one more")
	status, page = ask("skip", "3", "", "returns", "load", "1", "returns", "ship", `{"sent": 1}`, "approve", "approve", "", "cancel", "", "")
	require.Equal(t, 200, status)
	require.Contains(t, page, "order-1 would be cancelled")
	require.NotContains(t, page, "It would be refused")
	require.NotContains(t, s.serve(as("ann", api.All)).see("act?do=cancel&target=0+order-1"), "It would be refused")
	confirm := s.serve(as("ann", api.All)).see("act?do=cancel&target=0+order-1&reason=paid+twice")
	require.Contains(t, textOf(t, confirm), "paid twice", "the form has it as a value, the effect as a text")
	status, page = ask("fails", "load", "bad_row")
	require.Equal(t, 200, status)
	require.Contains(t, page, "bad_row")
	status, page = ask("approve", "ship", "")
	require.Equal(t, 200, status)
	require.Contains(t, page, "It would be refused: line 1:")
	require.Equal(t, before, s.journals())

	for _, x := range []struct{ do, on, value, want string }{
		{"explode", "", "", "choose what happens"}, {"", "load", "", "choose what happens"}, {"cancel", "load", "", "leave the other fields empty"},
		{"signal", "", "1", "say of what"}, {"elapse", "soon", "", `"soon" is not a time that passes`}, {"elapse", "-1s", "", "is not a time"},
		{"returns", "load", "{", "the value is not JSON"}, {"fails", "load", "", "with which code"}, {"returns", "laod", "1", `the run has no node "laod"`},
		{"approve", "approve", "1", "takes no value"},
	} {
		status, page = ask("elapse", "1s", "", x.do, x.on, x.value)
		require.Equal(t, 400, status, x)
		require.Contains(t, page, "line 2: ")
		require.Contains(t, page, x.want)
	}
	var many []string
	for range 21 {
		many = append(many, "elapse", "1s", "")
	}
	status, page = ask(many...)
	require.Equal(t, 400, status)
	require.Contains(t, page, "at most 20 lines")

	blind := s.serve(as("ann", api.View|api.Act))
	require.NotContains(t, blind.see("run/order-1"), "view=whatif")
	status, _ = blind.get("run/order-1?view=whatif")
	require.Equal(t, 403, status, "conditions would tell what is in the run")
}
