// Package timeout is anything but pure.
package timeout

import (
	"context"
	_ "log/slog"
	_ "math/rand/v2"
	_ "net/http"
	"sync/atomic"
	clock "time"

	_ "github.com/stretchr/testify/assert"
)

var (
	seen  = map[string]int{}
	calls int
	total atomic.Int64
)

func init() { calls = 1 }

func remember(_ context.Context, name string) clock.Duration {
	seen[name]++
	delete(seen, name)
	begin := clock.Now()
	now := clock.Since
	go clear(seen)
	other = name
	for other := range 3 {
		other++
	}
	return now(begin)
}
