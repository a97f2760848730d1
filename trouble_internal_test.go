package pawl

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/store"
)

// A run with an instant that JSON has no form for is told without it, and with its trouble.
func TestASummaryOfImpossibleInstants(t *testing.T) {
	s := summaryOf(&store.Head{Run: "a", Workflow: "w", StartedAt: time.UnixMilli(316516809600000)})
	text, err := json.Marshal(s)
	require.NoError(t, err)
	require.Contains(t, string(text), `"trouble":"it has an instant of the year 12000: there are those of the years 1 to 9999 only"`)
	require.Contains(t, string(text), `"run":"a"`)
	require.Empty(t, summaryOf(&store.Head{Run: "a", StartedAt: time.Unix(0, 0)}).Trouble)
}
