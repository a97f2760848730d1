//go:build !unix

package bombtest

import (
	"testing"
	"time"
)

var begun = time.Now()

// processorTime returns how much time has passed: here a process does not learn what it has taken of processors.
func processorTime(testing.TB) time.Duration { return time.Since(begun) }
