package witness

import (
	"fmt"

	"github.com/pawl-run/pawl/workflow"
)

// MustParse returns the definition that a text in YAML is. It panics where the
// text, which a test has written, is none.
func MustParse(text string) *workflow.Definition {
	d, err := workflow.ParseYAML([]byte(text))
	if err != nil {
		panic(fmt.Sprintf("%v in %s", err, text))
	}
	return d
}
