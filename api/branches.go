package api

import (
	"fmt"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

// A branchPage is a page of the branches of a run.
type branchPage struct {
	Branches []any  `json:"branches"`
	Cursor   string `json:"cursor,omitzero"` // of the next page; "" if this is the last
}

// listBranches answers branches by group and index. A cursor is that of the last one: GROUP:INDEX.
// The engine lists all branches; the branches up to the cursor are left out here. Lines have no
// cursor.
func (c *call) listBranches() error {
	q := c.query()
	f := pawl.BranchFilter{Group: workflow.GroupID(q.number("group")), Status: q.textOf("status")}
	var last struct {
		group workflow.GroupID
		index int
	}
	last.index = -1
	if text := q.textOf("cursor"); text != "" {
		// A cursor that does not read back as itself, as "1:2x", is refused: Sscanf would stop
		// before the x.
		if _, err := fmt.Sscanf(text, "%d:%d", &last.group, &last.index); err != nil || cursorOf(last.group, last.index) != text {
			q.refuse("cursor", "one that a page has")
		}
	}
	limit := q.limit()
	if q.err != nil {
		return q.err
	}
	id := c.runID()
	show := c.viewerOf(id).showBranch
	branches, err := c.readBranches(id, f)
	if err != nil {
		return err
	}
	if c.acceptsType(typeLines) {
		return c.replyLines(mapList(branches, show))
	}
	page, more, err := readPage(keepEntries(branches, func(b *pawl.BranchView) bool {
		return b.Group > last.group || b.Group == last.group && b.Index > last.index
	}), limit)
	if err != nil {
		return err
	}
	out := branchPage{Branches: make([]any, len(page))}
	for i := range page {
		out.Branches[i] = show(&page[i])
	}
	if more {
		out.Cursor = cursorOf(page[limit-1].Group, page[limit-1].Index)
	}
	return c.reply(out)
}

func cursorOf(group workflow.GroupID, index int) string { return fmt.Sprintf("%d:%d", group, index) }

// A signalPage is a page of the signals that a run keeps.
type signalPage struct {
	Signals []any `json:"signals"`
	After   int64 `json:"after,omitzero"` // of the next page; 0 if this is the last
}

// listSignals answers the signals that the run keeps until a token takes them, by their sequence.
// A signal that is taken between two pages is not on the later ones.
func (c *call) listSignals() error {
	after, limit, err := c.readPosition()
	if err != nil {
		return err
	}
	id := c.runID()
	show := c.viewerOf(id).showSignal
	kept, err := c.readSignals(id)
	if err != nil {
		return err
	}
	signals := keepEntries(kept, func(s *pawl.KeptSignal) bool { return s.Seq > after })
	if c.acceptsType(typeLines) {
		return c.replyLines(mapList(signals, show))
	}
	page, more, err := readPage(signals, limit)
	if err != nil {
		return err
	}
	out := signalPage{Signals: make([]any, len(page))}
	for i := range page {
		out.Signals[i] = show(&page[i])
	}
	if more {
		out.After = page[limit-1].Seq
	}
	return c.reply(out)
}
