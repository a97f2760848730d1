package harness

import (
	"flag"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// CheckProperty checks a property as rapid.Check does: in a quick run with a tenth of
// the cases, unless -rapid.checks says how many. The test may not be parallel.
func CheckProperty(t *testing.T, property func(*rapid.T)) {
	t.Helper()
	checks := flag.Lookup("rapid.checks")
	given := checks.Value.String()
	if n, err := strconv.Atoi(given); CurrentLevel() == Quick && given == checks.DefValue {
		require.NoError(t, err)
		require.NoError(t, checks.Value.Set(strconv.Itoa(n/10)))
		defer func() { require.NoError(t, checks.Value.Set(given)) }()
	}
	rapid.Check(t, property)
}
