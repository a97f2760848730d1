// The command imports all but what is for tests.
package main

import (
	_ "github.com/pawl-run/pawl/actor"
	_ "github.com/pawl-run/pawl/internal/testing/harness"
)

func main() {}
