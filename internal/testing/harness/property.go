package harness

import (
	"encoding/base64"
	"flag"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// CheckProperty checks a property as rapid.Check does: in a quick run with a tenth of
// the cases, with the race detector with a thirtieth, and at the gate with half of them, unless -rapid.checks says how many. The test may not be parallel.
func CheckProperty(t *testing.T, property func(*rapid.T)) {
	t.Helper()
	checks := flag.Lookup("rapid.checks")
	given := checks.Value.String()
	if given == checks.DefValue {
		n, err := strconv.Atoi(given)
		require.NoError(t, err)
		if n = Figure(n/10, n/2, n); Raced {
			n = max(n/3, 1)
		}
		require.NoError(t, checks.Value.Set(strconv.Itoa(n)))
		defer func() { require.NoError(t, checks.Value.Set(given)) }()
	}
	rapid.Check(t, property)
}

// RandomLetters returns n letters and digits in no order, always the same, for tests of what is large: the store compresses
// large records that become half as large by it, and these do not.
func RandomLetters(n int) string {
	raw := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{byte(n), byte(n >> 8)}).Read(raw) // it never fails
	return base64.StdEncoding.EncodeToString(raw)[:n]
}
