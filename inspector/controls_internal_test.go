package inspector

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Characters that a browser would obey are shown in texts, and kept in attributes.
func TestShowControls(t *testing.T) {
	for page, want := range map[string]string{
		"":                             "",
		"<p>plain\n\tשלום</p>":         "<p>plain\n\tשלום</p>",
		"<p>a\u202eb\u2066c\u061c</p>": `<p>a\u202eb\u2066c\u061c</p>`,
		"<p>\x00\x1b[2J\x7f\u0085</p>": `<p>\u0000\u001b[2J\u007f\u0085</p>`,
		"<a title=\"\u202e\" href=x>\u200f</a>\u202d": "<a title=\"\u202e\" href=x>" + `\u200f</a>\u202d`,
		"<p>\xff</p>": "<p>\xff</p>",
	} {
		require.Equal(t, want, string(showControls([]byte(page))), "%+q", page)
	}
	large := strings.Repeat("x", 1<<20)
	require.Equal(t, large+`\u202e`, string(showControls([]byte(large+"\u202e"))))
}
