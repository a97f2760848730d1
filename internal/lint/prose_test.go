package lint

import (
	"fmt"
	"go/ast"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// plainModules are the modules in folders; all of their comments have been read.
var plainModules = []string{"nats", "nats/test", "pg", "pg/bench", "pawlsql", "pawlsql/test", "inspector/browsertest", "schedule/crontest", "examples/observe"}

// plainPages are the pages that have been read.
var plainPages = []string{
	"CHANGELOG.md", "CONTRIBUTING.md", "README.md", "SECURITY.md", "docs/*.md", "examples/README.md", "bench/NOTES.md",
	"internal/testing/harness/NOTES.md", "nats/README.md", "pg/README.md", "worker/protocol.md",
}

var (
	badStart = regexp.MustCompile(`^(What|Who|Whoever|Whatever|Of|Those|One that|One of which)\b`)
	badWords = regexp.MustCompile(`\b(of which|of whom|(for|by|to|with|from) who|is none|whose [a-z ]{1,30} it is)\b`)
	codeSpan = regexp.MustCompile("`[^`]*`")
	listItem = regexp.MustCompile(`^\s*(-|\*|\d+\.)\s`)
)

// A sentence is one of a comment or of a page, and begins at a line.
type sentence struct {
	line int
	text string
}

// TestProse holds the rule that a sentence has a noun as its subject and says who does what.
func TestProse(t *testing.T) {
	root := filepath.Join("..", "..")
	source := loadModule(t)
	for _, p := range source.packages {
		for _, f := range append(p.files, p.tests...) {
			reportProse(t, f.path, sentencesOfComments(source, f))
		}
	}
	for _, folder := range plainModules {
		module := loadFolder(t, folder)
		require.NotEmpty(t, module.packages, "%s is gone: take it off plainModules", folder)
		for _, p := range module.packages {
			for _, f := range append(p.files, p.tests...) {
				reportProse(t, path.Join(folder, f.path), sentencesOfComments(module, f))
			}
		}
	}
	for _, pattern := range plainPages {
		pages, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pattern)))
		require.NoError(t, err)
		require.NotEmpty(t, pages, "%s is gone: take it off plainPages", pattern)
		for _, page := range pages {
			text, err := os.ReadFile(page)
			require.NoError(t, err)
			reportProse(t, page, sentencesOfPage(string(text)))
		}
	}
}

func reportProse(t *testing.T, path string, sentences []sentence) {
	t.Helper()
	for _, s := range sentences {
		if isUnclear(s.text) {
			t.Errorf("%s:%d: prose: begin with a noun, and say who does what: %s", path, s.line, s.text)
		}
	}
}

// isUnclear reports whether a sentence has a relative clause in the place of a noun. A question and a span of code may have one.
func isUnclear(text string) bool {
	text = codeSpan.ReplaceAllString(text, "``")
	return !strings.HasSuffix(text, "?") && (badStart.MatchString(strings.TrimLeft(text, "*_(\"")) || badWords.MatchString(text))
}

// sentencesOfComments returns the sentences of all comments of a file, but for a first one that begins with the name of its function.
func sentencesOfComments(t *tree, f *file) (out []sentence) {
	names := map[*ast.CommentGroup]string{}
	for _, decl := range f.Decls {
		if d, ok := decl.(*ast.FuncDecl); ok && d.Doc != nil {
			names[d.Doc] = d.Name.Name
		}
	}
	for _, g := range f.Comments {
		var lines []string
		for _, c := range g.List {
			lines = append(lines, strings.TrimPrefix(strings.TrimPrefix(c.Text, "//"), " "))
		}
		found := splitProse(lines, t.fset.Position(g.Pos()).Line)
		if name := names[g]; name != "" && len(found) > 0 && startsWith(found[0].text, name) {
			found = found[1:]
		}
		out = append(out, found...)
	}
	return out
}

// sentencesOfPage returns the sentences of a page, without its blocks of code. A cell of a table is a text of its own.
func sentencesOfPage(page string) (out []sentence) {
	var lines []string
	first, inCode := 1, false
	flush := func(next int) {
		out = append(out, splitProse(lines, first)...)
		lines, first = nil, next
	}
	for i, line := range strings.Split(page, "\n") {
		n := i + 1
		switch {
		case strings.HasPrefix(strings.TrimSpace(line), "```"):
			inCode = !inCode
			flush(n + 1)
		case inCode:
			first = n + 1
		case strings.HasPrefix(line, "#"): // a heading is no sentence
			flush(n + 1)
		case strings.HasPrefix(line, "|"):
			flush(n)
			for cell := range strings.SplitSeq(line, "|") {
				out = append(out, splitProse([]string{strings.TrimSpace(cell)}, n)...)
			}
			first = n + 1
		default:
			lines = append(lines, line)
		}
	}
	flush(0)
	return out
}

// splitProse returns the sentences of some lines. A paragraph ends at an empty line and where an item of a list begins;
// other lines that are indented are code, unless they go on with an item.
func splitProse(lines []string, first int) (out []sentence) {
	var open sentence
	end := func() {
		if open.text != "" {
			out = append(out, open)
		}
		open = sentence{}
	}
	inItem := false
	for i, line := range lines {
		item := listItem.FindString(line)
		indented := strings.TrimLeft(line, " \t") != line
		switch {
		case strings.TrimSpace(line) == "" || item != "" || indented && !inItem:
			end()
			inItem = item != ""
		case !indented && inItem:
			end()
			inItem = false
		}
		if indented && !inItem {
			continue
		}
		for word := range strings.FieldsSeq(line[len(item):]) {
			if endsSentence(open.text) && strings.ContainsAny(word[:1], "ABCDEFGHIJKLMNOPQRSTUVWXYZ`[*_(\"") {
				end()
			}
			if open.text == "" {
				open.line = first + i
			}
			open.text = strings.TrimLeft(open.text+" "+word, " ")
		}
	}
	end()
	return out
}

// endsSentence reports whether a text ends as a sentence does; a colon and a semicolon count.
func endsSentence(text string) bool {
	text = strings.TrimRight(text, ")\"*_`")
	return text != "" && strings.ContainsAny(text[len(text)-1:], ".!?:;")
}

// The rule finds each form that it names, says the line at which the sentence begins, and lets others pass.
func TestProseRule(t *testing.T) {
	dir := t.TempDir()
	text := "// Package m has words. What begins here is refused.\npackage m\n\n" +
		"// Of returns a number. Of two numbers the larger\n// one counts: Those of others do not.\n//\n//\tWhat is code stays\n//\n" +
		"//   - One that is in a list\n//     is refused, and goes on. Whoever reads it?\n//   - A number,\n//     of which there are two.\n" +
		"//\n// A text, whose turn it is.\nfunc Of() int { return 0 } // it is none\n\nvar who int // for who waits\n\nconst s = \"// What is a string stays\"\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "m.go"), []byte(text), 0o600))
	source, err := load(dir)
	require.NoError(t, err)
	require.Equal(t, []string{
		"1 What begins here is refused.",
		"4 Of two numbers the larger one counts:",
		"5 Those of others do not.",
		"9 One that is in a list is refused, and goes on.",
		"11 A number, of which there are two.",
		"14 A text, whose turn it is.",
		"15 it is none",
		"17 for who waits",
	}, unclear(sentencesOfComments(source, source.find(".").files[0])))

	page := "# Who does what\n\nA page. **What** is said\nhere is refused.\n\n```sh\nWhat is code stays\n```\n\n" +
		"| a cell | Those in a cell |\n|---|---|\n\n1. Whatever is in a list\n2. What stays: a question?\n3. `Of which` is code.\n"
	require.Equal(t, []string{"3 **What** is said here is refused.", "10 Those in a cell", "13 Whatever is in a list"},
		unclear(sentencesOfPage(page)))
}

func unclear(sentences []sentence) (out []string) {
	for _, s := range sentences {
		if isUnclear(s.text) {
			out = append(out, fmt.Sprintf("%d %s", s.line, s.text))
		}
	}
	return out
}
