package harness

import (
	"fmt"
	"os"
	"testing"
)

// levelVariable is the variable of the environment that says how much the tests do.
const levelVariable = "PAWL_TEST"

// A Level says how much the tests do. It is the only thing that does: flags choose a
// case or a seed.
type Level int

// The levels. Each does what the one before it does, and more of it.
const (
	Quick   Level = iota // every kind of fault and every scenario once: the default
	Gate                 // samples that a change must pass, and times that are measured
	Release              // everything there is to try: hours
)

// String returns the name of a level, as PAWL_TEST has it.
func (l Level) String() string { return [...]string{"quick", "gate", "release"}[l] }

// CurrentLevel returns the level that PAWL_TEST names; Quick if it names none, and
// under the race detector, where everything is slow, unless it names Release.
// It panics if it names something else.
func CurrentLevel() Level {
	l, err := parseLevel(os.Getenv(levelVariable))
	if err != nil {
		panic(err)
	}
	if Raced && l == Gate {
		return Quick
	}
	return l
}

func parseLevel(name string) (Level, error) {
	if name == "" {
		return Quick, nil
	}
	for l := Quick; l <= Release; l++ {
		if l.String() == name {
			return l, nil
		}
	}
	return Quick, fmt.Errorf("%s is %q: it must be %v, %v or %v", levelVariable, name, Quick, Gate, Release)
}

// Figure returns which of three figures the current level asks for.
func Figure[T any](quick, gate, release T) T { return [...]T{quick, gate, release}[CurrentLevel()] }

// RequireLevel skips a test below a level, and says that it does and why.
func RequireLevel(t testing.TB, l Level, why string) {
	t.Helper()
	if CurrentLevel() < l {
		t.Skipf("%s: %s=%v runs it", why, levelVariable, l)
	}
}

// MeasuresTime skips a test that judges how long something takes, unless nothing but other
// tests is to be expected on the machine: at the level Gate, and without the race detector.
func MeasuresTime(t testing.TB) {
	t.Helper()
	if Raced {
		t.Skip("it measures time, of which the race detector takes ten times as much")
	}
	RequireLevel(t, Gate, "it measures time")
}

// MeasuresMemory skips a test that judges how much memory something takes, as
// [MeasuresTime] does for time.
func MeasuresMemory(t testing.TB) {
	t.Helper()
	if Raced {
		t.Skip("it measures memory, of which the race detector takes ten times as much")
	}
	RequireLevel(t, Gate, "it measures memory")
}
