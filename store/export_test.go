package store

// A Checked is what Verify and Repair of package rescue have found.
type Checked struct {
	Damage   int
	Findings []string // each in one line
}

// Verify and Repair are those of package rescue, which imports this one: rescue_test.go
// sets them.
var (
	Verify func(path string) (Checked, error)
	Repair func(path, into string) (Checked, error)
)
