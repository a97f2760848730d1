package handler

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/expr"
)

// The sizes of their sources bound the programs that are kept, and a program in use stays.
func TestProgramsAreBounded(t *testing.T) {
	const most = 20_000
	p := newPrograms(expr.Limits{}, most)
	first, err := p.compileCached("data")
	require.NoError(t, err)
	for i := range 1000 {
		_, err := p.compileCached(fmt.Sprintf("data + %d%s", i, strings.Repeat(" ", i%500)))
		require.NoError(t, err)
		size := 0
		for _, generation := range []map[string]*expr.Program{p.young, p.old} {
			for source := range generation {
				size += len(source) + entryBytes
			}
		}
		require.LessOrEqual(t, size, most)
		again, err := p.compileCached("data")
		require.NoError(t, err)
		require.Same(t, first, again)
	}
	unused := p.findProgram("data + 0")
	require.Nil(t, unused)
	require.NotEmpty(t, p.old)
}

func TestProgramsKeepNoErrors(t *testing.T) {
	p := newPrograms(expr.Limits{}, 1000)
	for range 3 {
		_, err := p.compileCached("1 +")
		require.Error(t, err)
	}
	require.Empty(t, p.young)
}
