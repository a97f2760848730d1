package inspector

import (
	"crypto/sha256"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// sendForm sends a form with a name to a page that answers with a text, and returns the answer; "" if check refuses.
func sendForm(t *testing.T, s *server, name, text string, check error) string {
	t.Helper()
	w := httptest.NewRecorder()
	p := s.newPage(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/act", http.NoBody))
	err := p.performOnce(url.Values{"once": {name}}, func() error { return check }, func() (bool, error) {
		p.w.WriteHeader(http.StatusOK)
		_, err := p.w.Write([]byte(text))
		return true, err
	})
	require.ErrorIs(t, err, check)
	return w.Body.String()
}

// Answers are remembered up to a number and a size; those that came first go first. A form that was left undone takes no place.
func TestAnswersAreForgotten(t *testing.T) {
	s := newServer(nil, Options{})
	for i := range keptSent {
		name := strconv.Itoa(i)
		require.Empty(t, sendForm(t, s, "wrong "+name, "", errAct))
		require.Equal(t, name, sendForm(t, s, name, name, nil))
	}
	require.Equal(t, "0", sendForm(t, s, "0", "again", nil))
	require.Equal(t, "done", sendForm(t, s, "one more", "done", nil))
	require.Equal(t, "again", sendForm(t, s, "0", "again", nil))
	require.Equal(t, "2", sendForm(t, s, "2", "again", nil))
	require.Len(t, s.sent.forms, keptSent)

	large := strings.Repeat("x", keptSentBytes/2)
	for _, name := range []string{"a", "b", "c"} {
		require.Equal(t, large, sendForm(t, s, name, large, nil))
	}
	require.Len(t, s.sent.forms, 2)
	require.Equal(t, "again", sendForm(t, s, "2", "again", nil))
	require.Len(t, s.sent.order, len(s.sent.forms))
}

// A form whose act ends in a panic is not done once more: nobody knows how far it came.
func TestAFormThatPanicsIsDoneOnce(t *testing.T) {
	s := newServer(nil, Options{})
	p := s.newPage(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/act", http.NoBody))
	fields := url.Values{"once": {"a"}}
	require.Panics(t, func() {
		_ = p.performOnce(fields, func() error { return nil }, func() (bool, error) { panic(errors.New("broken")) })
	})
	form := s.sent.forms[sha256.Sum256([]byte("\na"))]
	<-form.done
	require.Equal(t, http.StatusInternalServerError, form.answer.status)
	require.Empty(t, sendForm(t, s, "a", "again", nil))
}
