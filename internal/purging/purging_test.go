package purging

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/workflow"
)

// Children are purged before the run above them: after a crash in between, the run is
// there still, by which alone they can be purged.
func TestChildrenArePurgedFirst(t *testing.T) {
	var family store.Family // as the directory finds it: the run first, then level by level
	for _, id := range []workflow.RunID{"top", "top/1.1", "top/1.1/1.1"} {
		family = append(family, store.Member{Head: store.Head{Run: id}})
	}
	runs, of := lowestFirst([]*doomed{{root: "top", family: family}})
	var ids []workflow.RunID
	for i, m := range runs {
		ids = append(ids, m.Head.Run)
		require.Equal(t, workflow.RunID("top"), of[i].root)
	}
	require.Equal(t, []workflow.RunID{"top/1.1/1.1", "top/1.1", "top"}, ids)
}

// A rule lets a run go that is too old, or that ended before the instant, whichever is later.
func TestTheLaterOfTwoBoundsCounts(t *testing.T) {
	now := time.Unix(1000, 0)
	for _, tt := range []struct {
		rule Rule
		want time.Time
	}{
		{Rule{}, time.Time{}},
		{Rule{Keep: 3}, time.Time{}},
		{Rule{Age: time.Second}, time.Unix(999, 0)},
		{Rule{Before: time.Unix(998, 0)}, time.Unix(998, 0)},
		{Rule{Before: time.Unix(998, 0), Age: time.Second}, time.Unix(999, 0)},
		{Rule{Before: time.Unix(1002, 0), Age: time.Second}, time.Unix(1002, 0)},
	} {
		require.Equal(t, tt.want, tt.rule.untilInstant(now), tt.rule)
	}
}
