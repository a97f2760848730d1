package inspector_test

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

const wideImport = `
name: wide
start: split
nodes: [{id: split}, {id: load, task: load, retry: {maxAttempts: 1, exhausted: park}}, {id: sum}]
transitions:
  - {from: split, to: load, foreach: {collection: input.files}, siblingGroup: files, maxConcurrency: 3}
  - {from: load, to: sum, synchronization: {siblingGroup: files}}
`

// picture returns the address of the picture on a page of a group, and the picture.
func (s *shop) picture(id workflow.RunID) (string, image.Image) {
	s.t.Helper()
	found := regexp.MustCompile(`<img src="([^"]+)"`).FindStringSubmatch(s.see("run/" + string(id) + "?view=group&group=1"))
	require.NotNil(s.t, found)
	address := strings.TrimPrefix(strings.ReplaceAll(found[1], "&amp;", "&"), "../")
	img, err := png.Decode(bytes.NewReader([]byte(s.see(address))))
	require.NoError(s.t, err)
	return address, img
}

// cellAt returns the pixels of one color in the first cells of a picture, a line for each row of pixels.
func cellAt(img image.Image, i int) (shape string, of color.NRGBA) {
	for y := range 7 {
		for x := range 7 {
			c, _ := color.NRGBAModel.Convert(img.At(i*8+x, y)).(color.NRGBA)
			if c.A == 0 {
				shape += " "
				continue
			}
			shape, of = shape+"#", c
		}
		shape += "\n"
	}
	return shape, of
}

// The picture of a large group has another address when a branch has moved, so that a frame shows it; its cells have
// shapes, which a legend counts; a click on it leads to the token of a branch, from the address that the page has.
func TestThePictureOfAGroup(t *testing.T) {
	s := openShop(t)
	s.start("wide", wideImport, map[string]any{"files": make([]int, 401)})
	before, _ := s.picture("wide")
	again, _ := s.picture("wide")
	require.Equal(t, before, again)
	require.NoError(t, s.engine.Fail(t.Context(), s.key("wide", "load"), pawl.TaskError{Code: "no", Message: "no"}))
	after, img := s.picture("wide")
	require.NotEqual(t, before, after)

	shapes := map[string]bool{}
	for i, want := range []color.NRGBA{{0xd9, 0x82, 0x2b, 255}, {0x3f, 0x7f, 0xd1, 255}, {0x3f, 0x7f, 0xd1, 255}, {0x8b, 0x90, 0x97, 110}} {
		shape, of := cellAt(img, i)
		require.Equal(t, want, of, "branch %d", i)
		shapes[shape] = true
	}
	require.Len(t, shapes, 3, "parked, running and not begun can be told apart without colors")
	require.Contains(t, textOf(t, s.see("run/wide?view=group&group=1")), "1 parked 2 running 398 not begun")

	status, body := s.get(after + "?9,1")
	require.Equal(t, 200, status)
	require.Contains(t, textOf(t, body), "load t3")
}

// Cells that are links have the shape of their status as well.
func TestCellsHaveShapes(t *testing.T) {
	s := openShop(t)
	s.startOrder("order-1")
	page := s.see("run/order-1?view=group&group=1")
	require.Contains(t, page, `<use href="#i-parked" x="0" y="0"`)
	require.Contains(t, page, `<use href="#i-running"`)
	require.NotContains(t, page, `<use href="#i-done" x=`)
}
