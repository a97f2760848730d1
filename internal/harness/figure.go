package harness

import "testing"

// Figure returns how often something is done: release times if all of it is asked
// for, or else gate times. Where everything is slow, under the race detector, or
// little is wanted, with -short, it is a tenth of gate, but least at least.
func Figure(all bool, least, gate, release int) int {
	switch {
	case all:
		return release
	case Raced || testing.Short():
		return max(gate/10, least)
	}
	return gate
}
