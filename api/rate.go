package api

import "github.com/pawl-run/pawl/internal/crowd"

// A Rate is how fast one caller may send requests. The two are independent: {PerSecond: 1, Burst:
// 60} lets a script send a minute's worth at once, and then one each second.
type Rate struct {
	PerSecond float64 // requests in the long run; 500 if it is 0, without a bound if it is negative
	Burst     int     // requests at once after a pause; 2,000 if it is below 1
}

// String returns the rate in words.
func (r Rate) String() string { return crowd.RateText(r.PerSecond, r.Burst) }
