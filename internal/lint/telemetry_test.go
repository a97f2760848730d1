package lint

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// otelPackages are what may be linked of OpenTelemetry: the interfaces, and what they import.
var otelPackages = map[string]bool{
	"go.opentelemetry.io/otel/attribute":                 true,
	"go.opentelemetry.io/otel/attribute/internal":        true,
	"go.opentelemetry.io/otel/attribute/internal/xxhash": true,
	"go.opentelemetry.io/otel/codes":                     true,
	"go.opentelemetry.io/otel/metric":                    true,
	"go.opentelemetry.io/otel/metric/embedded":           true,
	"go.opentelemetry.io/otel/semconv/v1.43.0":           true, // imported by trace
	"go.opentelemetry.io/otel/trace":                     true,
	"go.opentelemetry.io/otel/trace/embedded":            true,
	"go.opentelemetry.io/otel/trace/internal/telemetry":  true, // imported by trace
}

// A program with pawl has the interfaces of OpenTelemetry, and neither the SDK nor the global providers.
func TestOnlyTheInterfacesOfTelemetry(t *testing.T) {
	out, err := goCommand(filepath.Join("..", ".."), "list", "-deps", ".", "./api", "./blob", "./cluster", "./cmd/pawl", "./handler", "./inspector", "./pawltest", "./rescue", "./worker", "./workflow")
	require.NoError(t, err)
	found := 0
	for path := range strings.FieldsSeq(out) {
		if strings.HasPrefix(path, "go.opentelemetry.io/") {
			found++
			require.True(t, otelPackages[path], "%s is linked into programs with pawl", path)
		}
	}
	require.Equal(t, len(otelPackages), found)
}
