package settings

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/batchfleet/batchfleet/jobs"
)

// Numbers is a range such as 5-20, or one number.
type Numbers struct{ Low, High float64 }

// Decode implements [envconfig.Decoder].
func (n *Numbers) Decode(value string) error {
	low, high, isRange := strings.Cut(value, "-")
	if !isRange {
		high = low
	}
	var err, err2 error
	n.Low, err = strconv.ParseFloat(strings.TrimSpace(low), 64)
	n.High, err2 = strconv.ParseFloat(strings.TrimSpace(high), 64)
	if err != nil || err2 != nil || !(0 <= n.Low && n.Low <= n.High && n.High <= jobs.MaxPages) {
		return fmt.Errorf("give a number or a range such as 5-20, from 0 to %d", jobs.MaxPages)
	}
	return nil
}
