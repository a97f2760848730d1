package harness

import (
	"fmt"

	"github.com/pawl-run/pawl/workflow"
)

// Definition returns the definition that a text in YAML is. It panics where the
// text, which a test has written, is none.
func Definition(text string) *workflow.Definition {
	d, err := workflow.ParseYAML([]byte(text))
	if err != nil {
		panic(fmt.Sprintf("%v in %s", err, text))
	}
	return d
}
