package filter

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/workflow"
)

var (
	began  = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	failed = Run{
		ID: "order-7", Workflow: "order", Version: 3, Status: workflow.RunFailed, Labels: map[string]string{"customer": "7", "vip": ""},
		StartedAt: began, EndedAt: began.Add(time.Hour), Parent: "p", ForkedFrom: "order-1", Tenant: "acme", Seq: 9, Code: "timeout",
	}
	running = Run{ID: "order-8", Workflow: "order", Status: workflow.RunRunning, StartedAt: began}
)

func TestFits(t *testing.T) {
	for _, tt := range []struct {
		where           string
		failed, running bool
	}{
		{`true`, true, true},
		{`status == "failed" && labels.customer == "7" && started > timestamp("2026-10-01T00:00:00Z")`, true, false},
		{`status in ["paused", "running"]`, false, true},
		{`status != "failed"`, false, true},
		{`run.startsWith("order-") && version == 3`, true, false},
		{`labels.customer != "7"`, false, true},
		{`labels["customer"] == "7" || labels.other == "x"`, true, false},
		{`has(labels.vip)`, true, false},
		{`labels.vip == ""`, true, true},
		{`"vip" in labels`, true, false},
		{`"x" in labels || size(labels) == 2`, true, false},
		{`labels.exists(k, k == "customer")`, true, false},
		{`labels.?vip.hasValue()`, true, false},
		{`ended == null`, false, true},
		{`ended != null && ended - started >= duration("1h")`, true, false},
		{`status == "failed" && ended < timestamp("2027-01-01T00:00:00Z")`, true, false},
		{`tenant == "acme" && parent == "p" && forkedFrom == "order-1" && seq == 9 && code == "timeout"`, true, false},
		{`parent == "" && tenant == "" && forkedFrom == "" && code == "" && workflow == "order"`, false, true},
		{`status == "failed" && status == "running"`, false, false},
		{`run in ["order-7", "order-8"] && labels.customer in ["7"]`, true, false},
	} {
		w, err := Parse(tt.where)
		require.NoError(t, err, tt.where)
		for r, want := range map[*Run]bool{&failed: tt.failed, &running: tt.running} {
			got, err := w.Fits(r)
			require.NoError(t, err, tt.where)
			require.Equal(t, want, got, "%s of %s", tt.where, r.ID)
			require.True(t, w.MayFit(r) || !want, "%s of %s", tt.where, r.ID)
		}
	}
}

func TestBounds(t *testing.T) {
	for where, want := range map[string]Bounds{
		`true`: {},
		`status == "failed" && (labels.a == "1" && "w" == workflow)`:        {Status: []workflow.RunStatus{workflow.RunFailed}, Labels: map[string]string{"a": "1"}, Workflow: "w"},
		`status in ["failed", "paused"] && status in ["paused", "running"]`: {Status: []workflow.RunStatus{workflow.RunPaused}},
		`status == "failed" && status == "paused"`:                          {Status: []workflow.RunStatus{}, None: true},
		`status in []`:                          {None: true},
		`status == "failed" || labels.a == "1"`: {},
		`!(status == "failed")`:                 {},
		`labels["a b"] == "1" && labels.c == "" && labels.d != "2"`:              {Labels: map[string]string{"a b": "1"}},
		`labels.a == "1" && labels.a == "2"`:                                     {Labels: map[string]string{"a": "2"}, None: true},
		`run == "r" && tenant == "t" && parent == "p"`:                           {ID: "r", Tenant: "t", Parent: "p"},
		`workflow == "a" && workflow in ["b"]`:                                   {Workflow: "b", None: true},
		`workflow in ["a", "b"] && parent == "" && seq > 5 && version == 1`:      {Roots: true},
		`workflow == run && labels[run] == "1" && [1].exists(run, run == 1)`:     {},
		`[""].all(labels, labels == "7") && ["x"].exists(status, status == "y")`: {},
	} {
		w, err := Parse(where)
		require.NoError(t, err, where)
		require.Equal(t, want, w.Bounds, where)
	}
}

func TestWrongConditions(t *testing.T) {
	for where, says := range map[string]string{
		``:                           "the condition on runs, at 1:1: the expression ends too early",
		`staus == "failed"`:          "at 1:1: unknown variable staus; did you mean status?",
		`true && status = "failed"`:  "at 1:16: = is not an operator: == compares",
		`seq > 1 && status == "bad"`: `at 1:19: no status is called "bad": there are created, running, paused, suspended, completed, failed, timed_out, cancelled`,
		`labels.customer`:            `it is no condition: it gives "", not true or false`,
		`"x"`:                        `it is no condition: it gives "x", not true or false`,
		`null`:                       "it is no condition: it gives null, not true or false",
		`labels`:                     "it is no condition: it gives an object, not true or false",
		`seq + 1`:                    "it is no condition: it gives 1, not true or false",
		`now() > started`:            "unknown function now",
		strings.Repeat("true && ", 1000) + "true": "celSource exceeds the limit of 4096",
	} {
		_, err := Parse(where)
		var wrong *Error
		require.ErrorAs(t, err, &wrong, where)
		require.ErrorContains(t, err, says)
		require.Empty(t, wrong.Run)
	}
}

// The error of a condition that cannot be evaluated for a run names the run.
func TestErrorsOfARun(t *testing.T) {
	for where, says := range map[string]string{
		`ended > started`:   `for run "order-8": no such overload: _>_; ended is null until a run has ended: write ended != null && ...`,
		`started > "2026"`:  `at 1:9, for run "order-8": no such overload; started and ended are instants: compare them with timestamp("2026-11-01T00:00:00Z")`,
		`labels.n > 3`:      `at 1:10, for run "order-8": no such overload; labels are texts: compare them with texts, as "3"`,
		`seq + run == 1`:    `at 1:5, for run "order-8": no such overload`,
		`labels[run] == ""`: `for run "order-8": no such key`,
		`[1,2,3,4,5,6,7,8,9,10].all(a, [1,2,3,4,5,6,7,8,9,10].all(b, [1,2,3,4,5,6,7,8,9,10].all(c, [1,2,3,4,5,6,7,8,9,10].all(d, a+b+c+d > 0))))`: `for run "order-8": celCost exceeds the limit of 10000`,
	} {
		w, err := Parse(where)
		require.NoError(t, err, where)
		_, err = w.Fits(&running)
		var wrong *Error
		require.ErrorAs(t, err, &wrong, where)
		require.Equal(t, running.ID, wrong.Run)
		require.ErrorContains(t, err, says)
	}
}

// The handbook lists the variables.
func TestVariablesAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/command.md")
	require.NoError(t, err)
	_, section, found := strings.Cut(string(text), "\n## Which runs\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	var names []string
	for _, row := range regexp.MustCompile("(?m)^\\| ((?:`\\w+`(?:, )?)+) \\|").FindAllStringSubmatch(section, -1) {
		names = append(names, regexp.MustCompile(`\w+`).FindAllString(row[1], -1)...)
	}
	require.ElementsMatch(t, Variables(), names)
}

func BenchmarkParse(b *testing.B) {
	for b.Loop() {
		_, err := Parse(`status == "failed" && labels.customer == "7" && started > timestamp("2026-10-01T00:00:00Z")`)
		require.NoError(b, err)
	}
}

func BenchmarkFits(b *testing.B) {
	w, err := Parse(`status == "failed" && labels.customer == "7" && started > timestamp("2026-10-01T00:00:00Z")`)
	require.NoError(b, err)
	for b.Loop() {
		_, err := w.Fits(&failed)
		require.NoError(b, err)
	}
}
