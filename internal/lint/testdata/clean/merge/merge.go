// Package merge is clean.
package merge

import "time"

// A Branch has a comment with an article.
type Branch struct{ at time.Time }

// The kinds share one comment.
const (
	One = 1
	Two = 2
)

// Defaults has a comment of its own.
var Defaults = map[string]int{"a": One}

// Later is a method of a type that is documented.
func (b *Branch) Later(d time.Duration) { b.at = b.at.Add(d) }

func (b *Branch) String() string {
	Defaults := map[string]int{}
	Defaults["a"] = Two // a local one
	time := clock{}
	return time.now()
}

type clock struct{}

func (clock) now() string { return "" }

func (clock) Exported() {}
