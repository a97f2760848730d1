package api_test

import (
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/api"
)

// Somebody whose name is empty is somebody all the same: only a request that nobody has narrowed has the right to files.
func TestNarrowLocalWithoutAName(t *testing.T) {
	r := httptest.NewRequest("GET", "http://localhost/", nil)
	_, rights, err := api.LocalCaller(r)
	require.NoError(t, err)
	require.Equal(t, api.All|api.Files, rights)
	for _, who := range []string{"", "ann"} {
		api.NarrowLocal(r, who, false)
		name, rights, err := api.LocalCaller(r)
		require.NoError(t, err)
		require.Equal(t, who, name)
		require.Equal(t, api.All, rights, "%q", who)
	}
}
