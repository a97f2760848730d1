package limits_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	. "github.com/pawl-run/pawl/internal/limits"
)

// rows say which row of docs/limits.md tells a bound: the words with which the row begins, and the unit.
var rows = map[string]struct {
	value     int
	row, unit string
}{
	"MaxRunID":           {MaxRunID, "run id;", "bytes"},
	"MaxName":            {MaxName, "run id;", "bytes"},
	"MaxDefinitionBytes": {MaxDefinitionBytes, "a definition:", "MiB"},
	"MaxExpressionBytes": {MaxExpressionBytes, "a definition:", "MiB"},
	"MaxNodes":           {MaxNodes, "a definition:", ""},
	"MaxTransitions":     {MaxTransitions, "a definition:", ""},
	"MaxMergedBytes":     {MaxMergedBytes, "a merged value", "MiB"},
	"MaxExpression":      {MaxExpression, "an expression:", "KiB"},
	"MaxQuestion":        {MaxQuestion, "votes of an approval;", "KiB"},
	"MaxPlan":            {MaxPlan, "one planning step:", ""},
	"MaxNotes":           {MaxNotes, "one planning step:", ""},
	"MaxNoteBytes":       {MaxNoteBytes, "one planning step:", "MiB"},
	"MaxNesting":         {MaxNesting, "nesting of a value", ""},
	"MaxSignals":         {MaxSignals, "kept signals of a run;", ""},
	"MaxChoices":         {MaxChoices, "names among which", ""},
	"MaxVotes":           {MaxVotes, "votes of an approval;", ""},
	"MaxArtifacts":       {MaxArtifacts, "artifacts of a run", ""},
	"MaxPatch":           {MaxPatch, "operations of a patch", ""},
	"MaxSubschemas":      {MaxSubschemas, "checks against JSON Schemas", ""},
	"MaxAllSubschemas":   {MaxAllSubschemas, "a definition:", ""},
	"MaxAppliedSchemas":  {MaxAppliedSchemas, "checks against JSON Schemas", ""},
	"MaxSchemaCost":      {MaxSchemaCost, "checks against JSON Schemas", "units"},
	"MaxDetails":         {MaxDetails, "the metadata of a result, the details of a heartbeat", "KiB"},
	"MaxReason":          {MaxReason, "the name of a caller", "KiB"},
	"MaxTenant":          {MaxTenant, "tasks of one [tenant]", "bytes"},
	"MaxLabels":          {MaxLabels, "labels of a run;", ""},
	"MaxLabelKey":        {MaxLabelKey, "labels of a run;", "bytes"},
	"MaxLabelValue":      {MaxLabelValue, "labels of a run;", "bytes"},
}

// elsewhere are the bounds that the comments of what they bound tell: pawl.TaskError, pawl.Snooze and pawl.Report.
var elsewhere = map[string]bool{"MaxRetryAfter": true, "MaxSnooze": true, "MaxRefusals": true}

// docs/limits.md tells each bound, with its value.
func TestBoundsAreDocumented(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "limits.go", nil, 0)
	require.NoError(t, err)
	ast.Inspect(f, func(n ast.Node) bool {
		if s, ok := n.(*ast.ValueSpec); ok && strings.HasPrefix(s.Names[0].Name, "Max") {
			if !elsewhere[s.Names[0].Name] {
				require.Contains(t, rows, s.Names[0].Name)
			}
		}
		return true
	})
	data, err := os.ReadFile(filepath.Join("..", "..", "docs", "limits.md"))
	require.NoError(t, err)
	for name, r := range rows {
		_, rest, found := strings.Cut(string(data), "\n| "+r.row)
		require.True(t, found, name)
		row, _, _ := strings.Cut(rest, " |\n")
		_, told, _ := strings.Cut(row, " | ")
		require.Regexp(t, `(^|[\[ ])`+inUnit(r.value, r.unit)+`($|[\],; ])`, told, name)
		require.Contains(t, told, r.unit, name)
	}
}

// inUnit writes a bound as the page does, without the unit, which may stand once behind several numbers.
func inUnit(n int, unit string) string {
	switch unit {
	case "KiB":
		n >>= 10
	case "MiB":
		n >>= 20
	}
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
