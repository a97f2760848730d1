package browsertest

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"flag"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

var pictures = flag.String("browser.pictures", "", "make the pictures of the documents anew, in this `folder`")

// openExample starts examples/inspector, and returns the address of its pages. It ends with the test.
func openExample(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "shop")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./examples/inspector")
	build.Dir = filepath.Join("..", "..")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	ctx, cancel := context.WithCancel(context.Background())
	shop := exec.CommandContext(ctx, program, "-address", "127.0.0.1:0")
	shop.Cancel = func() error { return shop.Process.Signal(os.Interrupt) } // which throws its directory away
	lines, err := shop.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, shop.Start())
	t.Cleanup(func() {
		cancel()
		_ = shop.Wait() // that it was interrupted
	})
	said := bufio.NewScanner(lines)
	for said.Scan() {
		if m := regexp.MustCompile(`http://\S+`).FindString(said.Text()); m != "" {
			return m
		}
	}
	require.Fail(t, "the shop does not open")
	return ""
}

// awaitLong waits some minutes for what takes its time in the example.
func (p *tab) awaitLong(expression string) {
	p.t.Helper()
	for range 20 {
		if evaluate[bool](p, `new Promise(done => { const end = performance.now() + 20000, look = () => `+expression+` ? done(true) : performance.now() > end ? done(false) : setTimeout(look, 200); look() })`) {
			return
		}
	}
	require.Fail(p.t, "it does not come", expression)
}

// keepPicture writes what the window shows as a PNG of at most 256 colours, which is a third as large.
func (p *tab) keepPicture(name string, width, height int64) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	p.do(chromedp.EmulateViewport(width, height))
	p.await(fmt.Sprintf("innerHeight === %d && document.fonts.status === 'loaded'", height))
	text, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	require.NoError(p.t, err)
	from, err := png.Decode(bytes.NewReader(text))
	require.NoError(p.t, err)
	var out bytes.Buffer
	require.NoError(p.t, (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, fewColors(from)))
	require.Less(p.t, out.Len(), 120_000, name)
	require.NoError(p.t, os.WriteFile(filepath.Join(*pictures, name+".png"), out.Bytes(), 0o600))
}

// fewColors returns a picture with its 256 most frequent colours; each other colour becomes the nearest of
// these.
func fewColors(from image.Image) *image.Paletted {
	counts := map[color.RGBA]int{}
	bounds := from.Bounds()
	at := func(x, y int) color.RGBA { return color.RGBAModel.Convert(from.At(x, y)).(color.RGBA) }
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			counts[at(x, y)]++
		}
	}
	often := slices.SortedFunc(maps.Keys(counts), func(a, b color.RGBA) int { return cmp.Compare(counts[b], counts[a]) })
	palette := color.Palette{}
	for _, c := range often[:min(len(often), 256)] {
		palette = append(palette, c)
	}
	nearest := map[color.RGBA]uint8{}
	for c := range counts {
		nearest[c] = uint8(palette.Index(c))
	}
	out := image.NewPaletted(bounds, palette)
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			out.SetColorIndex(x, y, nearest[at(x, y)])
		}
	}
	return out
}

// TestPictures makes the pictures that README.md and docs/inspector.md show, of examples/inspector when it has traded for two minutes.
func TestPictures(t *testing.T) {
	if *pictures == "" {
		t.Skip("-browser.pictures names no folder")
	}
	root := openExample(t)
	browser := openBrowser(t)
	p := openTab(t, browser, view{width: 1100})
	dark := openTab(t, browser, view{width: 1100, dark: true})
	p.open(root)
	p.awaitLong(`Number(document.querySelector('a[href$="#letters"] b, a[href$="#letters"]').textContent.replace(/\D/g, "")) >= 2`)
	p.open(root + "run/import-2")
	p.awaitLong(`Number(document.getElementById("as-of").textContent.replace(/\D/g, "")) >= 300`)
	p.open(root + "run/import-2?at=220")
	p.keepPicture("inspector-run", 1100, 1340)
	p.open(root + "run/import-2?view=group&group=1")
	p.keepPicture("inspector-group", 1100, 700)
	dark.open(root)
	dark.keepPicture("inspector-home", 1100, 640)
	p.open(root)
	p.do(chromedp.Evaluate[chromedp.Void](`location.href = document.querySelector('a[href*="do=approve"]').href; void 0`))
	p.awaitLong(`location.pathname.endsWith("/act") && document.readyState === "complete"`)
	p.keepPicture("inspector-act", 1100, 940)
	p.open(root + "definitions?workflow=order")
	for range 20 { // it is not live
		if evaluate[bool](p, `document.getElementById("picture").textContent.includes("last 25 runs")`) {
			break
		}
		p.do(chromedp.Evaluate[chromedp.Void](`new Promise(done => setTimeout(done, 10000))`, chromedp.EvalAwaitPromise))
		p.open(root + "definitions?workflow=order")
	}
	p.keepPicture("inspector-definition", 1100, 900)
	phone := openTab(t, browser, view{width: 360, dark: true})
	phone.open(root + "inbox")
	phone.keepPicture("inspector-phone", 360, 740)
}
