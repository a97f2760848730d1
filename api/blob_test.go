package api_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/workflow"
)

// A blob that a caller stores is read by its hash, as a file that browsers save.
func TestBlobs(t *testing.T) {
	e, _ := openEngine(t, pawl.Options{})
	h := everything(e)
	status, text := send(t, h, http.MethodPost, "/v1/blobs?type=text/csv", "a,b\n")
	require.Equal(t, http.StatusCreated, status, text)
	hash, _ := object(t, text)["$blob"].(string)
	require.Equal(t, map[string]any{"$blob": hash, "size": 4.0, "type": "text/csv"}, object(t, text))

	ask := func(method, tag string) *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(t.Context(), method, "http://localhost/v1/blobs/"+hash, nil)
		r.Header.Set("If-None-Match", tag)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	w := ask(http.MethodGet, "")
	require.Equal(t, "a,b\n", w.Body.String())
	require.Equal(t, []string{"attachment", "application/octet-stream", "nosniff"},
		[]string{w.Header().Get("Content-Disposition"), w.Header().Get("Content-Type"), w.Header().Get("X-Content-Type-Options")})
	w = ask(http.MethodGet, w.Header().Get("ETag"))
	require.Equal(t, http.StatusNotModified, w.Code)
	require.Empty(t, w.Body.String())
	w = ask(http.MethodHead, "")
	require.Equal(t, http.StatusOK, w.Code)
	require.Empty(t, w.Body.String())
}

// Blobs are for those who have the rights, and refused as all else is.
func TestBlobsAreRefused(t *testing.T) {
	e, _ := openEngine(t, pawl.Options{})
	ref, err := e.PutBlob(t.Context(), strings.NewReader("a"), "")
	require.NoError(t, err)
	with := func(rights api.Rights, o api.Options) http.Handler {
		o.Identify = everybody(rights)
		return api.Handler(e, o)
	}
	none := strings.Repeat("0", 64)
	for _, c := range []struct {
		of           http.Handler
		method, path string
		status       int
		want         string
	}{
		{with(api.View|api.Act|api.Define, api.Options{}), http.MethodGet, ref.Hash, 403, "forbidden"},
		{with(api.View|api.Values, api.Options{}), http.MethodPost, "", 403, "forbidden"},
		{with(api.All, api.Options{Redact: func(_ workflow.RunID, _ string, v any) any { return v }}), http.MethodGet, ref.Hash, 403, "redacted"},
		{with(api.All, api.Options{}), http.MethodGet, "sha256:" + none, 404, "blob_missing"},
		{with(api.All, api.Options{}), http.MethodGet, "sha256:" + none[1:], 400, "invalid_request"},
		{with(api.All, api.Options{}), http.MethodGet, "..%2f..%2fpawl.db", 400, "invalid_request"},
		{with(api.All, api.Options{}), http.MethodGet, ref.Hash + "?at=1", 400, "invalid_request"},
		{with(api.All, api.Options{}), http.MethodPost, "?type=" + strings.Repeat("x", 256), 400, "invalid_request"},
		{with(api.All, api.Options{MaxBlob: 3}), http.MethodPost, "", 413, "more than 3 bytes"},
	} {
		path := "/v1/blobs"
		if c.method == http.MethodGet {
			path += "/"
		}
		status, text := send(t, c.of, c.method, path+c.path, "four")
		require.Equal(t, c.status, status, "%s %s: %s", c.method, c.path, text)
		require.Contains(t, text, c.want)
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/v1/blobs", strings.NewReader("packed"))
	r.Header.Set("Content-Encoding", "gzip")
	w := httptest.NewRecorder()
	everything(e).ServeHTTP(w, r)
	require.Equal(t, http.StatusUnsupportedMediaType, w.Code)
}

// A client stores and reads blobs of any size as streams. A source that breaks is an error at both ends, and a blob that is damaged
// never looks whole.
func TestBlobsOfAClient(t *testing.T) {
	e, dir := openEngine(t, pawl.Options{})
	server := httptest.NewServer(everything(e))
	t.Cleanup(server.Close)
	c := api.NewClient(server.URL, server.Client())
	defer c.Close()
	content := bytes.Repeat([]byte("pawl"), 1<<20)
	ref, err := c.PutBlob(t.Context(), bytes.NewReader(content), "text/plain")
	require.NoError(t, err)
	require.Equal(t, blob.Ref{Hash: ref.Hash, Size: 4 << 20, Type: "text/plain"}, ref)
	read := func() ([]byte, error) {
		r, err := c.OpenBlob(t.Context(), ref)
		if err != nil {
			return nil, err
		}
		defer r.Close()
		return io.ReadAll(r)
	}
	got, err := read()
	require.NoError(t, err)
	require.True(t, bytes.Equal(content, got))

	_, err = c.PutBlob(t.Context(), nil, "")
	require.ErrorIs(t, err, pawl.ErrInvalid)
	broken := errors.New("the source has broken")
	_, err = c.PutBlob(t.Context(), io.MultiReader(bytes.NewReader(content[:1<<20]), iotest.ErrReader(broken)), "")
	require.ErrorIs(t, err, broken)
	_, err = c.OpenBlob(t.Context(), blob.Ref{Hash: "sha256:1"})
	require.ErrorIs(t, err, pawl.ErrInvalid)
	_, err = c.OpenBlob(t.Context(), blob.Ref{Hash: "sha256:" + strings.Repeat("0", 64)})
	require.ErrorIs(t, err, blob.ErrMissing)

	var file string
	require.NoError(t, filepath.WalkDir(filepath.Join(dir, "blobs"), func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && strings.Contains(path, ref.Hash[len(ref.Hash)-8:]) {
			file = path
		}
		return err
	}))
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	require.NoError(t, err)
	_, err = f.WriteAt([]byte("PAWL"), 3<<20)
	require.NoError(t, errors.Join(err, f.Close()))
	_, err = read()
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
}

// An export that cannot be ended tells why, in this process and over a connection, and nothing of that is in the text.
func TestExportOfLostBlobs(t *testing.T) {
	e, dir := openEngine(t, pawl.Options{})
	server := httptest.NewServer(everything(e))
	t.Cleanup(server.Close)
	c := api.NewClient(server.URL, server.Client())
	defer c.Close()
	ref, err := e.PutBlob(t.Context(), strings.NewReader(strings.Repeat("pawl", 1<<20)), "")
	require.NoError(t, err)
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "r", Definition: parse(t, order)}, map[string]any{"file": ref}))
	digits := strings.TrimPrefix(ref.Hash, "sha256:")
	file := filepath.Join(dir, "blobs", digits[:2], digits[2:])
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	require.NoError(t, err)
	_, err = f.WriteAt([]byte("PAWL"), 3<<20)
	require.NoError(t, errors.Join(err, f.Close()))
	for _, lost := range []error{blob.ErrDamaged, blob.ErrMissing} {
		for _, from := range []interface {
			Export(context.Context, workflow.RunID, io.Writer, pawl.ExportOptions) error
		}{e, c} {
			var text bytes.Buffer
			err := from.Export(t.Context(), "r", &text, pawl.ExportOptions{AllBlobs: true})
			require.ErrorIs(t, err, lost)
			require.ErrorContains(t, err, ref.Hash)
			require.NotContains(t, text.String(), `"error"`)
			require.NotContains(t, text.String(), `"end"`)
			err = from.Export(t.Context(), "r", io.Discard, pawl.ExportOptions{Blobs: true})
			require.Equal(t, errors.Is(lost, blob.ErrDamaged), err != nil, "only that of all blobs needs one that is missing: %v", err)
		}
		require.NoError(t, os.RemoveAll(file))
	}
}

// A client believes no answer whose content is not that of the hash: a proxy may have cut it off without a word.
func TestBlobsOverABadConnection(t *testing.T) {
	h := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "the beginning")
	})
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	c := api.NewClient(server.URL, server.Client())
	defer c.Close()
	r, err := c.OpenBlob(t.Context(), blob.Ref{Hash: "sha256:" + strings.Repeat("0", 64)})
	require.NoError(t, err)
	_, err = io.ReadAll(r)
	require.ErrorIs(t, err, blob.ErrDamaged)
	require.NoError(t, r.Close())
}
