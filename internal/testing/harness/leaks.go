package harness

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// FindLeaks returns an error that names the goroutines that are left, as goleak.Find does. That waits for less than half a
// second, in which a goroutine that is about to end may have no processor on a busy machine: it is asked again for half a
// minute.
func FindLeaks(options ...goleak.Option) error {
	for begun := time.Now(); ; {
		err := goleak.Find(options...)
		if err == nil || time.Since(begun) > 30*time.Second {
			return err
		}
	}
}

// RunWithoutLeaks runs the tests of a package and returns the exit status, for TestMain: no goroutine may be left.
func RunWithoutLeaks(m *testing.M) (status int) {
	status = m.Run()
	if status != 0 {
		return status
	}
	if err := FindLeaks(); err != nil {
		fmt.Fprintln(os.Stderr, "the tests have passed, but:", err)
		return 1
	}
	return 0
}
