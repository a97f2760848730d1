// Package store has every kind of seam that is shared by the engines of a process.
package store

import (
	"sync"
	"sync/atomic"
)

var (
	stage   func(string) error
	hit     atomic.Pointer[func(string)]
	records atomic.Int64
	playing sync.Mutex
	clock   = func() int64 { return 1 }
	limit   = 512 << 10
	pool    = sync.Pool{New: func() any { return 1 }}
	names   = []string{"a"}
)

func use() any {
	limit := limit
	limit++
	playing.Lock()
	return []any{stage, hit.Load(), records.Load(), clock(), limit, pool.Get(), names}
}
