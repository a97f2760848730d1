package traceparent

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace"
)

const example = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// The examples of the standard, and what it says must be refused.
func TestParse(t *testing.T) {
	for text, valid := range map[string]bool{
		example: true,
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00":       true,
		"cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01":       true, // of a later version
		"cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-later": true,
		"cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01later":  false,
		"": false,
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more": false,
		"ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01":      false,
		"00-00000000000000000000000000000000-b7ad6b7169203331-01":      false,
		"00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01":      false,
		"00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01":      false,
		"00-0af7651916cd43dd8448eb211c80319c+b7ad6b7169203331-01":      false,
		"00-0af7651916cd43dd8448eb211c80319x-b7ad6b7169203331-01":      false,
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0":       false,
	} {
		require.Equal(t, valid, Parse(text, "").IsValid(), text)
	}
	sc := Parse(example, "congo=t61rcWkgMzE,rojo=00f067aa0ba902b7")
	require.True(t, sc.IsRemote())
	require.True(t, sc.IsSampled())
	parent, state := Format(sc)
	require.Equal(t, example, parent)
	require.Equal(t, "congo=t61rcWkgMzE,rojo=00f067aa0ba902b7", state)

	require.True(t, Parse(example, "no state").IsValid(), "a bad tracestate does not spoil the trace")
	long := Parse(example, "a="+strings.Repeat("x", 256)+",b="+strings.Repeat("x", 256))
	require.True(t, long.IsValid())
	require.Zero(t, long.TraceState().Len())
}

func TestContexts(t *testing.T) {
	ctx := With(context.Background(), example, "a=b")
	parent, state := Of(ctx)
	require.Equal(t, example, parent)
	require.Equal(t, "a=b", state)
	for _, bad := range []string{"", "nonsense"} {
		require.Equal(t, context.Background(), With(context.Background(), bad, ""))
	}
	parent, state = Of(context.Background())
	require.Empty(t, parent+state)
}

// Parse reads no text that Format does not write again as it was.
func FuzzParse(f *testing.F) {
	f.Add(example, "a=b")
	f.Add("cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-later", "")
	f.Fuzz(func(t *testing.T, parent, state string) {
		sc := Parse(parent, state)
		if !sc.IsValid() {
			return
		}
		text, kept := Format(sc)
		require.Equal(t, parent[2:len(example)], text[2:])
		require.True(t, Parse(text, kept).Equal(sc))
		require.True(t, trace.SpanContextFromContext(With(context.Background(), parent, state)).Equal(sc))
	})
}
