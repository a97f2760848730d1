package inspector

import (
	"bytes"
	"fmt"
	"image/png"
	"strconv"
	"strings"

	"github.com/pawl-run/pawl"
)

// A branchRow is a branch of a fan-out.
//
// Index counts from 0, as in the data of events.
type branchRow struct {
	Index    int
	Standing standing
	Tokens   []tokenRow
}

// A linkedCell is a branch as a square that leads to its token.
//
// Href is "" of a branch that has no token yet. Label says in words what colour and icon say.
type linkedCell struct {
	X, Y  int
	Class string
	Icon  string // that the cell has as well as its color; "" of those that are done or have not begun
	Href  string
	Label string
}

// A groupData is what the page of a fan-out shows: its numbers, its branches as squares, and a page of the table of them. Either Cells or
// Image has the squares. Neither has them of a run with too many tokens: then Running, Ended and Failed are all that is known.
type groupData struct {
	Group   groupRow
	Running int
	Ended   int
	Failed  int
	Cells   []linkedCell // of a group that is not too large
	Height  int
	Width   int
	Image   string // else; its address changes with what it shows
	Marks   []cellMark
	Filters []choiceRow
	Rows    []branchRow
	From    int
	Earlier string
	Later   string
	Worst   string // leads to the first branch that needs somebody; "" without such a branch
}

// Cells are squares of cellSize in a grid of cellPitch pixels; the cells of a picture are smaller.
const (
	cellPitch   = 16
	cellSize    = 13
	cellColumns = 50
	dotPitch    = 8
	dotColumns  = 120
)

// viewGroup shows the branches of a fan-out as cells, and as a table.
//
// Up to linkedCells branches are links of their own, which a keyboard reaches; more are one picture, in which a click finds the branch.
func (v *viewer) viewGroup() (any, error) {
	g, err := v.findGroup()
	if err != nil {
		return nil, err
	}
	known, err := v.branchesOf([]pawl.Group{*g})
	if err != nil {
		return nil, err
	}
	rows, err := v.groupRows([]pawl.Group{*g})
	if err != nil {
		return nil, err
	}
	data := groupData{Group: rows[0], Running: g.Running, Ended: g.Ended, Failed: g.Failed}
	b := known[g.ID]
	if b == nil {
		return data, nil
	}
	if len(b.standing) <= linkedCells {
		data.Cells = v.linkedCells(b)
		lines := (len(b.standing) + cellColumns - 1) / cellColumns
		data.Width, data.Height = min(len(b.standing), cellColumns)*cellPitch, lines*cellPitch
	} else {
		// The digest is in the address, so that a frame of the stream which shows the same picture is the same text, and a browser loads
		// another picture only when there is one.
		data.Image = v.link("view", "cells", "group", strconv.FormatInt(int64(g.ID), 10), "shown", b.digestCells())
		data.Width, data.Height = cellsImage(len(b.standing))
		data.Marks = b.cellMarks()
	}
	err = v.addBranches(&data, b)
	return data, err
}

// linkedCells returns a square for each branch, in rows of cellColumns.
func (v *viewer) linkedCells(b *branches) (cells []linkedCell) {
	for i, s := range b.standing {
		c := linkedCell{X: i % cellColumns * cellPitch, Y: i / cellColumns * cellPitch, Class: s.String(), Label: fmt.Sprintf("branch %d: %s", i, s)}
		// It has no token, so it has no standing, and no link either.
		if s == standings {
			c.Label = fmt.Sprintf("branch %d: has not begun", i)
		}
		if s != done && s != standings {
			c.Icon = s.String()
		}
		if b.token[i] != 0 {
			c.Href = v.tokenLink(v.id, b.token[i])
		}
		cells = append(cells, c)
	}
	return cells
}

// addBranches adds a page of the table, of the branches of one standing if the reader asks.
//
// Each branch is a row, with its first tokens. The parameter from is the branch with which a page begins, so that pages stay as they are
// while branches move from one standing to another.
func (v *viewer) addBranches(data *groupData, b *branches) error {
	q := v.r.URL.Query()
	from, _ := strconv.Atoi(q.Get("from"))
	from = max(from, 0)
	want := q.Get("status")
	t := b.tally()
	data.Filters = append(data.Filters, choiceRow{Value: v.groupLink(b.group.ID), Text: "all " + groupDigits(t.Total()), Chosen: want == ""})
	for _, c := range t.Counts() {
		word := c.Standing.String()
		data.Filters = append(data.Filters, choiceRow{Value: v.groupLink(b.group.ID, "status", word), Text: groupDigits(c.N) + " " + word, Class: word, Chosen: want == word})
	}
	if t[failed]+t[parked] > 0 {
		data.Worst = v.link("view", "nextfailed", "group", strconv.FormatInt(int64(b.group.ID), 10))
	}
	// place finds the row of a branch: only tokens of branches on this page are kept.
	place := map[int]int{}
	for i := from; i < len(b.standing); i++ {
		s := b.standing[i]
		// A branch that has not begun is counted as waiting, and is found by that filter.
		if s == standings {
			s = waiting
		}
		if want != "" && s.String() != want {
			continue
		}
		if len(data.Rows) == branchesPage {
			data.Later = v.groupLink(b.group.ID, "status", want, "from", strconv.Itoa(i))
			break
		}
		place[i] = len(data.Rows)
		data.Rows = append(data.Rows, branchRow{Index: i, Standing: s})
	}
	data.From = from
	if from > 0 {
		data.Earlier = v.groupLink(b.group.ID, "status", want)
	}
	// Tokens in nested fan-outs are of another group, and on the page of that.
	for t, err := range v.s.engine.Tokens(v.ctx, v.id, pawl.TokenFilter{Group: b.group.ID}) {
		if err != nil {
			return err
		}
		if i, ok := place[t.Scope.Branch]; ok && len(data.Rows[i].Tokens) < shownTokens {
			data.Rows[i].Tokens = append(data.Rows[i].Tokens, v.rowOfToken(&t))
		}
	}
	return nil
}

// shownTokens bounds the tokens of one branch in the table.
const shownTokens = 8

// cellsImage returns the measures of the picture of n cells.
//
// They are in pixels. paintCells, clickedCell and the page itself count on the same grid.
func cellsImage(n int) (width, height int) {
	return dotColumns * dotPitch, (n + dotColumns - 1) / dotColumns * dotPitch
}

// drawCells answers the picture of a group that is too large for a link each. A click on it, also
// without JavaScript, comes back as ?x,y, which leads to the token of that branch.
//
// The picture is what HTML calls a server-side image map: the browser puts the place of a click behind the address of the link.
func (v *viewer) drawCells() error {
	g, err := v.findGroup()
	if err != nil {
		return err
	}
	known, err := v.branchesOf([]pawl.Group{*g})
	if err != nil {
		return err
	}
	b := known[g.ID]
	if b == nil {
		return errNoPage
	}
	// A click on a branch without a token, or between the last one and the border, leads back to the group.
	if i, ok := clickedCell(v.r.URL.RawQuery); ok {
		if i >= len(b.standing) || b.token[i] == 0 {
			return v.goTo(runAddress(v.id, "view", "group", "group", strconv.FormatInt(int64(g.ID), 10)))
		}
		return v.goTo(runAddress(v.id, "view", "token", "token", strconv.FormatInt(int64(b.token[i]), 10)))
	}
	var out bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestSpeed}).Encode(&out, b.paintCells()); err != nil {
		return err
	}
	v.w.Header().Set("Content-Type", "image/png")
	_, _ = v.w.Write(out.Bytes()) // whom it does not reach has gone
	return nil
}

// clickedCell returns the branch at the place that a browser has put behind the address.
//
// The query is view=cells&group=3&shown=k2?120,8: what stands behind the last ? are pixels from the upper left corner. They come from
// outside, so the result may be more than there are branches.
func clickedCell(query string) (int, bool) {
	i := strings.LastIndexByte(query, '?')
	if i < 0 {
		return 0, false
	}
	a, b, ok := strings.Cut(query[i+1:], ",")
	x, err1 := strconv.Atoi(a)
	y, err2 := strconv.Atoi(b)
	if !ok || err1 != nil || err2 != nil || x < 0 || y < 0 || x >= dotColumns*dotPitch {
		return 0, false
	}
	return y/dotPitch*dotColumns + x/dotPitch, true
}
