package taskkey

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

var signer = NewSigner([]byte("0123456789abcdef0123456789abcdef"))

func TestAKeySaysWhatItWasMadeOf(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := Attempt{
			workflow.RunID(rapid.StringN(1, 20, -1).Draw(t, "run")), workflow.TokenID(rapid.Int64().Draw(t, "token")),
			rapid.Int().Draw(t, "attempt"), state.Epoch(rapid.Uint64().Draw(t, "epoch")),
		}
		got, err := signer.Parse(signer.Key(a))
		require.NoError(t, err)
		require.Equal(t, a, got)
	})
}

// Keys of some attempts give none of another attempt: no part of a key can be
// changed, and none is made without the secret.
func TestForgedKeys(t *testing.T) {
	a := Attempt{"order-1", 3, 1, 0x9f86d081884c7d65}
	good := signer.Key(a)
	for _, forged := range []Attempt{
		{"order-2", 3, 1, a.Epoch}, {"order-1/3.1", 3, 1, a.Epoch}, {"order-1", 4, 1, a.Epoch}, {"order-1", 3, 2, a.Epoch}, {"order-1", 3, 1, a.Epoch + 2},
	} {
		_, err := signer.Parse(forged.Name() + good[strings.LastIndexByte(good, '.'):])
		require.ErrorIs(t, err, ErrForged)
		_, err = signer.Parse(NewSigner([]byte("another secret")).Key(forged))
		require.ErrorIs(t, err, ErrForged)
		_, err = signer.Parse(NewSigner(nil).Key(forged))
		require.ErrorIs(t, err, ErrForged)
	}
}

// A second spelling would be a second key for whoever compares them as texts.
func TestAKeyHasOneSpelling(t *testing.T) {
	mac := "." + strings.Repeat("A", 22)
	_, err := signer.Parse("a#b#3.1.9f86d081884c7d65" + mac)
	require.ErrorIs(t, err, ErrForged)
	for _, k := range []string{
		"a#b#03.1.9f86d081884c7d65", "a#b#+3.1.9f86d081884c7d65", "a#b#3.01.9f86d081884c7d65", "a#b#3.+1.9f86d081884c7d65",
		"a#b#3.1.9F86D081884C7D65", "a#b#3.1.09f86d081884c7d65", "a#b#-0.1.9f86d081884c7d65", "a#b#3.1.1",
		"", "#3.1.9f86d081884c7d65", "a", "a#3.1", "a#3.1.9f86d081884c7d65.1", "a#x.1.9f86d081884c7d65", "a# 3.1.9f86d081884c7d65",
	} {
		_, err := signer.Parse(k + mac)
		require.ErrorIs(t, err, ErrMalformed, "%q", k)
	}
	good := signer.Key(Attempt{"a", 3, 1, 1})
	for _, k := range []string{good + "=", good + "A", good[:len(good)-1], strings.ToUpper(good), "", "a", "a#3.1.0000000000000001"} {
		_, err := signer.Parse(k)
		require.Error(t, err, "%q", k)
	}
}

// FuzzKey reads any text as a key: what is well formed is written the same way again.
func FuzzKey(f *testing.F) {
	for _, k := range []string{"a#3.1.9f86d081884c7d65", "a#b#3.1.9f86d081884c7d65", "a#03.1.9f86d081884c7d65", "#3.1.1", "a#-9.-1.0000000000000000"} {
		f.Add(k)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if a, ok := parseName(text); ok {
			require.Equal(t, text, a.Name())
			require.NotEmpty(t, a.Run)
		}
		_, err := signer.Parse(text)
		require.Error(t, err)
	})
}

// BenchmarkKey is the cost of making the key of a task, which is nearly all its MAC.
func BenchmarkKey(b *testing.B) {
	a := Attempt{"order-1", 3, 1, 0x9f86d081884c7d65}
	b.ReportAllocs()
	for b.Loop() {
		_ = signer.Key(a)
	}
}

// BenchmarkParse is the cost of checking a key that comes with a result.
func BenchmarkParse(b *testing.B) {
	key := signer.Key(Attempt{"order-1", 3, 1, 0x9f86d081884c7d65})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := signer.Parse(key); err != nil {
			b.Fatal(err)
		}
	}
}

// An epoch is written in a key as it is written elsewhere.
func TestANameHasTheEpoch(t *testing.T) {
	for _, epoch := range []state.Epoch{0, 1, 0x9f86d081884c7d65} {
		require.Equal(t, "order-1#3.2."+epoch.String(), Attempt{"order-1", 3, 2, epoch}.Name())
	}
}

// A key is made for every task: it allocates itself, what is hashed, and the hash.
func TestWhatAKeyAllocates(t *testing.T) {
	a := Attempt{"order-1", 3, 1, 0x9f86d081884c7d65}
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() { _ = signer.Key(a) }), 3.0)
}
