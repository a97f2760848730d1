package pace

import (
	"crypto/sha256"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/testing/harness"
)

func TestOthersHaveTheirTurns(t *testing.T) {
	data := make([]byte, 20*64<<10+1)
	for name, f := range map[string]func(){
		"spend": func() {
			var p Pacer
			for range 2000 {
				p.Spend(10)
			}
		},
		"each": func() {
			for i := range 20 * 512 {
				Each(i)
			}
		},
		"few": func() {
			for i := range 20 * 8 {
				Few(i)
			}
		},
		"at": func() {
			for sum := uint64(4); sum < 20*1021*4+4; sum += 4 {
				At(sum)
			}
		},
		"hash": func() { require.Equal(t, sha256.Sum256(data), Sum256(data)) },
		"pause": func() {
			for range 20 {
				Pause()
			}
		},
	} {
		require.GreaterOrEqual(t, harness.CountTurns(f), int64(15), name)
	}
	require.Equal(t, sha256.Sum256(nil), Sum256(nil))
}
