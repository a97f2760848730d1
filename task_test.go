package pawl

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/pawl-run/pawl/workflow"
)

func TestAKeySaysWhatItWasMadeOf(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		run := workflow.RunID(rapid.StringN(1, 20, -1).Draw(t, "run"))
		token := workflow.TokenID(rapid.Int64().Draw(t, "token"))
		attempt := rapid.Int().Draw(t, "attempt")
		epoch := workflow.Epoch(rapid.Uint64().Draw(t, "epoch"))
		r, i, n, e, err := keyOf(run, token, attempt, epoch).parseKey()
		require.NoError(t, err)
		require.Equal(t, []any{run, token, attempt, epoch}, []any{r, i, n, e})
	})
}

// A second spelling would be a second key for whoever compares them as texts.
func TestAKeyHasOneSpelling(t *testing.T) {
	_, _, _, _, err := Key("a#b#3.1.9f86d081884c7d65").parseKey()
	require.NoError(t, err)
	for _, k := range []Key{
		"a#b#03.1.9f86d081884c7d65", "a#b#+3.1.9f86d081884c7d65", "a#b#3.01.9f86d081884c7d65", "a#b#3.+1.9f86d081884c7d65",
		"a#b#3.1.9F86D081884C7D65", "a#b#3.1.09f86d081884c7d65", "a#b#-0.1.9f86d081884c7d65", "a#b#3.1.1",
		"", "#3.1.9f86d081884c7d65", "a", "a#3.1", "a#3.1.9f86d081884c7d65.1", "a#x.1.9f86d081884c7d65", "a# 3.1.9f86d081884c7d65",
	} {
		_, _, _, _, err := k.parseKey()
		require.ErrorIs(t, err, ErrInvalid, "%q", string(k))
	}
}

// FuzzKey reads any text as a key: what is taken is written the same way again.
func FuzzKey(f *testing.F) {
	for _, k := range []string{"a#3.1.9f86d081884c7d65", "a#b#3.1.9f86d081884c7d65", "a#03.1.9f86d081884c7d65", "#3.1.1", "a#-9.-1.0000000000000000"} {
		f.Add(k)
	}
	f.Fuzz(func(t *testing.T, text string) {
		run, token, attempt, epoch, err := Key(text).parseKey()
		if err != nil {
			require.ErrorIs(t, err, ErrInvalid)
			return
		}
		require.Equal(t, text, string(keyOf(run, token, attempt, epoch)))
		require.NotEmpty(t, run)
	})
}
