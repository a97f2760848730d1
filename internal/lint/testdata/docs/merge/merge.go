package merge

type Branch struct{}

// This is a strategy.
type Strategy string

type (
	Grouped int
	// An Error is documented.
	Error struct{}
)

const Limit = 1

// The defaults.
var Default = 2

const (
	First  = 1 // has a comment
	Second = 2
)

func Apply() {}

// apply is not how the name is written.
func (*Branch) Apply() {}

func (Error) Error() string { return "" }

func (Error) Other() {}

// Applying is another name.
func Appl() {}
