package harness

import (
	"os"
	"runtime/debug"
)

// The collector of a test binary, and of the children that it makes of itself, rests until there is five times
// as much memory as was in use, or half a gibibyte of it: a quarter of the time of quick tests went into
// collecting what their end frees. A user who sets GOGC or GOMEMLIMIT decides that alone, and from
// Gate on, where time and memory are measured, the collector is as hosts have it.
const (
	quickPercent = 400
	quickMemory  = 512 << 20
)

// init is called in every test binary that knows of levels, before any of its tests.
func init() {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" || CurrentLevel() != Quick {
		return
	}
	debug.SetGCPercent(quickPercent)
	debug.SetMemoryLimit(quickMemory)
}
