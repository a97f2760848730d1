package handler

import (
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/value"
)

// decodes holds the decoding of an input to what each of them promises: an
// error that says what is wrong, or something that is within its bounds.
func decodes(f *testing.F, seeds []string, read func(*testing.T, any) error) {
	f.Helper()
	for _, seed := range append(seeds, `null`, `[]`, `{}`, `{"url": null, "": 1}`) {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := value.Decode(data, value.Limits{})
		if err != nil {
			return
		}
		before := value.Encode(v)
		if err := read(t, v); err != nil {
			var failure pawl.TaskError
			require.True(t, errors.As(err, &failure))
			require.Equal(t, CodeInvalidInput, failure.Code)
			require.False(t, failure.Retryable)
			require.True(t, utf8.ValidString(failure.Message))
			require.True(t, strings.HasPrefix(failure.Message, "input: "))
			require.Less(t, len(failure.Message), 16<<10)
		}
		require.Equal(t, string(before), string(value.Encode(v)), "the input was changed")
	})
}

func FuzzTransformInput(f *testing.F) {
	decodes(f, []string{`{"expression": "data", "data": [1]}`, `{"expression": {"a": "1"}}`}, func(t *testing.T, v any) error {
		r, err := readTransform(v)
		if err == nil {
			require.LessOrEqual(t, len(r.expressions), maxExpressions)
		}
		return err
	})
}

func FuzzHTTPInput(f *testing.F) {
	decodes(f, []string{
		`{"url": "https://example.com/a?b#c", "method": "PUT", "headers": {"A": "b"}, "body": {"a": 1}, "query": {"q": 1.5}}`,
		`{"url": "http://[::1%25en0]:80", "timeout": "1s", "accept": [404, "5xx"], "text": true}`, `{"url": "http:a"}`, `{"url": "http://u@h"}`,
	}, func(t *testing.T, v any) error {
		r, err := readRequest(v, time.Minute)
		if err != nil {
			return err
		}
		require.NotEmpty(t, r.url.Hostname())
		require.Nil(t, r.url.User)
		require.Positive(t, r.timeout)
		require.LessOrEqual(t, r.timeout, time.Minute)
		h := &requester{options: HTTPOptions{Hosts: []string{"example.com"}}}
		if h.checkURL(r.url) == nil {
			require.Equal(t, "example.com", normalizedHost(r.url))
		}
		req, err := h.buildRequest(t.Context(), pawl.Task{EffectKey: "k"}, r)
		require.NoError(t, err)
		require.Equal(t, normalizedHost(r.url), normalizedHost(req.URL))
		return nil
	})
}

func FuzzExecInput(f *testing.F) {
	decodes(f, []string{
		`{"argv": ["ls", "-l"], "env": {"A": 1}, "stdin": {"a": [1]}, "accept": [1]}`, `{"argv": ["a\u0000"], "text": true, "stdin": "x"}`,
	}, func(t *testing.T, v any) error {
		h := &runner{options: ExecOptions{Timeout: time.Minute}}
		c, err := h.readCommand(v)
		if err != nil {
			return err
		}
		require.NotEmpty(t, c.argv)
		require.NotContains(t, strings.Join(c.argv, " ")+strings.Join(c.variableNames(), " "), "\x00")
		require.Error(t, h.checkProgram(c), "nothing is allowed")
		return nil
	})
}
