package value_test

import (
	"math"

	"pgregory.net/rapid"

	"github.com/pawl-run/pawl/internal/value"
)

// model generates model values of bounded depth.
func model() *rapid.Generator[any] { return nested(4) }

func nested(depth int) *rapid.Generator[any] {
	scalars := []*rapid.Generator[any]{
		rapid.Just[any](nil),
		rapid.Bool().AsAny(),
		rapid.Int64Range(-value.MaxInteger, value.MaxInteger).AsAny(),
		rapid.Int64Range(-10, 10).AsAny(),
		double(),
		rapid.String().AsAny(),
	}
	if depth == 0 {
		return rapid.OneOf(scalars...)
	}
	inner := nested(depth - 1)
	return rapid.OneOf(append(scalars,
		rapid.SliceOfN(inner, 0, 5).AsAny(),
		rapid.MapOfN(rapid.String(), inner, 0, 5).AsAny(),
	)...)
}

// double generates numbers that the model holds as they are.
func double() *rapid.Generator[any] {
	return rapid.Custom(func(t *rapid.T) any {
		f := rapid.Float64().Filter(func(f float64) bool { return f != 0 && !math.IsInf(f, 0) }).Draw(t, "f")
		v, err := value.Float(f)
		if err != nil {
			t.Fatal(err)
		}
		return v
	})
}
