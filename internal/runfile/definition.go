package runfile

import (
	"fmt"

	"github.com/pawl-run/pawl/workflow"
)

// CompileDefinition parses and compiles the JSON of a definition as it was stored, without the bounds of new ones. It
// fails if the definition does not have the hash. The bounds may have been lowered since the run began, and must not
// keep it from going on. The hash is of the definition, not of its text: it says that whatever reads the definition
// today understands it as the program did that wrote it.
func CompileDefinition(doc, hash string) (*workflow.Graph, error) {
	def, err := workflow.Boundless().ParseJSON([]byte(doc))
	if err != nil {
		return nil, err
	}
	g, err := workflow.Boundless().Compile(def)
	if err != nil {
		return nil, err
	}
	if g.Hash != hash {
		return nil, fmt.Errorf("its content has the hash %s", g.Hash)
	}
	return g, nil
}

// VersionOf returns the version of a definition; 1 may be left out. Definitions with version: 1 and without a version
// are the same.
func VersionOf(g *workflow.Graph) int { return max(g.Definition.Version, 1) }
