package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/internal/acts"
)

// Every command has a sentence of help and an example, and the parser takes the example.
func TestVerbsHaveExamples(t *testing.T) {
	for _, v := range verbs() {
		assert.True(t, strings.HasSuffix(v.help, "."), v.name)
		if v.hidden {
			continue
		}
		require.NotEmpty(t, v.example, v.name)
		for _, line := range v.example {
			_, line, ok := strings.Cut(line, "pawl ")
			require.True(t, ok, v.name)
			line, _, _ = strings.Cut(line, "#")
			line, _, _ = strings.Cut(line, " > ")
			if v.name == "completion" {
				line, _, _ = strings.Cut(line, ")")
			}
			line, _, _ = strings.Cut(line, " && pawl ")
			con := &console{Out: io.Discard, Errs: io.Discard}
			parser, err := con.newParser(func(int) {})
			require.NoError(t, err)
			words := wordsOf(t, line)
			_, err = parser.Parse(words)
			assert.NoError(t, err, line)
			for i, word := range words {
				if at := strings.IndexAny(word, "{[\""); at >= 0 && words[max(i-1, 0)] != "--where" {
					assert.True(t, json.Valid([]byte(word[at:])), "%s: a shell makes %s of it", line, word)
				}
				if i > 0 && words[i-1] == "--where" {
					assert.NoError(t, acts.CheckWhere(word), line)
				}
			}
		}
	}
}

// wordsOf returns the words of a line as a shell finds them; between blanks, where there is no shell.
func wordsOf(t *testing.T, line string) []string {
	t.Helper()
	if _, err := exec.LookPath("sh"); err != nil {
		return strings.Fields(line)
	}
	out, err := exec.CommandContext(t.Context(), "sh", "-fc", `printf '%s\n' `+line).CombinedOutput()
	require.NoError(t, err, "%s: %s", line, out)
	return strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
}

// A text that an engine keeps is refused if it is no UTF-8, and not changed.
func TestTextsAreUTF8(t *testing.T) {
	e, dir := startWaiting(t, pawl.Options{Socket: api.Local})
	defer func() { require.NoError(t, e.Close(t.Context())) }()
	for _, args := range [][]string{
		{"pause", "r-1", "-m", "\xff"}, {"pause", "r-1", "-m", "x", "--by", "\xff"}, {"start", "wait", "--label", "a=\xff"}, {"start", "wait", "--label", "\xff=a"}, {"start", "wait", "--tenant", "\xff"},
		{"start", "wait", "--id", "\xff"}, {"signal", "r-1", "go", "-m", "x", "--payload", "\"\xff\""}, {"fork", "r-1", "\xff", "-m", "x"},
		{"import", "r-1.pawl", "\xff", "-m", "x"}, {"signal", "r-1", "\xff", "-m", "x"},
	} {
		var errs strings.Builder
		con := &console{In: strings.NewReader(""), Out: io.Discard, Errs: &errs, Now: time.Now}
		require.Equal(t, exitUnusable, con.runArguments(t.Context(), append(args, "--dir", dir)), args)
		require.Contains(t, errs.String(), ": it is no UTF-8 (see pawl ", args)
	}
}

// A process whose user has no name, as in many containers, acts by its number.
func TestUserWithoutName(t *testing.T) {
	number := fmt.Sprintf("uid %d", os.Getuid())
	require.Equal(t, number, userText(nil, user.UnknownUserIdError(os.Getuid())))
	require.Equal(t, number, userText(&user.User{}, nil))
	require.Equal(t, "ann", userText(&user.User{Username: "ann"}, nil))
	require.Equal(t, "bob", userName("bob"))
}

// Every kind of error has the exit status that the help promises, wrapped or not.
func TestStatusOf(t *testing.T) {
	for err, want := range map[error]int{
		nil: exitDone, errNo: exitNo, errFiles: exitUnusable, errors.New("any"): exitUnusable,
		fs.ErrNotExist: exitNotFound, pawl.ErrRunNotFound: exitNotFound,
		pawl.ErrLocked: exitNoEngine, fs.ErrPermission: exitNoEngine,
		pawl.ErrEnded: exitRefused, pawl.ErrConflict: exitRefused,
	} {
		assert.Equal(t, want, statusOf(err), "%v", err)
		if err != nil {
			assert.Equal(t, want, statusOf(fmt.Errorf("doing something: %w", err)), "%v", err)
		}
	}
	said := map[int]bool{}
	for _, s := range statusTexts {
		said[s.status] = true
	}
	for _, s := range statuses {
		assert.True(t, said[s.status], "the help lacks %d", s.status)
	}
}
