package lint

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// rooms bound the packages that grow first: source files, and lines of them. A bound is lowered when a package becomes smaller.
var rooms = map[string]struct{ files, lines int }{
	".":        {25, 6_500},
	"store":    {50, 18_040},
	"api":      {17, 5_140},
	"cmd/pawl": {30, 10_300},
}

// No package that a reader has to find something in grows beyond its bounds.
func TestRooms(t *testing.T) {
	all := loadModule(t)
	seen := 0
	for _, p := range all.packages {
		most, bounded := rooms[p.path]
		if !bounded {
			continue
		}
		seen++
		files, lines := 0, 0
		for _, f := range p.files {
			files++
			lines += all.fset.File(f.FileStart).LineCount()
		}
		t.Logf("%-10s %3d files, %6d lines", p.path, files, lines)
		require.LessOrEqual(t, files, most.files, p.path)
		require.LessOrEqual(t, lines, most.lines, p.path)
	}
	require.Equal(t, len(rooms), seen)
}
