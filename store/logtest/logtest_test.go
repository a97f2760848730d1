package logtest_test

import (
	"testing"

	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/store/logtest"
)

func TestMemory(t *testing.T) {
	logtest.Run(t, func(*testing.T) func() store.Log {
		m := &logtest.Memory{}
		return func() store.Log { return m.Writer(nil) }
	})
}
