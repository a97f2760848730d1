package late

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// Callers who come while a call is under way are all answered by one that begins later, and one who leaves does not end it.
func TestSharedCallsAnswerAllWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls Calls
		answers, ended := make(chan error), make(chan error, 100)
		errOver := errors.New("over")
		s := calls.Share(func() error { return <-answers }, errOver)
		ask := func() { go func() { ended <- s.Until(t.Context()) }() }
		ask()
		synctest.Wait() // the first is under way
		for range 50 {
			ask()
		}
		synctest.Wait()
		answers <- nil
		require.NoError(t, <-ended)
		synctest.Wait()
		require.Empty(t, ended, "that call began before they came")
		lost := errors.New("lost")
		answers <- lost
		for range 50 {
			require.ErrorIs(t, <-ended, lost)
		}
		go func() { answers <- nil }()
		require.NoError(t, s.Until(t.Context()))
		calls.Close()
		require.ErrorIs(t, s.Until(t.Context()), errOver)
		require.NoError(t, (*Shared)(nil).Until(t.Context()))
	})
}
