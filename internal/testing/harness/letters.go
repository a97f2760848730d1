package harness

import (
	"encoding/base64"
	"math/rand/v2"
)

// RandomLetters returns n letters and digits in no order, always the same, for tests of what is large: the store compresses
// large records that become half as large by it, and these do not.
func RandomLetters(n int) string {
	raw := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{byte(n), byte(n >> 8)}).Read(raw) // it never fails
	return base64.StdEncoding.EncodeToString(raw)[:n]
}
