// Pawl is a command; it may import everything.
package main

import (
	"context"

	_ "github.com/pawl-run/pawl"
	_ "github.com/pawl-run/pawl/store"
)

func main() { go context.Background() }
