package state

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/workflow"
)

// A table behaves like a map, and its overlay like a changed copy of it.
func TestTable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var base table[workflow.TokenID, int]
		model := map[workflow.TokenID]int{}
		put := func(tab *table[workflow.TokenID, int], next int) {
			id := workflow.TokenID(rapid.IntRange(1, next).Draw(t, "id"))
			v := rapid.Int().Draw(t, "value")
			tab.putRow(id, &v)
			model[id] = v
		}
		same := func(tab *table[workflow.TokenID, int]) {
			for id := workflow.TokenID(0); id <= workflow.TokenID(len(model)+2); id++ {
				want, ok := model[id]
				got := tab.getRow(id)
				require.Equal(t, ok, got != nil)
				require.True(t, got == nil || *got == want)
			}
		}
		for range rapid.IntRange(0, 20).Draw(t, "rows") {
			put(&base, len(model)+1)
		}
		same(&base)
		require.Equal(t, slices.Sorted(maps.Keys(model)), append([]workflow.TokenID(nil), base.dirty.takeRows()...))
		require.Empty(t, base.dirty.takeRows())
		before := map[workflow.TokenID]int{}
		for id, v := range model {
			before[id] = v
		}
		over := base.newOverlay()
		top := over.newOverlay()
		for range rapid.IntRange(0, 20).Draw(t, "changes") {
			put(rapid.SampledFrom([]*table[workflow.TokenID, int]{&over, &top}).Draw(t, "layer"), len(model)+1)
		}
		for id := range model { // what top has changed hides what over has
			if v := top.own[id]; v != nil {
				model[id] = *v
			}
		}
		same(&top)
		model = before
		same(&base)
	})
}

// The agenda finds what is due, however stale the rest of it is.
func TestAgenda(t *testing.T) {
	start := time.UnixMilli(0).UTC()
	rapid.Check(t, func(t *rapid.T) {
		var a agenda
		live := map[Item]bool{}
		fresh := func(it Item) bool { return live[it] }
		for range rapid.IntRange(0, 300).Draw(t, "steps") {
			it := Item{At: start.Add(time.Duration(rapid.IntRange(1, 9).Draw(t, "at")) * time.Second)}
			if n := rapid.IntRange(1, 5).Draw(t, "id"); rapid.Bool().Draw(t, "token") {
				it.Token = workflow.TokenID(n)
			} else {
				it.Group = workflow.GroupID(n)
			}
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0:
				delete(live, it)
			case 1:
				a.dropStale(fresh, len(live))
			default:
				live[it] = true
				a.pushItem(it)
			}
		}
		limit := start.Add(time.Duration(rapid.IntRange(0, 10).Draw(t, "until")) * time.Second)
		var want []Item
		for it := range live {
			want = append(want, it)
		}
		slices.SortFunc(want, compareItems)
		first, ok := a.firstFresh(fresh)
		require.Equal(t, len(want) > 0, ok)
		require.True(t, !ok || first == want[0])
		want = slices.DeleteFunc(want, func(it Item) bool { return it.At.After(limit) })
		got := a.itemsUntil(limit, fresh, nil)
		slices.SortFunc(got, compareItems)
		require.True(t, slices.Equal(want, slices.Compact(got)), "%v, want %v", got, want)
		a.dropStale(fresh, len(live))
		require.LessOrEqual(t, len(a.heap), 2*len(live)+64)
	})
}

// At one instant tokens come before the joins that time out at it.
func TestAgendaOrder(t *testing.T) {
	at := time.UnixMilli(5).UTC()
	items := []Item{{At: at, Group: 1}, {At: at.Add(1), Token: 1}, {At: at, Token: 9}, {At: at, Token: 2}, {At: at, Group: 2}}
	slices.SortFunc(items, compareItems)
	require.Equal(t, []Item{{At: at, Token: 2}, {At: at, Token: 9}, {At: at, Group: 1}, {At: at, Group: 2}, {At: at.Add(1), Token: 1}}, items)
}

// Data of a discarded overlay never show in an overlay that gets its memory, over any state, however much it held; a
// state that has given the memory away keeps none of it.
func TestDiscard(t *testing.T) {
	base := NewState("r", &compiled.Graph{})
	for _, branches := range []int{1, 100} {
		for range 20 {
			o := base.Overlay()
			require.Empty(t, o.AllRows().Tokens)
			require.Empty(t, o.AllData())
			require.Nil(t, o.Group(1))
			tokens := make([]*Token, branches)
			for i := range tokens {
				tokens[i] = &Token{ID: workflow.TokenID(i + 1), Node: "n", Scope: workflow.Scope{Group: 1, Branch: i}}
			}
			o.PutBranches(&Group{ID: 1, First: 1, Total: branches, Name: "g"}, tokens, nil)
			for i := range tokens {
				o.PutBranchStatus(workflow.Scope{Group: 1, Branch: i}, BranchArrived, nil)
				o.SetData(workflow.Scope{Group: 1, Branch: i}, []string{"state"}, map[string]any{"n": int64(i)})
			}
			require.Len(t, o.AllRows().Tokens, branches)
			o.Discard()
			spare := base.TakeSpare()
			require.Same(t, o, spare)
			require.Nil(t, base.TakeSpare())
			base = NewState("r", &compiled.Graph{})
			base.GiveSpare(spare)
		}
	}
	require.Zero(t, base.LiveCount())
	require.EqualValues(t, 1, base.NextToken)
}

// A file that names branches which cannot be is refused, and costs no memory.
func TestRestoreRefusesBranchesThatAreNotThere(t *testing.T) {
	for _, sc := range []workflow.Scope{{Group: 1, Branch: 1 << 40}, {Group: 1, Branch: 1}, {Group: 1, Branch: -1}, {Group: 2}} {
		rows := Rows{Facts: Facts{Run: "r"}, Groups: []*Group{{ID: 1, Name: "g", First: 1, Total: 1}}}
		rows.Branches = []BranchChange{{Scope: sc, Status: BranchArrived}}
		require.Panics(t, func() { Restore(&compiled.Graph{}, rows) }, "%v", sc)
		rows.Branches, rows.Tokens = nil, []*Token{{ID: 1, Node: "n", Scope: sc}}
		require.Panics(t, func() { Restore(&compiled.Graph{}, rows) }, "%v", sc)
	}
}
