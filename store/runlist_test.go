package store

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// runsOfAllKinds makes more runs than a page has; some have ended, have a parent,
// or started later than their number says.
func runsOfAllKinds(t testing.TB) *Dir {
	d := openWith(t, t.TempDir(), Options{Durability: ProcessCrash})
	g := graph(t)
	for i := range listRows + 90 {
		id := workflow.RunID(fmt.Sprintf("%s-%d", []string{"order", "ordre", "öl"}[i%3], (i*7)%1000))
		o := &owner{t: t, run: d.New(Head{Run: id, Labels: labelsOf(i)}, g), state: state.NewState(id, g)}
		if i%40 == 39 {
			o.run.row.Parent = "order-0"
		}
		first := decision.StartRun{At: at(i - i%5)}
		switch {
		case i%2 == 0:
			o.do(state.Start{}, first, createToken(1, "start"))
		case i%97 == 0:
			o.do(state.Start{}, first, decision.FailRun{Failure: workflow.Failure{Code: "odd"}, At: at(i + 100)})
		default:
			o.do(state.Start{}, first, decision.CompleteRun{At: at(i + 10)})
		}
	}
	return d
}

// labelsOf are the labels of a run: of many, of few, of one in two, or none.
func labelsOf(i int) map[string]string {
	labels := map[string]string{"all": "<\"é\">", "half": fmt.Sprint(i % 2), "few\"": fmt.Sprint(i / 10)}
	if i%3 == 0 {
		return nil
	}
	return labels
}

// fits is the filter once more.
func fits(f RunFilter, h *Head) bool {
	within := func(at, since, until time.Time) bool {
		return since.IsZero() && until.IsZero() || !at.IsZero() && !at.Before(since) && (until.IsZero() || at.Before(until))
	}
	for key, v := range f.Labels {
		if have, ok := h.Labels[key]; !ok || have != v {
			return false
		}
	}
	return (f.Workflow == "" || f.Workflow == h.Workflow) && (f.Parent == "" || f.Parent == h.Parent) && (!f.Roots || h.Parent == "") &&
		strings.HasPrefix(string(h.Run), f.Prefix) && (len(f.Status) == 0 || slices.Contains(f.Status, h.Status)) &&
		within(h.StartedAt, f.Since, f.Until) && within(h.EndedAt, f.EndedSince, f.EndedUntil)
}

func TestRunFilter(t *testing.T) {
	d := runsOfAllKinds(t)
	everything := all(t, d.AllHeads(RunFilter{}))
	require.Len(t, everything, listRows+90)
	require.Equal(t, workflow.RunID("order-0"), everything[0].Run)
	require.True(t, slices.IsSortedFunc(everything, func(a, b Head) int {
		return cmp.Compare(a.StartedAt.Unix()/5, b.StartedAt.Unix()/5)
	}))
	half := map[workflow.RunID]string{}
	for i := range everything {
		half[everything[i].Run] = everything[i].Labels["half"]
	}
	rapid.Check(t, func(t *rapid.T) {
		instant := func(name string) time.Time {
			if n := rapid.IntRange(-200, 700).Draw(t, name); n >= 0 {
				return at(n).Add(rapid.SampledFrom([]time.Duration{0, 0, 1, -1, time.Millisecond - 1}).Draw(t, "beside"))
			}
			return time.Time{}
		}
		statuses := rapid.SampledFrom([]workflow.RunStatus{workflow.RunRunning, workflow.RunPaused, workflow.RunCompleted, workflow.RunFailed})
		f := RunFilter{
			Workflow: rapid.SampledFrom([]string{"", "", "fan", "other"}).Draw(t, "workflow"),
			Parent:   rapid.SampledFrom([]workflow.RunID{"", "", "order-0", "order-1"}).Draw(t, "parent"),
			Labels: rapid.SampledFrom([]map[string]string{
				nil, nil, {}, {"all": "<\"é\">"}, {"half": "1"}, {"few\"": "7"}, {"few\"": "7", "half": "0", "all": "<\"é\">"}, {"half": "2"}, {"none": ""},
			}).Draw(t, "labels"),
			Roots:  rapid.Bool().Draw(t, "roots"),
			Prefix: rapid.SampledFrom([]string{"", "", "o", "order-1", "ö", "öl-99", "z", "%"}).Draw(t, "prefix"),
			Status: rapid.SliceOfN(statuses, 0, 2).Draw(t, "status"),
			Since:  instant("since"), Until: instant("until"), EndedSince: instant("endedSince"), EndedUntil: instant("endedUntil"),
			Newest: rapid.Bool().Draw(t, "newest"),
			After:  rapid.SampledFrom([]workflow.RunID{"", "", everything[0].Run, everything[20].Run, everything[listRows+80].Run}).Draw(t, "after"),
			Limit:  rapid.SampledFrom([]int{0, 0, 1, 7, listRows, 100_000}).Draw(t, "limit"),
		}
		var want []workflow.RunID
		behind := f.After == ""
		listed := slices.Clone(everything)
		if f.Newest {
			slices.Reverse(listed)
		}
		for i := range listed {
			if behind && fits(f, &listed[i]) {
				want = append(want, listed[i].Run)
			}
			behind = behind || listed[i].Run == f.After
		}
		if f.Limit > 0 {
			want = want[:min(f.Limit, len(want))]
		}
		var got []workflow.RunID
		for h, err := range d.AllHeads(f) {
			require.NoError(t, err)
			got = append(got, h.Run)
		}
		require.Equal(t, want, got)
		got = nil
		for h, err := range d.AllHeads(RunFilter{Where: whereOf(&f), Newest: f.Newest, After: f.After, Limit: f.Limit}) {
			require.NoError(t, err)
			got = append(got, h.Run)
		}
		require.Equal(t, want, got, "%s", whereOf(&f))
		if f.Limit > 0 {
			return
		}
		f.Where = `labels.half != "1" && code != "none"`
		got = nil
		for h, err := range d.AllHeads(f) {
			require.NoError(t, err)
			got = append(got, h.Run)
		}
		halved := slices.DeleteFunc(want, func(id workflow.RunID) bool { return half[id] == "1" })
		require.True(t, slices.Equal(halved, got), "%v, %v", halved, got)
	})
}

// whereOf returns what a filter says as a condition.
func whereOf(f *RunFilter) string {
	parts := []string{"true"}
	add := func(yes bool, format string, args ...any) {
		if yes {
			parts = append(parts, fmt.Sprintf(format, args...))
		}
	}
	add(f.Workflow != "", "workflow == %q", f.Workflow)
	add(f.Parent != "", "%q == parent", f.Parent)
	add(f.Roots, "parent == ''")
	add(f.Prefix != "", "run.startsWith(%q)", f.Prefix)
	for key, v := range f.Labels {
		add(true, "%q in labels && labels[%q] == %q", key, key, v)
	}
	var statuses []string
	for _, s := range f.Status {
		statuses = append(statuses, fmt.Sprintf("%q", s))
	}
	add(len(statuses) > 0, "status in [%s]", strings.Join(statuses, ", "))
	instant := func(name, operator string, at time.Time) {
		add(!at.IsZero(), "%s != null && %s %s timestamp(%q)", name, name, operator, at.UTC().Format(time.RFC3339Nano))
	}
	instant("started", ">=", f.Since)
	instant("started", "<", f.Until)
	instant("ended", ">=", f.EndedSince)
	instant("ended", "<", f.EndedUntil)
	return strings.Join(parts, " && ")
}

// A list that begins after a run that is not there says so.
func TestAListAfterNoRun(t *testing.T) {
	d := open(t, t.TempDir())
	for _, err := range d.AllHeads(RunFilter{After: "gone"}) {
		require.ErrorIs(t, err, ErrRunNotFound)
	}
}

// A page is not larger in memory than a bound and the largest row.
func TestLargeRowsMakeShortPages(t *testing.T) {
	t.Parallel()
	d := openWith(t, t.TempDir(), Options{Durability: ProcessCrash})
	g := graph(t)
	for i := range 8 {
		id := workflow.RunID(fmt.Sprint(i))
		o := &owner{t: t, run: d.New(Head{Run: id}, g), state: state.NewState(id, g)}
		o.do(state.Start{}, decision.StartRun{At: at(i)}, decision.CompleteRun{At: at(i), Output: map[string]any{"x": strings.Repeat("x", listBytes/3)}})
	}
	for _, f := range []RunFilter{{}, {Newest: true}, {Prefix: ""}, {Limit: 7}} {
		l := runList{d: d, filter: f}
		require.NoError(t, l.gatherRuns(t.Context()))
		var sizes []int
		for !l.done {
			rows, err := l.nextPage(t.Context())
			require.NoError(t, err)
			sizes = append(sizes, len(rows))
		}
		require.LessOrEqual(t, slices.Max(sizes), 3)
		require.Len(t, all(t, d.AllHeads(f)), cmp.Or(f.Limit, 8))
	}
}

func TestADamagedRowEndsAList(t *testing.T) {
	d := runsOfAllKinds(t)
	require.NoError(t, d.readIndex(func(db *sqlite.Conn) error { return db.Script(`UPDATE runs SET workflow = 'x' WHERE num = 3`) }))
	n := 0
	for _, err := range d.AllHeads(RunFilter{}) {
		if err != nil {
			require.ErrorIs(t, err, ErrCorrupt)
			break
		}
		n++
	}
	require.Equal(t, 2, n)
}

// A status that there is not is one that no run has.
func TestRunFilterOfAStatusThatThereIsNot(t *testing.T) {
	d := runsOfAllKinds(t)
	for _, f := range []RunFilter{{}, {Workflow: "fan"}, {Parent: "order-0"}, {Prefix: "order-1"}, {Labels: map[string]string{"few\"": "7"}}} {
		require.NotEmpty(t, all(t, d.AllHeads(f)))
		f.Status = []workflow.RunStatus{200}
		require.Empty(t, all(t, d.AllHeads(f)))
	}
}
