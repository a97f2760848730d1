package disktest

import (
	"flag"
	"testing"
	"time"

	"github.com/pawl-run/pawl/internal/harness"
)

// childMode is the variable that makes the test binary a child: how it limits
// itself, or "host".
const childMode = "PAWL_DISKTEST_CHILD"

// patience is how long anything may take before it counts as stuck.
const patience = 60 * time.Second

var all = flag.Bool("disk.all", false, "all workflows and the long stalls, not the gate sample")

// gate is a figure of the gate, and that of the release run.
func gate[T any](sample, release T) T {
	if *all {
		return release
	}
	return sample
}

func TestMain(m *testing.M) { harness.Main(m, childMode, childMain) }
