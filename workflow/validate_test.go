package workflow_test

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/problem"
	"github.com/pawl-run/pawl/workflow"
)

// TestBadDefinitions plays testdata/bad: each case is a definition, and below
// it every problem that is found, warnings as well. Run it with -rewrite to
// write what is found now.
func TestBadDefinitions(t *testing.T) {
	codes := map[string]int{}
	cases := 0
	datadriven.Walk(t, "testdata/bad", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			problems := workflow.ProblemsOf(t, d.Cmd, d.Input)
			cases++
			var b strings.Builder
			for _, p := range problems {
				codes[p.Code]++
				require.Positive(t, p.Line, "%s", p)
				b.WriteString(p.String() + "\n")
			}
			if len(problems) == 0 {
				return "sound\n"
			}
			return b.String()
		})
	})
	require.GreaterOrEqual(t, cases, 90)
	for _, code := range problemCodes(t) {
		if code == problem.HandlerType || code == problem.HandlerMissing {
			continue // package typecheck reports it
		}
		require.Contains(t, codes, code, "no case in testdata/bad has this code")
	}
}

// problemCodes reads the constants of package problem.
func problemCodes(t *testing.T) []string {
	var codes []string
	for _, m := range regexp.MustCompile(`(?m)^\t\w+ += "(\w+)"`).FindAllStringSubmatch(workflow.ReadFile(t, filepath.Join("..", "internal", "problem", "problem.go")), -1) {
		codes = append(codes, m[1])
	}
	require.NotEmpty(t, codes)
	return codes
}

// Only so many bytes of literal texts are compiled, and further texts are passed over.
func TestLiteralsAreBounded(t *testing.T) {
	for long, warned := range map[int]int{1000: 1, 64 << 10: 0} {
		d := workflow.Definition{Name: "d", Start: "a", Nodes: []workflow.Node{
			{ID: "a", Approval: &workflow.ApprovalSpec{Message: "Is the input " + strings.Repeat("long", long/4) + "?"}},
			{ID: "b", Approval: &workflow.ApprovalSpec{Message: "'Pay ' + input.amount"}},
		}, Transitions: []workflow.Transition{{From: "a", To: "b"}}}
		require.Len(t, d.Check(), warned, "%d", long)
	}
}
