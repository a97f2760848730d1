package api

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"iter"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-run/pawl/internal/crowd"
)

const (
	typeJSON   = "application/json"
	typeLines  = "application/x-ndjson"
	typeStream = "text/event-stream"

	readTime  = 30 * time.Second // for a body
	writeTime = time.Minute      // for an answer, and for each part of a stream
)

// encodeJSON returns a value as one line, with its line feed.
func encodeJSON(v any) ([]byte, error) {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false) // it is never put into a page as it is
	err := e.Encode(v)
	return text.Bytes(), err
}

// reply answers a request.
func (c *call) reply(v any) error { return c.replyStatus(http.StatusOK, v) }

func (c *call) replyStatus(status int, v any) error {
	text, err := encodeJSON(v)
	if err != nil {
		return err
	}
	writeBody(c.w, status, typeJSON, text)
	return nil
}

// replyTagged answers about a run with a tag of what it says. A caller who has it already gets
// status 304. The tag is a hash of the body, so it needs no version of the run, is right for
// what each caller sees (rights and Redact change the body), and survives a restart. It saves
// sending, not reading: the run is read before the tag is known. A PUT is always answered in
// full, since its status says whether a run was made.
func (c *call) replyTagged(status int, v any) error {
	text, err := encodeJSON(v)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(text)
	tag := `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`
	c.w.Header().Set("ETag", tag)
	if c.r.Method != http.MethodPut && c.hasTag(tag) {
		c.w.WriteHeader(http.StatusNotModified)
		return nil
	}
	writeBody(c.w, status, typeJSON, text)
	return nil
}

// hasTag reports whether the caller has an answer already. A proxy that packs answers weakens their tags.
func (c *call) hasTag(tag string) bool {
	for _, line := range c.r.Header.Values("If-None-Match") {
		for one := range strings.SplitSeq(line, ",") {
			if strings.TrimPrefix(strings.TrimSpace(one), "W/") == tag {
				return true
			}
		}
	}
	return false
}

// writeBody writes an answer with its status and its headers. All answers but streams, lines and
// exports go through it, whole, with their length: a caller sees a broken connection as an answer
// that is too short.
func writeBody(w http.ResponseWriter, status int, kind string, text []byte) {
	setHeaders(w, kind)
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	setWriteTimeout(w)
	w.WriteHeader(status)
	_, _ = w.Write(text) // who is gone asks again
}

// setHeaders sets the headers that every answer has, whatever its type. no-store keeps the values
// of runs out of caches on the way; Vary is there because one path answers JSON, lines or a stream
// by Accept.
func setHeaders(w http.ResponseWriter, kind string) {
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	h.Set("Vary", "Accept")
}

// setWriteTimeout bounds how long what is written next may take. A host's server may not have it.
// It is set again before each part of a stream: a caller who reads slowly but steadily is served,
// and one who has stopped reading does not hold a place for ever.
func setWriteTimeout(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTime))
}

// endAnswer sends what is written, and leaves no bound to what comes next on the connection.
// Without it the deadline of this answer would cut the next request off that comes over the same
// connection.
func endAnswer(w http.ResponseWriter) {
	c := http.NewResponseController(w)
	_ = c.Flush()
	_ = c.SetWriteDeadline(time.Time{})
}

// An errorReply is the body of a refusal.
type errorReply struct {
	Error  *Error      `json:"error"`
	Batch  *Batch      `json:"batch,omitzero"`  // what was done until then, of a batch that the error has ended
	Tokens *TokenBatch `json:"tokens,omitzero"` // likewise of one of what waits for people
}

// writeError answers with an error. Nothing may have been written before: a serve function that has
// begun its answer tells the error in it and returns nil. With 503 it says to come back in a
// second, as what is busy or closing usually passes.
func writeError(w http.ResponseWriter, err error) {
	e := errorOf(err)
	text, _ := encodeJSON(errorReply{e, e.batch, e.tokens}) // texts and numbers
	switch {
	case e.Code == "busy": // to be repeated by programs; of others it is not known what has been done
		w.Header().Set("Retry-After", crowd.RetryAfter)
	case e.Code == codeTooFast:
		if fast := (*crowd.TooFastError)(nil); errors.As(err, &fast) {
			w.Header().Set("Retry-After", strconv.FormatInt(fast.Seconds, 10))
		}
	case e.Status == http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", `Bearer realm="pawl"`)
	}
	writeBody(w, e.Status, typeJSON, text)
}

// acceptsType reports whether the caller asks for a type of answer. The type must be named: */*
// means JSON, which a browser or curl gets. Weights such as q=0.5 are not compared.
func (c *call) acceptsType(kind string) bool {
	for _, accept := range c.r.Header.Values("Accept") {
		for one := range strings.SplitSeq(accept, ",") {
			if media, _, err := mime.ParseMediaType(one); err == nil && media == kind {
				return true
			}
		}
	}
	return false
}

// replyLines answers with a list, one entry a line. An error that comes when something was written
// is its last line. The list is read while it is sent and is never in memory as a whole. The status
// is 200 once the first line is out, so a later error can only be a line; decodeLine of the Client
// knows it by its first bytes. An error before that is returned, and answered with its own status.
func (c *call) replyLines(list iter.Seq2[any, error]) error {
	begun := false
	for x, err := range list {
		var text []byte
		if err == nil {
			text, err = encodeJSON(x)
		}
		if err != nil && !begun {
			return err
		}
		if err != nil {
			text, _ = encodeJSON(errorReply{Error: errorOf(err)})
		}
		if !begun {
			begun = true
			setHeaders(c.w, typeLines)
		}
		setWriteTimeout(c.w)
		if _, gone := c.w.Write(text); gone != nil || err != nil {
			return nil
		}
	}
	if !begun {
		writeBody(c.w, http.StatusOK, typeLines, nil)
	}
	return nil
}

// mapList returns a list with each entry as it is shown. It ends after an error, even if the reader
// goes on.
func mapList[T any](list iter.Seq2[T, error], show func(*T) any) iter.Seq2[any, error] {
	return func(yield func(any, error) bool) {
		for x, err := range list {
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(show(&x), nil) {
				return
			}
		}
	}
}

// keepEntries leaves out entries of a list. It is how a page begins behind its cursor in a list
// that the engine gives from the beginning. Errors always pass.
func keepEntries[T any](list iter.Seq2[T, error], keep func(*T) bool) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for x, err := range list {
			if (err != nil || keep(&x)) && !yield(x, err) {
				return
			}
		}
	}
}

// firstEntries returns the entries of a list up to the first that does not belong to it. For lists
// in sequence that are read as of a record: nothing behind it is looked at, where keepEntries would
// read the list to its end.
func firstEntries[T any](list iter.Seq2[T, error], belongs func(*T) bool) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for x, err := range list {
			if err == nil && !belongs(&x) || !yield(x, err) {
				return
			}
		}
	}
}

// readPage returns at most limit entries of a list, and whether there are more. One entry more than
// the limit is asked for, and dropped: it alone says whether there is a next page, so that no
// cursor leads to an empty one. An error comes with what was found before it.
func readPage[T any](list iter.Seq2[T, error], limit int) (page []T, more bool, err error) {
	page = []T{} // an empty list is [] in JSON
	for x, err := range list {
		if err != nil {
			return page, false, err
		}
		if len(page) == limit {
			return page, true, nil
		}
		page = append(page, x)
	}
	return page, false, nil
}
