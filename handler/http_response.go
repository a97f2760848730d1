package handler

import (
	"context"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/limits"
	"github.com/pawl-run/pawl/internal/value"
)

// readResponse returns a response as the output of the task, or the error that it is.
func (h *requester) readResponse(ctx context.Context, r *request, resp *http.Response) (any, error) {
	if !r.acceptsStatus(resp.StatusCode) {
		failure := statusFailure(r, resp)
		failure.RetryAfter = max(min(retryAfter(resp.Header.Get("Retry-After"), time.Now()), h.options.MaxRetryAfter), 0)
		return nil, failure
	}
	most := h.options.ResponseBytes
	data, err := io.ReadAll(io.LimitReader(resp.Body, int64(most)+1))
	if err != nil {
		return nil, exchangeFailure(ctx, r, err)
	}
	if len(data) > most {
		return nil, permanentError(CodeHTTPTooLarge, "%s: the body exceeds the limit of %d bytes", r, most)
	}
	body, err := decodeBody(data, !r.text && isJSON(resp.Header.Get("Content-Type")))
	if err != nil {
		return nil, permanentError(CodeHTTPBody, "%s: the body is %v", r, err)
	}
	return map[string]any{"status": resp.StatusCode, "headers": responseHeaders(resp.Header), "body": body}, nil
}

// statusFailure returns the error of a response whose status the input does not accept.
func statusFailure(r *request, resp *http.Response) pawl.TaskError {
	message := fmt.Sprintf("%s: %d %s", r, resp.StatusCode, http.StatusText(resp.StatusCode))
	if after := resp.Header.Get("Retry-After"); after != "" {
		message += ", Retry-After " + quoteText(after)
	}
	var excerpt []byte
	if resp.StatusCode >= http.StatusOK { // 101 has no body, but a connection that speaks another protocol
		// The text only helps to understand: half of it will do.
		excerpt, _ = io.ReadAll(io.LimitReader(resp.Body, maxExcerpt))
	}
	if text := strings.TrimSpace(strings.ToValidUTF8(string(excerpt), "\uFFFD")); text != "" {
		message += ": " + text
	}
	failure := permanentError(fmt.Sprintf("http_%dxx", resp.StatusCode/100), "%s", message)
	switch resp.StatusCode {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		failure.Retryable = true
	default:
		failure.Retryable = resp.StatusCode/100 == 5
	}
	return failure
}

// retryAfter returns the delay that a header Retry-After asks for, in seconds or as a date
// (RFC 9110, section 10.2.3); 0 if it asks for none.
func retryAfter(header string, now time.Time) time.Duration {
	if n, err := strconv.ParseUint(header, 10, 64); err == nil {
		return time.Duration(min(n, uint64(limits.MaxRetryAfter/time.Second))) * time.Second
	}
	at, err := http.ParseTime(header)
	if err != nil {
		return 0
	}
	return max(at.Sub(now), 0)
}

// isJSON reports whether a media type is JSON: application/json, or one with the
// suffix +json (RFC 6839).
func isJSON(contentType string) bool {
	media, _, err := mime.ParseMediaType(contentType)
	return err == nil && (media == "application/json" || strings.HasSuffix(media, "+json"))
}

// decodeBody returns JSON or text as a value, nil if it is empty. Its error
// continues "it is ".
func decodeBody(data []byte, asJSON bool) (any, error) {
	if len(data) == 0 {
		return nil, nil
	}
	if asJSON {
		v, err := value.Decode(data, value.Limits{Bytes: len(data)})
		if err != nil {
			return nil, fmt.Errorf("not JSON: %w", err)
		}
		return v, nil
	}
	if !utf8.Valid(data) {
		return nil, fmt.Errorf("not UTF-8")
	}
	return string(data), nil
}

// responseHeaders returns the headers of a response. Set-Cookie is left out: it is a
// secret, which a run would store, and its values cannot be joined.
func responseHeaders(h http.Header) map[string]any {
	out := map[string]any{}
	for name, values := range h {
		if name != "Set-Cookie" {
			out[strings.ToLower(name)] = strings.ToValidUTF8(strings.Join(values, ", "), "\uFFFD")
		}
	}
	return out
}
