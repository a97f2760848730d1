package workflow

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every limit of a definition is one that the engine allows: a stranger does not raise it.
func TestNoLimitIsRaised(t *testing.T) {
	most := DefaultLimits()
	for name, v := range writeFields(limitsFormat(&most)) {
		text := "name: w\nstart: a\nnodes: [{id: a, task: t}]\nlimits: {%s: %v}\n"
		d, err := ParseYAML([]byte(fmt.Sprintf(text, name, v)))
		require.NoError(t, err, name)
		require.NoError(t, d.Validate(), name)
		over, err := ParseYAML([]byte(fmt.Sprintf(text, name, fmt.Sprintf("%v0", v))))
		require.NoError(t, err, name)
		require.ErrorContains(t, over.Validate(), "limits."+name, "%s is a %T", name, v)
	}
}
