package handler

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-run/pawl/internal/value"
)

// A request is the input of HTTP.
type request struct {
	method      string
	url         *url.URL
	headers     map[string]string
	body        []byte // nil without one
	contentType string // of the body, unless headers say otherwise
	timeout     time.Duration
	accept      map[string]bool // statuses, and classes such as 4xx
	text        bool
}

// String returns method and place, for messages.
func (r *request) String() string { return r.method + " " + place(r.url) }

// accepts reports whether a status is no failure.
func (r *request) accepts(status int) bool {
	return r.accept[strconv.Itoa(status)] || r.accept[strconv.Itoa(status/100)+"xx"]
}

var methods = []string{
	http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions,
}

func readRequest(v any, most time.Duration) (*request, error) {
	in := readInput(v, "method", "url", "query", "headers", "body", "timeout", "accept", "text")
	r := &request{method: in.text("method"), timeout: in.timeout(most), text: in.flag("text"), accept: in.statuses()}
	if r.method == "" {
		r.method = http.MethodGet
	}
	if !slices.Contains(methods, r.method) {
		in.problemf("method: %s is not one of %s", quote(r.method), strings.Join(methods, ", "))
	}
	r.url = in.url()
	r.headers = in.headers()
	switch body := in.fields["body"].(type) {
	case nil:
	case string:
		r.body, r.contentType = []byte(body), "text/plain; charset=utf-8"
	default:
		r.body, r.contentType = value.Encode(body), "application/json"
	}
	if r.body != nil && (r.method == http.MethodGet || r.method == http.MethodHead) {
		in.problemf("body: %s has none", r.method)
	}
	return r, in.err()
}

// url returns the URL with the query added to it, nil if there is none.
func (in *input) url() *url.URL {
	query := in.scalars("query")
	if !in.need("url") {
		return nil
	}
	text := in.text("url")
	if len(text) > maxURL {
		in.problemf("url has %d bytes, above the limit of %d", len(text), maxURL)
		return nil
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Hostname() == "" || u.Opaque != "", strings.Contains(u.Hostname(), ":") && u.Host[0] != '[':
		in.problemf("url: it is not an absolute URL such as https://example.com/path") // the text may hold secrets
		return nil
	case u.User != nil:
		in.problemf("url: it has a user in it; use a header")
	}
	u.Fragment, u.RawFragment = "", ""
	if len(query) > 0 {
		q := u.Query()
		for name, v := range query {
			q.Set(name, v)
		}
		u.RawQuery = q.Encode()
	}
	if n := len(u.String()); n > maxURL {
		in.problemf("url and query have %d bytes, above the limit of %d", n, maxURL)
	}
	return u
}

// own are the headers that the connection sets itself.
var own = []string{
	"Connection", "Content-Length", "Expect", "Host", "Keep-Alive", "Proxy-Authorization", "Proxy-Connection", "Te", "Trailer",
	"Transfer-Encoding", "Upgrade",
}

func (in *input) headers() map[string]string {
	all, size := in.scalars("headers"), 0
	for _, name := range slices.Sorted(maps.Keys(all)) {
		size += len(name) + len(all[name])
		switch {
		case !token(name):
			in.problemf("headers: %s is not the name of a header", quote(name))
		case slices.Contains(own, http.CanonicalHeaderKey(name)):
			in.problemf("headers: %s cannot be set", quote(name))
		case strings.ContainsFunc(all[name], func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }):
			in.problemf("headers.%s has a control character in it", quote(name))
		}
	}
	if len(all) > maxHeaders || size > maxHeaderBytes {
		in.problemf("headers: %d with %d bytes, above the limit of %d with %d", len(all), size, maxHeaders, maxHeaderBytes)
	}
	return all
}

// token reports whether the text is a token of RFC 9110, section 5.6.2.
func token(text string) bool {
	const symbols = "!#$%&'*+-.^_`|~"
	return text != "" && !strings.ContainsFunc(text, func(r rune) bool {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		return !letter && !strings.ContainsRune(symbols, r)
	})
}

// statuses returns the statuses and classes of accept.
func (in *input) statuses() map[string]bool {
	out := map[string]bool{"2xx": true}
	for i, v := range in.list("accept") {
		switch v := v.(type) {
		case int64:
			if v >= 200 && v <= 999 {
				out[strconv.FormatInt(v, 10)] = true
				continue
			}
		case string:
			if len(v) == 3 && v[0] >= '2' && v[0] <= '9' && v[1:] == "xx" {
				out[v] = true
				continue
			}
		}
		in.problemf("accept[%d] is not a status such as 404 or a class such as 4xx", i)
	}
	return out
}
