package witness

import (
	"fmt"

	"github.com/pawl-run/pawl/workflow"
)

// MustParse returns the definition in a YAML text, which a test has written. It
// panics if the text is no definition.
func MustParse(text string) *workflow.Definition {
	d, err := workflow.ParseYAML([]byte(text))
	if err != nil {
		panic(fmt.Sprintf("%v in %s", err, text))
	}
	return d
}
