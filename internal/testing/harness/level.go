package harness

import (
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"
)

// levelVariable is the variable of the environment that says how much the tests do.
const levelVariable = "PAWL_TEST"

// A Level says how much the tests do. It is the only thing that does: flags choose a
// case or a seed.
type Level int

// The levels. Each does what the one before it does, and more of it.
const (
	Quick   Level = iota // every kind of fault and every scenario, those that take long in turn, day by day: the default
	Gate                 // larger samples that a change must pass, the long ones in turn as well, and times that are measured
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

// dayVariable is the variable of the environment that names a day, to repeat what failed on it.
const dayVariable = "PAWL_DAY"

// today is the number of the day, in UTC, since 1970.
var today = sync.OnceValue(func() int {
	if day, err := strconv.Atoi(os.Getenv(dayVariable)); err == nil && day >= 0 {
		return day
	}
	return int(time.Now().Unix() / (24 * 60 * 60))
})

// Today returns one case in n at the level Quick, other ones each day, so that n days try all of them; above Quick, all cases.
// The log of a test that fails says how its day is repeated.
func Today[T any](t testing.TB, n int, cases []T) []T {
	t.Helper()
	return SampleOfDay(t, Figure(n, 1, 1), cases)
}

// SampleOfDay is Today at any level.
func SampleOfDay[T any](t testing.TB, n int, cases []T) []T {
	t.Helper()
	if n <= 1 {
		return cases
	}
	t.Logf("%d cases, one in %d of them: %s=%d repeats that", len(cases), n, dayVariable, today())
	var out []T
	for i := today() % n; i < len(cases); i += n {
		out = append(out, cases[i])
	}
	return out
}

// InTurn skips a test at the level Quick but for one day in n, which its name decides, so that n days run all such tests. The
// gate runs it every second day, the release each day.
func InTurn(t testing.TB, n int) {
	t.Helper()
	TurnOfDay(t, Figure(n, 2, 1))
}

// TurnOfDay is InTurn at any level.
func TurnOfDay(t testing.TB, n int) {
	t.Helper()
	name := fnv.New32a()
	_, _ = io.WriteString(name, t.Name())
	if wait := (int(name.Sum32()%uint32(n)) + n - today()%n) % n; wait > 0 {
		t.Skipf("one day in %d has it: %s=%d, or %s=%v", n, dayVariable, today()+wait, levelVariable, Release)
	}
}

// Stride returns how far apart the places are that a test tries one after the other: n, and ten times that with the race detector, which
// sees the same in each of them.
func Stride(n int) int {
	if Raced {
		return 10 * n
	}
	return n
}

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
	collectAsHosts(t)
}

// MeasuresMemory skips a test that judges how much memory something takes, as
// [MeasuresTime] does for time.
func MeasuresMemory(t testing.TB) {
	t.Helper()
	if Raced {
		t.Skip("it measures memory, of which the race detector takes ten times as much")
	}
	RequireLevel(t, Gate, "it measures memory")
	collectAsHosts(t)
}
