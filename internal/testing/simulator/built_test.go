package simulator

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/gocode"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/workflow"
)

// Drawn definitions can all be said with package build: a program that makes them by the calls that internal/gocode writes
// prints the text of each, which has the hash of the definition.
func TestDrawnDefinitionsAreBuilt(t *testing.T) {
	harness.InTurn(t, 4)
	var names, hashes []string
	var definitions []*workflow.Definition
	var seeds []uint64
	for seed := range uint64(harness.Figure(100, 100, 1000)) {
		seeds = append(seeds, seed)
	}
	for _, seed := range harness.Today(t, 10, seeds) {
		for _, g := range drawFamily(rand.New(rand.NewPCG(seed, 2)), "drawn") {
			names, hashes = append(names, fmt.Sprint("make", len(names))), append(hashes, g.Hash)
			definitions = append(definitions, g.Definition)
		}
	}
	text, err := gocode.BuilderFile("// Drawn prints definitions.\n", "main", names, definitions)
	require.NoError(t, err)
	dir := t.TempDir()
	root, err := filepath.Abs("../../..")
	require.NoError(t, err)
	for name, text := range map[string]string{
		"calls.go": string(text),
		"main.go": `package main

import (
	"fmt"

	"github.com/pawl-run/pawl/build"
)

func main() {
	for _, make := range []func() *build.Builder{` + strings.Join(names, ", ") + `} {
		text, err := build.YAML(make().MustDefinition())
		fmt.Printf("%s%v\x00", text, err)
	}
}
`,
		"go.mod":  "module drawn\n\ngo 1.26\n",
		"go.work": "go 1.26.0\nuse " + strconv.Quote(root) + "\nuse .\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	cmd := exec.CommandContext(t.Context(), "go", "run", "-ldflags=-s -w", ".")
	cmd.Dir, cmd.Env, cmd.Stderr = dir, append(os.Environ(), "GOWORK="+filepath.Join(dir, "go.work")), t.Output()
	out, err := cmd.Output()
	require.NoError(t, err)
	texts := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	require.Len(t, texts, len(hashes))
	for i, text := range texts {
		d, err := workflow.ParseYAML([]byte(strings.TrimSuffix(text, "<nil>")))
		require.NoError(t, err, "%s", text)
		hash, err := d.Hash()
		require.NoError(t, err)
		require.Equal(t, hashes[i], hash, "%s", text)
	}
}
