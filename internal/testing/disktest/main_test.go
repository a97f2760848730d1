package disktest

import (
	"testing"
	"time"

	"github.com/pawl-run/pawl/internal/testing/harness"
)

// childMode is the variable that makes the test binary a child: how it limits
// itself, or "host".
const childMode = "PAWL_DISKTEST_CHILD"

// patience is how long anything may take before it counts as stuck.
const patience = 4 * time.Minute

func TestMain(m *testing.M) { harness.Main(m, childMode, childMain) }
