package loopback

import (
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

// Somebody whose name is empty is somebody all the same: only a request that nobody has narrowed has the right to files.
func TestNarrowLocalWithoutAName(t *testing.T) {
	r := httptest.NewRequest("GET", "http://localhost/", nil)
	s, err := SenderOf(r)
	require.NoError(t, err)
	require.Equal(t, Sender{Files: true}, s)
	for _, who := range []string{"", "ann"} {
		NarrowLocal(r, who, false)
		s, err := SenderOf(r)
		require.NoError(t, err)
		require.Equal(t, Sender{Who: who}, s, "%q", who)
	}
}
