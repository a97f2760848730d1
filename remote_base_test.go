package pawl_test

import (
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/workflow"
)

// A log drops only what a base has: not what was committed while that was made.
func TestRemoteKeepsWhatIsCommittedWhileABaseIsMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newMendPlace(t)
		var opened atomic.Pointer[pawl.Engine]
		bases, hook := 0, &testhook.Hook{}
		hook.OnHit(func(at string) {
			if e := opened.Load(); at == "remote.base" && e != nil { // the base is made, and the log does not know it yet
				bases++
				p.run(e, workflow.RunID(fmt.Sprint("meanwhile-", bases)))
			}
		})
		e, err := pawl.Open(testhook.With(t.Context(), hook), p.pathOf("a"), p.options(p.h, nil))
		require.NoError(t, err)
		opened.Store(e)
		for i := range 3 {
			p.run(e, workflow.RunID(fmt.Sprint("before-", i)))
			<-time.After(2 * time.Minute)
			synctest.Wait()
			into := p.pathOf(fmt.Sprint("restored-", i))
			_, err := pawl.Restore(t.Context(), into, pawl.RestoreOptions{Log: p.log.Writer(nil), Bases: p.bases})
			require.NoError(t, err)
			alone := open(t, into, pawl.Options{})
			require.Equal(t, idsOf(t, e), idsOf(t, alone))
			require.NoError(t, alone.Close(t.Context()))
		}
		require.GreaterOrEqual(t, bases, 3)
		first, _ := p.log.Bounds()
		require.Greater(t, first, uint64(1), "it has dropped something")
		want := 3 + bases
		require.Len(t, idsOf(t, e), want)
		hook.OnHit(func(string) {})
		require.NoError(t, e.Close(t.Context()))
		require.NoError(t, os.RemoveAll(p.pathOf("a"))) // its machine is lost
		p.compare(want, "b", "a")
	})
}
