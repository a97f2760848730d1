package inspector

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// A frame of a stream is the main part of a page as it is now.
type frameData struct {
	Seq   int64  `json:"seq,omitzero"` // of the run in view
	HTML  string `json:"html"`
	Title string `json:"title"`
	Ended bool   `json:"ended,omitzero"` // nothing will change any more
}

// A madeFrame is the main part of a page as an event of a stream.
//
// cost is of a processor, without waiting.
type madeFrame struct {
	text  []byte
	last  bool // nothing will change any more
	stale bool // something in it is of an earlier record
	cost  time.Duration
}

// makeFrame makes a page and returns its main part, and how long that has used a processor.
//
// runHub charges the cost to the budget of the page.
func (s *server) makeFrame(ctx context.Context, key hubKey) (made madeFrame, err error) {
	cost := measureWork(func() { made, err = s.frameOf(ctx, key) })
	made.cost = cost
	return made, err
}

// frameOf makes the page as a reader with these rights would get it, and cuts its main part out: so a frame can never differ from the page
// that is loaded. It fails for a page that cannot be watched, which ends the hub.
func (s *server) frameOf(ctx context.Context, key hubKey) (made madeFrame, err error) {
	u, err := url.Parse("/" + key.address)
	if err != nil {
		return made, err
	}
	// The address is set afterwards: parsed from text it might be taken for a host.
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "/", nil)
	if err != nil {
		return made, err
	}
	r.URL = u
	w := &pageWriter{header: http.Header{}}
	// Identify is not asked again: joinHub has taken the rights from a caller that was checked.
	p := s.newPage(w, r)
	p.rights, p.redacted, p.framed = key.rights, key.redacted, true
	defer p.leaveWhole()
	path := strings.TrimPrefix(u.Path, "/")
	head, rest, _ := strings.Cut(path, "/")
	if err := s.routePage(p, head, rest); err != nil {
		return made, err
	}
	// The frame has the main part of the page only: the browser keeps the rest as it is.
	page := w.body.String()
	_, main, ok := strings.Cut(page, "<main id=\"main\">")
	end := strings.LastIndex(main, "</main>")
	if !ok || end < 0 || !p.streams {
		return made, errNoPage
	}
	// It is the last one only if all in it is of the last record.
	made.stale = p.stale
	made.last = !p.live && !p.stale
	// JSON has no line breaks outside of strings and escapes those within, so the frame is one line of the event.
	text := bytes.NewBuffer(make([]byte, 0, len(main)+len(main)/8))
	fmt.Fprintf(text, "event: frame\nid: %d\ndata: ", p.seq)
	e := json.NewEncoder(text)
	e.SetEscapeHTML(false) // it is no part of a page
	if err := e.Encode(frameData{Seq: p.seq, HTML: main[:end], Title: p.title, Ended: made.last}); err != nil {
		return made, err
	}
	text.WriteByte('\n')
	made.text = text.Bytes()
	return made, nil
}

// A pageWriter keeps a page that nobody has asked for over HTTP.
//
// Its status is not kept: frameOf looks for the main part and whether the page can be watched.
type pageWriter struct {
	header http.Header
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (w *pageWriter) Header() http.Header { return w.header }

// Write implements http.ResponseWriter.
func (w *pageWriter) Write(text []byte) (int, error) { return w.body.Write(text) }

// WriteHeader implements http.ResponseWriter.
func (w *pageWriter) WriteHeader(int) {}
