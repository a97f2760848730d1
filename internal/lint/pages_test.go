package lint

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	link      = regexp.MustCompile(`\]\(([^)#:]*)(#[^)]*)?\)`) // to a file of the repository, or a heading of it
	named     = regexp.MustCompile("`((?:Test|Fuzz)[A-Z][A-Za-z0-9]*)`")
	testFunc  = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)[A-Za-z0-9]*)\(`)
	failpoint = regexp.MustCompile(`[hH]ook\.Hit\("([a-z.]+)"\)`)
)

// Files, tests and failpoints that the documents name are there; and every
// failpoint is named.
func TestPages(t *testing.T) {
	root := filepath.Join("..", "..")
	tests, points, pages := map[string]bool{}, map[string]bool{}, map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && strings.HasPrefix(d.Name(), "."):
			return fs.SkipDir
		case filepath.Ext(path) != ".go" && filepath.Ext(path) != ".md":
			return nil
		}
		data, err := os.ReadFile(path)
		switch {
		case filepath.Ext(path) == ".md":
			pages[path] = string(data)
		case strings.HasSuffix(path, "_test.go"):
			for _, m := range testFunc.FindAllStringSubmatch(string(data), -1) {
				tests[m[1]] = true
			}
		default:
			for _, m := range failpoint.FindAllStringSubmatch(string(data), -1) {
				points[m[1]] = true
			}
		}
		return err
	})
	require.NoError(t, err)
	require.Greater(t, len(points), 50)
	for path, text := range pages {
		for _, m := range link.FindAllStringSubmatch(goBlock.ReplaceAllString(text, "\n"), -1) { // in Go a generic call looks like one
			target := path
			if m[1] != "" {
				target = filepath.Join(filepath.Dir(path), m[1])
			}
			_, err := os.Stat(target)
			require.NoError(t, err, "%s: a link", path)
			if page, ok := pages[target]; ok && m[2] != "" {
				assert.Contains(t, anchors(page), m[2], "%s: %s has no such heading", path, target)
			}
		}
		for _, m := range named.FindAllStringSubmatch(text, -1) {
			require.True(t, tests[m[1]], "%s: there is no %s", path, m[1])
		}
	}
	harness := pages[filepath.Join(root, "internal", "testing", "harness", "NOTES.md")]
	for point := range points {
		require.True(t, strings.Contains(harness, "`"+point+"`"), "internal/testing/harness/NOTES.md does not name the failpoint %s", point)
	}
}

var (
	fence    = regexp.MustCompile("(?m)^```(?s:.*?)\n```")
	heading  = regexp.MustCompile(`(?m)^#+ (.*)$`)
	inLink   = regexp.MustCompile(`\[([^]]*)\]\([^)]*\)`)
	noAnchor = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// anchors returns the fragments by which links reach the headings of a page.
func anchors(page string) (out []string) {
	times := map[string]int{}
	for _, m := range heading.FindAllStringSubmatch(fence.ReplaceAllString(page, ""), -1) {
		text := noAnchor.ReplaceAllString(strings.ToLower(inLink.ReplaceAllString(m[1], "$1")), "")
		anchor := "#" + strings.ReplaceAll(text, " ", "-")
		if n := times[anchor]; n > 0 {
			out = append(out, anchor+"-"+strconv.Itoa(n))
		} else {
			out = append(out, anchor)
		}
		times[anchor]++
	}
	return out
}

// TestNamedFiles checks that the Go files named in the documents exist, by their
// paths from the root of the repository.
func TestNamedFiles(t *testing.T) {
	root := filepath.Join("..", "..")
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	require.NoError(t, err)
	file := regexp.MustCompile("`([A-Za-z0-9_./]+\\.go)`")
	found := 0
	pages = slices.DeleteFunc(pages, func(page string) bool { return filepath.Base(page) == "tutorial.md" }) // its reader writes them
	for _, page := range append(pages, filepath.Join(root, "README.md"), filepath.Join(root, "CONTRIBUTING.md")) {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, m := range file.FindAllStringSubmatch(string(text), -1) {
			found++
			_, err := os.Stat(filepath.Join(root, filepath.FromSlash(m[1])))
			require.NoError(t, err, "%s names a file", page)
		}
	}
	require.Greater(t, found, 12)
}
