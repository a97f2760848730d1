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
type madeFrame struct {
	text  []byte
	last  bool // nothing will change any more
	stale bool // something in it is of an earlier record
	cost  time.Duration
}

// makeFrame makes a page and returns its main part, and how long that has used a processor.
func (s *server) makeFrame(ctx context.Context, key hubKey) (made madeFrame, err error) {
	cost := measureWork(func() { made, err = s.frameOf(ctx, key) })
	made.cost = cost
	return made, err
}

func (s *server) frameOf(ctx context.Context, key hubKey) (made madeFrame, err error) {
	u, err := url.Parse("/" + key.address)
	if err != nil {
		return made, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "/", nil)
	if err != nil {
		return made, err
	}
	r.URL = u
	w := &pageWriter{header: http.Header{}}
	p := s.newPage(w, r)
	p.rights, p.framed = key.rights, true
	path := strings.TrimPrefix(u.Path, "/")
	head, rest, _ := strings.Cut(path, "/")
	if err := s.routePage(p, head, rest); err != nil {
		return made, err
	}
	page := w.body.String()
	_, main, ok := strings.Cut(page, "<main id=\"main\">")
	end := strings.LastIndex(main, "</main>")
	if !ok || end < 0 || !p.streams {
		return made, errNoPage
	}
	made.stale = p.stale
	made.last = !p.live && !p.stale
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
