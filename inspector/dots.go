package inspector

import (
	"fmt"
	"hash/fnv"
	"image"
	"image/color"
	"strconv"
	"strings"
)

// dotColors are those of the standings, plain enough for light and dark pages.
//
// The place of a colour is the number of its standing, so paintCells writes standings as pixels. Behind them are the colour of branches
// that have not begun, and nothing at all for what is between the cells.
var dotColors = color.Palette{
	failed: color.NRGBA{0xd6, 0x45, 0x3d, 255}, parked: color.NRGBA{0xd9, 0x82, 0x2b, 255}, retrying: color.NRGBA{0xc9, 0xa2, 0x27, 255},
	running: color.NRGBA{0x3f, 0x7f, 0xd1, 255}, waiting: color.NRGBA{0x8d, 0x7a, 0xc7, 255}, done: color.NRGBA{0x4f, 0x9d, 0x69, 255},
	cancelled: color.NRGBA{0x8b, 0x90, 0x97, 255}, standings: color.NRGBA{0x8b, 0x90, 0x97, 110}, standings + 1: color.NRGBA{},
}

// dotSize is the side of a cell of the picture, in pixels.
const dotSize = 7

// dotShapes are the cells of the standings, each a shape of its own; # is a pixel of its color.
//
// Readers who do not tell colours apart tell the shapes apart. Lines are from top to bottom, each of dotSize characters.
var dotShapes = [standings + 1][dotSize]string{
	failed:    {"##   ##", "### ###", " ##### ", "  ###  ", " ##### ", "### ###", "##   ##"},
	parked:    {"#######", "#######", "##   ##", "##   ##", "##   ##", "#######", "#######"},
	retrying:  {"  ###  ", " #   # ", "#     #", "#  #  #", "#     #", " #   # ", "  ###  "},
	running:   {"##     ", "####   ", "###### ", "#######", "###### ", "####   ", "##     "},
	waiting:   {"## # ##", "#     #", "       ", "#     #", "       ", "#     #", "## # ##"},
	done:      {"#######", "#######", "#######", "#######", "#######", "#######", "#######"},
	cancelled: {"       ", "       ", "#######", "#######", "#######", "       ", "       "},
	standings: {"       ", "       ", "  ###  ", "  ###  ", "  ###  ", "       ", "       "},
}

// A cellMark says which shape of a picture means what, and of how many branches.
type cellMark struct {
	Class string
	Word  string
	Path  string // of SVG, in a square of dotSize
	N     int
}

// cellMarks returns the legend of the picture: the standings that are in it, the worst first.
//
// Unlike a tally it tells branches that have not begun from those that wait, as the picture does.
func (b *branches) cellMarks() (marks []cellMark) {
	var counts [standings + 1]int
	for _, s := range b.standing {
		counts[s]++
	}
	for s, n := range counts {
		if n == 0 {
			continue
		}
		m := cellMark{Class: standing(s).String(), Word: standing(s).String(), Path: dotPath(standing(s)), N: n}
		if standing(s) == standings {
			m.Class, m.Word = "none", "not begun"
		}
		marks = append(marks, m)
	}
	return marks
}

// dotPath returns the shape of a standing as a path of SVG.
//
// Each run of pixels in a line is a rectangle of its own, one pixel high.
func dotPath(s standing) string {
	var path strings.Builder
	for y, line := range dotShapes[s] {
		for x := 0; x < dotSize; x++ {
			n := len(line[x:]) - len(strings.TrimLeft(line[x:], "#"))
			if n > 0 {
				fmt.Fprintf(&path, "M%d %dh%dv1h-%dz", x, y, n, n)
				x += n
			}
		}
	}
	return path.String()
}

// paintCells returns the picture of the branches.
//
// Cells are in rows of dotColumns, each in the upper left corner of its square of dotPitch. The picture has room for whole rows.
func (b *branches) paintCells() *image.Paletted {
	width, height := cellsImage(len(b.standing))
	img := image.NewPaletted(image.Rect(0, 0, width, height), dotColors)
	// All is transparent at first: 0 would be the colour of failures.
	for i := range img.Pix {
		img.Pix[i] = uint8(standings + 1)
	}
	for i, s := range b.standing {
		x, y := i%dotColumns*dotPitch, i/dotColumns*dotPitch
		for dy, shape := range dotShapes[s] {
			line := img.Pix[(y+dy)*img.Stride+x:]
			for dx := range dotSize {
				if shape[dx] == '#' {
					line[dx] = uint8(s)
				}
			}
		}
	}
	return img
}

// digestCells returns a short text that is another one when the picture is.
//
// It is in the address of the picture. Two pictures with the same digest by chance would only show an old one for a while.
func (b *branches) digestCells() string {
	h := fnv.New64a()
	text := make([]byte, len(b.standing))
	for i, s := range b.standing {
		text[i] = byte(s)
	}
	_, _ = h.Write(text) // which never fails
	return strconv.FormatUint(h.Sum64(), 36)
}
