package main

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	shellBlock = regexp.MustCompile("(?s)\n```sh\n(.*?\n)```\n") // a block of a page with lines for a shell
	prompted   = regexp.MustCompile(`(?m)^\$ (pawl .*)$`)        // a line behind a prompt
	inText     = regexp.MustCompile("`(pawl [a-z]+ [^`\n]+)`")   // a command with arguments in a sentence or a table
	anyBlock   = regexp.MustCompile("(?m)^```(?s:.*?)\n```$")    // where sentences are not
)

// Every command of pawl on the pages, in blocks for a shell, behind a prompt and in sentences, has flags and arguments
// that the program knows.
func TestCommandsOfPages(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*.md")
	require.NoError(t, err)
	commands := 0
	for _, page := range append(pages, "../../README.md", "../../SECURITY.md") {
		data, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, line := range linesOfPage(string(data)) {
			if words := commandWords(line); len(words) > 0 {
				commands++
				assert.NoError(t, parseCommand(words), "%s: %s", page, line)
			}
		}
	}
	require.Greater(t, commands, 90)
	require.Error(t, parseCommand(commandWords("pawl retry --cod x")))
	require.Error(t, parseCommand(commandWords("pawl retri x")))
}

// linesOfPage returns the lines of a page that may be commands.
func linesOfPage(text string) (lines []string) {
	for _, block := range shellBlock.FindAllStringSubmatch(text, -1) {
		lines = slices.AppendSeq(lines, strings.Lines(strings.ReplaceAll(block[1], "\\\n", " ")))
	}
	for _, m := range prompted.FindAllStringSubmatch(text, -1) {
		lines = append(lines, m[1])
	}
	for _, m := range inText.FindAllStringSubmatch(anyBlock.ReplaceAllString(text, ""), -1) {
		lines = append(lines, m[1])
	}
	return lines
}

// parseCommand parses a command line, and does nothing of what it says.
func parseCommand(words []string) error {
	parser, err := (&console{Out: io.Discard, Errs: io.Discard}).newParser(func(int) {}, words...)
	if err != nil {
		return err
	}
	_, err = parser.Parse(words)
	return err
}

// commandWords returns the words behind pawl of a line for a shell, up to the first operator; none if the line runs
// something else.
func commandWords(line string) []string {
	var words []string
	var word strings.Builder
	quote, begun := rune(0), false
	end := func() {
		if begun {
			words = append(words, word.String())
		}
		word.Reset()
		begun = false
	}
loop:
	for _, c := range strings.TrimSpace(line) {
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(c)
		case c == '\'' || c == '"':
			quote, begun = c, true
		case c == ' ':
			end()
		case strings.ContainsRune("#|>&;<", c) && !begun:
			break loop
		default:
			begun = true
			word.WriteRune(c)
		}
	}
	end()
	if len(words) < 2 || words[0] != "pawl" {
		return nil
	}
	return words[1:]
}
