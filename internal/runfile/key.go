package runfile

import (
	"cmp"
	"math"
	"strings"

	"github.com/pawl-run/pawl/internal/image"
)

// A rowKey is the key of a row in any table: integers, then a text, then an integer. A table has some of these, and
// keys are ordered as SQLite orders them: integers by their size, texts by their bytes.
type rowKey struct {
	a, b int64
	text string
	c    int64
}

// keyOf returns the key that has these columns.
func keyOf(columns []image.Value) (k rowKey) {
	ints := [...]*int64{&k.a, &k.b, &k.c}
	next := 0
	for i := range columns {
		if columns[i].IsText() {
			k.text, next = columns[i].String(), 2
			continue
		}
		if next < len(ints) { // no table has more
			*ints[next] = columns[i].Int64()
			next++
		}
	}
	return k
}

// compare returns a number below 0 if k comes before other, 0 if both are the same, and one above 0 otherwise.
func (k *rowKey) compare(other *rowKey) int {
	switch {
	case k.a != other.a:
		return cmp.Compare(k.a, other.a)
	case k.b != other.b:
		return cmp.Compare(k.b, other.b)
	case k.text != other.text:
		return strings.Compare(k.text, other.text)
	}
	return cmp.Compare(k.c, other.c)
}

// A keyRange has the keys from one on and before another.
type keyRange struct{ from, before rowKey }

// scopeRange has the data of a scope.
func scopeRange(group, branch int64) keyRange {
	return keyRange{firstKey(group, branch, ""), firstKey(group, branch+1, "")}
}

// pathRanges have the data at a path of a scope, and what is below it. The keys of the latter are those whose text
// begins with the path and a slash; "0" is the byte behind the slash. They do not all follow on that of the path
// itself: /a-b lies between /a and /a/b, and stays.
func pathRanges(group, branch int64, path string) [2]keyRange {
	return [2]keyRange{
		{firstKey(group, branch, path), firstKey(group, branch, path+"\x00")},
		{firstKey(group, branch, path+"/"), firstKey(group, branch, path+"0")},
	}
}

// firstKey returns a key that no other with the same path comes before.
func firstKey(group, branch int64, path string) rowKey {
	return rowKey{group, branch, path, math.MinInt64}
}
