package index

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/sqlite"
)

// No other caller sees a change that one caller makes to an empty database, or a table that is
// missing in its own.
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
