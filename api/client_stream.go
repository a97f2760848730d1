package api

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
)

// listLines yields the lines of the answer to a question. Each use of the list sends the question
// anew. Breaking out of the loop closes the body, which ends the answer at the server.
func listLines[T any](ctx context.Context, c *Client, q *question) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		q.accept = typeLines
		a, err := c.send(ctx, q)
		if err != nil {
			yield(none, err)
			return
		}
		defer func() { _ = a.Body.Close() }() // there is no more to read
		for d := json.NewDecoder(a.Body); ; {
			var line json.RawMessage
			err := d.Decode(&line)
			if errors.Is(err, io.EOF) {
				return
			}
			var x T
			if err == nil {
				x, err = decodeLine[T](line)
			}
			if !yield(x, err) || err != nil {
				return
			}
		}
	}
}

// decodeLine decodes an entry of a list, or the error that has ended it. The prefix is what
// encodeJSON makes of an errorReply, whose Status comes first: an entry that has a field called
// error of its own, as some have, does not begin so.
func decodeLine[T any](text []byte) (x T, err error) {
	var refused errorReply
	if bytes.HasPrefix(text, []byte(`{"error":{"status":`)) && json.Unmarshal(text, &refused) == nil && refused.Error != nil {
		return x, refused.Error
	}
	err = json.Unmarshal(text, &x)
	return x, err
}

// listStream yields the messages of a stream, until it says that it has ended. It reads the part of
// server-sent events that eventText writes: comments are skipped, an event called failed carries an
// errorReply, and end is the only good ending. A stream that just stops is an error, so that nobody
// takes a broken connection for the end of a run.
func listStream[T any](ctx context.Context, c *Client, q *question) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		q.accept = typeStream
		a, err := c.send(ctx, q)
		if err != nil {
			yield(none, err)
			return
		}
		defer func() { _ = a.Body.Close() }() // there is no more to read
		name := ""
		for lines := bufio.NewReader(a.Body); ; {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				yield(none, streamError(ctx, err))
				return
			}
			field, text, _ := bytes.Cut(bytes.TrimSuffix(line, []byte("\n")), []byte(": "))
			switch {
			case len(line) == 1:
				name = ""
			case string(field) == "event":
				name = string(text)
			case string(field) == "data" && name == "end":
				return
			case string(field) == "data":
				x, err := decodeLine[T](text)
				if !yield(x, err) || err != nil {
					return
				}
			}
		}
	}
}

// streamError says why a stream broke.
func streamError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("the stream of the engine broke: %w", err)
}
