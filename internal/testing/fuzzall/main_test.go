package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The table has every target of the module, and no other.
func TestTargets(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	declared := regexp.MustCompile(`(?m)^func (Fuzz\w+)\(`)
	var found []target
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		pkg, err := filepath.Rel(root, filepath.Dir(path))
		for _, m := range declared.FindAllSubmatch(text, -1) {
			found = append(found, target{pkg: "./" + filepath.ToSlash(pkg), name: string(m[1])})
		}
		return err
	})
	require.NoError(t, err)
	var listed []target
	for _, x := range targets {
		listed = append(listed, target{pkg: x.pkg, name: x.name})
	}
	require.ElementsMatch(t, found, listed)
	require.True(t, slices.IsSortedFunc(listed, func(a, b target) int { return strings.Compare(a.pkg+" "+a.name, b.pkg+" "+b.name) }))
}

// A target that executes too little fails, unless there is a reason; time that passes while other programs have the processor does not count.
func TestJudge(t *testing.T) {
	text := "fuzz: elapsed: 3s, execs: 120 (40/sec), new interesting: 1 (total: 3)\nfuzz: elapsed: 46s, execs: 2400 (1/sec), new interesting: 12 (total: 14)\nPASS\n"
	r := readResult([]byte(text))
	require.Equal(t, result{executions: 2400, found: 12}, r)
	r.processor = 2 * time.Second
	require.NoError(t, target{}.judge(r, time.Minute))
	r.executions, r.processor = 30_000, 40*time.Second
	require.ErrorContains(t, target{}.judge(r, time.Minute), "it made 750 executions a second, fewer than 1000")
	require.NoError(t, target{slow: "each input is a database"}.judge(r, time.Minute))
	require.NoError(t, target{}.judge(r, 2*time.Minute), "others had the processor")
	require.NoError(t, target{}.judge(r, 50*time.Second), "too short")
	r.executions = 0
	require.EqualError(t, target{slow: "each input is a database"}.judge(r, time.Minute), "it executed nothing")
	r.processor = 20 * time.Second
	require.NoError(t, target{}.judge(r, time.Minute), "others had the processor")
}

// A worker that does not stop in time has found nothing.
func TestLate(t *testing.T) {
	late := "fuzz: elapsed: 10m8s, execs: 453122 (0/sec), new interesting: 230 (total: 290)\n--- FAIL: FuzzRecord (608.07s)\n    context deadline exceeded\nFAIL\n"
	require.True(t, isLate([]byte(late)))
	require.False(t, isLate([]byte(late+"    Failing input written to testdata/fuzz/FuzzRecord/2049dbe5248f847b\n")))
	require.False(t, isLate([]byte("--- FAIL: FuzzRecord (6.49s)\n    fuzz_test.go:29: too slow: context deadline exceeded\n")))
}

// A name chooses its targets, and foreign chooses the targets that read bytes of others.
func TestChoose(t *testing.T) {
	require.Equal(t, targets, choose(options{}))
	require.Len(t, choose(options{names: []string{"FuzzRead"}}), 2)
	require.Empty(t, choose(options{names: []string{"FuzzNone"}}))
	require.ErrorContains(t, run(t.Output(), options{names: []string{"FuzzNone"}}), "no target is called FuzzNone")
	for _, x := range choose(options{foreign: true}) {
		require.True(t, x.foreign)
	}
}

// So many days have each target once, whatever day is the first.
func TestTurns(t *testing.T) {
	require.Equal(t, targets, turnOf(targets, 20_000, 0))
	var had []target
	for day := range 3 {
		had = append(had, turnOf(targets, 20_001+day, 3)...)
	}
	require.ElementsMatch(t, targets, had)
	require.Empty(t, turnOf(nil, 1, 3))
}
