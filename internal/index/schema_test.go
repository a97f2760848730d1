package index

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/sqlite"
)

// What one caller does to an empty database, or finds missing in its own, no other caller sees.
func TestWhatIsBuiltOnceIsNotShared(t *testing.T) {
	one, err := NewDatabase()
	require.NoError(t, err)
	one[63] = 99
	two, err := NewDatabase()
	require.NoError(t, err)
	require.EqualValues(t, Version, two[63])
	for _, more := range []string{"", outboxSchema, "", outboxSchema} {
		db, err := sqlite.OpenMemory(schema+more, PageSize, ID, Version)
		require.NoError(t, err)
		wrong, err := AlteredSchema(db)
		require.NoError(t, err)
		require.Empty(t, wrong)
		require.NoError(t, db.Close())
	}
}
