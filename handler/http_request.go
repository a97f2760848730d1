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
func (r *request) String() string { return r.method + " " + redactedURL(r.url) }

// acceptsStatus reports whether a status is no failure.
func (r *request) acceptsStatus(status int) bool {
	return r.accept[strconv.Itoa(status)] || r.accept[strconv.Itoa(status/100)+"xx"]
}

var methods = []string{
	http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions,
}

func readRequest(v any, most time.Duration) (*request, error) {
	in := readInput(v, "method", "url", "query", "headers", "body", "timeout", "accept", "text")
	r := &request{method: in.textField("method"), timeout: in.timeoutField(most), text: in.boolField("text"), accept: in.readStatuses()}
	if r.method == "" {
		r.method = http.MethodGet
	}
	if !slices.Contains(methods, r.method) {
		in.addProblemf("method: %s is not one of %s", quoteText(r.method), strings.Join(methods, ", "))
	}
	r.url = in.readURL()
	r.headers = in.readHeaders()
	switch body := in.fields["body"].(type) {
	case nil:
	case string:
		r.body, r.contentType = []byte(body), "text/plain; charset=utf-8"
	default:
		r.body, r.contentType = value.Encode(body), "application/json"
	}
	if r.body != nil && (r.method == http.MethodGet || r.method == http.MethodHead) {
		in.addProblemf("body: %s has none", r.method)
	}
	return r, in.allProblems()
}

// readURL returns the URL with the query added to it, nil if the input has no valid URL.
func (in *input) readURL() *url.URL {
	query := in.scalarsField("query")
	if !in.requireField("url") {
		return nil
	}
	text := in.textField("url")
	if len(text) > maxURL {
		in.addProblemf("url has %d bytes, above the limit of %d", len(text), maxURL)
		return nil
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Hostname() == "" || u.Opaque != "", strings.Contains(u.Hostname(), ":") && u.Host[0] != '[':
		in.addProblemf("url: it is not an absolute URL such as https://example.com/path") // the text may hold secrets
		return nil
	case u.User != nil:
		in.addProblemf("url: it has a user in it; use a header")
	}
	u.Fragment, u.RawFragment = "", ""
	if len(query) > 0 {
		q, err := url.ParseQuery(u.RawQuery)
		if err != nil { // what cannot be read would be lost, where without query it is sent as it is
			in.addProblemf("url: it has a query that cannot be read, to which no parameters can be added") // the text may hold secrets
		}
		for name, v := range query {
			q.Set(name, v)
		}
		u.RawQuery = q.Encode()
	}
	if n := len(u.String()); n > maxURL {
		in.addProblemf("url and query have %d bytes, above the limit of %d", n, maxURL)
	}
	return u
}

// connectionHeaders are the headers that the connection sets itself.
var connectionHeaders = []string{
	"Connection", "Content-Length", "Expect", "Host", "Keep-Alive", "Proxy-Authorization", "Proxy-Connection", "Te", "Trailer",
	"Transfer-Encoding", "Upgrade",
}

func (in *input) readHeaders() map[string]string {
	all, size, known := in.scalarsField("headers"), 0, map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		size += len(name) + len(all[name])
		canonical := http.CanonicalHeaderKey(name)
		former, twice := known[canonical]
		known[canonical] = name
		switch {
		case !isHeaderToken(name):
			in.addProblemf("headers: %s is not the name of a header", quoteText(name))
		case slices.Contains(connectionHeaders, canonical):
			in.addProblemf("headers: %s cannot be set", quoteText(name))
		case twice:
			in.addProblemf("headers: %s and %s are one header", quoteText(former), quoteText(name))
		case strings.ContainsFunc(all[name], func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }):
			in.addProblemf("headers.%s has a control character in it", quoteText(name))
		}
	}
	if len(all) > maxHeaders || size > maxHeaderBytes {
		in.addProblemf("headers: %d with %d bytes, above the limit of %d with %d", len(all), size, maxHeaders, maxHeaderBytes)
	}
	return all
}

// isHeaderToken reports whether the text is a token of RFC 9110, section 5.6.2.
func isHeaderToken(text string) bool {
	const symbols = "!#$%&'*+-.^_`|~"
	return text != "" && !strings.ContainsFunc(text, func(r rune) bool {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		return !letter && !strings.ContainsRune(symbols, r)
	})
}

// readStatuses returns the statuses and classes that the field accept lists.
func (in *input) readStatuses() map[string]bool {
	out := map[string]bool{"2xx": true}
	for i, v := range in.listField("accept") {
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
		in.addProblemf("accept[%d] is not a status such as 404 or a class such as 4xx", i)
	}
	return out
}
