package timeout

import (
	"strings"
	"time"
)

// Text returns d.String without trailing units that are zero: 1h for 1h0m0s, and 1m30s as it is.
func Text(d time.Duration) string {
	text := d.String()
	// 10m0s ends with m0s, and 10s does not: the zeros go only with their unit.
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
