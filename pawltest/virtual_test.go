package pawltest_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

const invoice = `
name: invoice
start: send
nodes:
  - {id: send, task: mail, input: {text: "'invoice'"}}
  - {id: paid, wait: {any: [{event: paid}, {for: 336h}]}, output: {state.cause: result.cause}}
  - {id: remind, task: mail, input: {text: "'reminder'"}, retry: {maxAttempts: 3, initialInterval: 1h}}
  - {id: done}
transitions:
  - {from: send, to: paid}
  - {from: paid, to: remind, condition: state.cause != 'event'}
  - {from: paid, to: done, priority: 1}
`

// A mailer has the handler of a program: it is what the test is about.
type mailer struct {
	down bool // for the first attempt of a reminder
	sent map[string]time.Time
}

func (m *mailer) sendMail(ctx context.Context, in struct{ Text string }) (any, error) {
	if in.Text == "reminder" && !m.down {
		m.down = true
		return nil, pawl.TaskError{Code: "mail_down", Retryable: true}
	}
	m.sent[in.Text] = time.Now()
	return nil, ctx.Err()
}

// An engine within testing/synctest executes the handlers of a program for real, in virtual time: two weeks pass at once, and time.Now,
// timers and contexts in handlers go by the same clock. Open and Close belong within the bubble.
func TestHandlersInVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &mailer{sent: map[string]time.Time{}}
		engine, err := pawl.Open(t.Context(), t.TempDir(), pawl.Options{Executor: pawl.Handlers{"mail": pawl.Typed(m.sendMail)}})
		require.NoError(t, err)
		outcome, err := engine.Run(t.Context(), workflow.Run{ID: "invoice-1", Definition: workflow.MustParse([]byte(invoice))}, nil)
		require.NoError(t, err)
		require.Equal(t, workflow.RunCompleted, outcome.Status)
		waited := m.sent["reminder"].Sub(m.sent["invoice"])
		require.GreaterOrEqual(t, waited, 336*time.Hour+time.Hour/2, "two weeks, and a retry")
		require.Less(t, waited, 338*time.Hour)
		require.NoError(t, engine.Close(t.Context()))
	})
}
