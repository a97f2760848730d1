package browsertest

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/workflow"
)

// nodesTable reads what the page says of every node.
const nodesTable = `[...document.querySelectorAll("#nodes tr[data-node]")].map(r => r.dataset.node + ": " + r.querySelector("td").innerText.replace(/\s+/g, " ").trim()).join(" | ")`

// slideTo moves the slider to a record, as a hand does, and returns what the page says of the nodes then.
func (p *tab) slideTo(at int64) string {
	return evaluate[string](p, fmt.Sprintf(`new Promise(done => {
		const range = document.getElementById("record");
		range.value = %d;
		range.dispatchEvent(new Event("input", {bubbles: true}));
		requestAnimationFrame(() => requestAnimationFrame(() => done(%s)));
	})`, at, nodesTable))
}

// TestSlider: while the slider moves, the page counts the tokens of every node itself, without a request, and says after each
// record what the server says of it.
func TestSlider(t *testing.T) {
	s := openShop(t, forAnn())
	s.startImport(t, "import", 12)
	o, err := s.engine.Overview(t.Context(), workflow.RunID("import"))
	require.NoError(t, err)
	require.Greater(t, o.Seq, int64(6))
	p := openTab(t, openBrowser(t), view{width: 1400})
	p.open(s.url + "run/import")
	p.slideTo(1) // which asks for all that it needs
	p.await(`performance.getEntriesByType("resource").some(e => e.name.includes("view=steps") && e.responseEnd > 0)`)
	const requests = `performance.getEntriesByType("resource").length`
	var folded []string
	before := evaluate[int](p, requests)
	for at := int64(1); at <= o.Seq; at++ {
		folded = append(folded, p.slideTo(at))
	}
	asked := evaluate[int](p, requests) - before
	require.LessOrEqual(t, asked, 1, "but where the hand has rested for a moment, on a machine that is busy")
	require.Empty(t, p.heard())
	for i, got := range folded {
		p.open(fmt.Sprintf("%srun/import?at=%d", s.url, i+1))
		require.Equal(t, evaluate[string](p, nodesTable), got, "record %d", i+1)
	}
	require.NotEqual(t, folded[0], folded[len(folded)-1])
}
