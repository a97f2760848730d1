package harness

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// A goroutine that ends a second later is not left.
func TestFindLeaks(t *testing.T) {
	before, ends := goleak.IgnoreCurrent(), make(chan struct{})
	go func() { <-ends }()
	require.Error(t, goleak.Find(before))
	time.AfterFunc(time.Second, func() { close(ends) })
	require.NoError(t, FindLeaks(before))
}
