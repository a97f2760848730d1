package pawl

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/workflow"
)

// A family with very many errands does not keep the others waiting.
func TestErrandsOfFamiliesTakeTurns(t *testing.T) {
	c := &courier{queues: map[workflow.RunID]*errands{}}
	for i := range 1000 {
		c.add(workflow.RunID(fmt.Sprintf("many/%d.1", i)), errand{cancel: true})
	}
	c.add("few/1.1", errand{cancel: true})
	c.add("few/1.1/2.1", errand{cancel: true})
	var got []workflow.RunID
	for range 5 {
		child, _, ok := c.next()
		require.True(t, ok)
		got = append(got, child)
	}
	require.Equal(t, []workflow.RunID{"many/0.1", "few/1.1", "many/1.1", "few/1.1/2.1", "many/2.1"}, got)
}
