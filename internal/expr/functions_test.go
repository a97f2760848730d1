package expr

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The table of functions in docs/definition.md names each function and macro that
// there is, and no other.
func TestFunctionsAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/definition.md")
	require.NoError(t, err)
	_, section, _ := strings.Cut(string(page), "### Functions\n")
	section, _, _ = strings.Cut(section, "\n## ")
	there := map[string]bool{}
	for name := range base.Functions() {
		there[name] = true
	}
	for _, m := range base.Macros() {
		there[m.Function()] = true
	}
	for macro, name := range map[string]string{"bind": "cel.bind", "greatest": "math.greatest", "least": "math.least"} {
		require.True(t, there[macro])
		delete(there, macro)
		there[name] = true
	}
	told := map[string]bool{}
	for _, m := range regexp.MustCompile("`([a-zA-Z][a-zA-Z0-9_.]*)[`(]").FindAllStringSubmatch(section, -1) {
		told[m[1]] = true
	}
	for name := range there {
		if !strings.ContainsAny(name, "@") && !strings.HasPrefix(name, "_") && !strings.HasSuffix(name, "_") {
			assert.True(t, told[name], "%s is not told", name)
		}
	}
	for name := range told {
		assert.True(t, there[name] || name == "UTC", "%s is told and not there", name)
	}
}
