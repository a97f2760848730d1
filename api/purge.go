package api

import (
	"context"
	"net/http"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

// A Purge says who forgets a run that has ended, and why. Nothing of it is kept but a line in the
// log of the engine.
type Purge struct {
	By     string `json:"by,omitzero"` // who purges the run; may be left out where the host says who that is
	Reason string `json:"reason"`
}

// A Purged says what was forgotten with a run or, if it was only tried, what would be.
type Purged struct {
	Run     workflow.RunID `json:"run"`
	Applied bool           `json:"applied"` // false: nothing was changed
	Runs    int            `json:"runs"`    // how many, with those below it
	Bytes   int64          `json:"bytes"`   // of their files
}

// purgeRun forgets a run that has ended. The dry run comes first in both cases: afterwards nobody
// could say how much there was.
func (c *call) purgeRun() error {
	text, err := c.readBody(smallBody)
	if err != nil {
		return err
	}
	var p Purge
	if err := decodeObject(text, &p); err != nil {
		return err
	}
	if err := c.signAct(&p.By, p.Reason); err != nil {
		return err
	}
	q := c.query()
	dry := q.flag("dryRun")
	if q.err != nil {
		return q.err
	}
	ctx, cancel := context.WithTimeout(pawl.Because(pawl.As(context.WithoutCancel(c.r.Context()), p.By), p.Reason), commitTime)
	defer cancel()
	seen, err := c.engine.DryRunPurge(ctx, c.runID())
	if err != nil {
		return err
	}
	if !dry {
		if err := c.engine.Purge(ctx, c.runID()); err != nil {
			return unknownIfLate(err)
		}
	}
	return c.reply(Purged{Run: seen.Run, Applied: !dry, Runs: seen.Runs, Bytes: seen.Bytes})
}

// Purge forgets a run that has ended, with those below it, as Engine.Purge does.
func (c *Client) Purge(ctx context.Context, id workflow.RunID, p Purge) (Purged, error) {
	return c.purgeOrTry(ctx, id, p, false)
}

// DryRunPurge says what Purge would forget. Nothing is changed.
func (c *Client) DryRunPurge(ctx context.Context, id workflow.RunID, p Purge) (Purged, error) {
	return c.purgeOrTry(ctx, id, p, true)
}

func (c *Client) purgeOrTry(ctx context.Context, id workflow.RunID, p Purge, dry bool) (out Purged, err error) {
	q := aboutRun(id, "/purge")
	if q.method, q.body, q.acts = http.MethodPost, p, !dry; dry {
		q.query.Set("dryRun", "1")
	}
	err = c.ask(ctx, q, &out)
	return out, err
}
