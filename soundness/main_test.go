package soundness_test

import (
	"testing"

	"github.com/pawl-run/pawl/internal/testing/harness"
)

// TestMain fails if a test leaves a goroutine behind.
func TestMain(m *testing.M) { harness.VerifyTestMain(m) }
